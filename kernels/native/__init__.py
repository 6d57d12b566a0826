"""Bindings of the kernels compiled from native/src. Knows no row and no NumPy kernel."""
