"""Kernels, shape inference and rows that operators share. Independent of single operators."""
