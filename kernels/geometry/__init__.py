"""Attributes of operators and index arithmetic; independent of kernels."""
