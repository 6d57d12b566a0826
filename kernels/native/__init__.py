"""Bindings of the kernels compiled from native/src; independent of rows and NumPy kernels."""
