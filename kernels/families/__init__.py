"""Kernels, shape inference and rows that several operators share; independent of operators."""
