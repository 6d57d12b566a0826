"""The arithmetic of quantized files: fake quantization, and the graph of their integers."""
