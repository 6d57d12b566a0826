"""Bindings of the kernels compiled from native/src. Independent of rows and NumPy kernels."""
