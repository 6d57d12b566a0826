"""Arithmetic of quantized files: fake quantization, integer graphs. Independent of plans."""
