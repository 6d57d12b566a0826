"""Attributes of operators and index arithmetic. Independent of kernels."""
