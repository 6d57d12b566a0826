"""Rows of operators on quantized tensors, one module for each operator.

They have no gradients: training uses the rows of kernels/ops with fake quantization.
"""
