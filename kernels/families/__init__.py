"""Kernels, shape inference and rows that several operators share."""
