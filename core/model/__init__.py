"""Model files: parsing to a graph, training info, dequantization. Independent of training."""
