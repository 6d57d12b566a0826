"""Model files: bytes to a graph of tensors and nodes, and training info. Knows no training."""
