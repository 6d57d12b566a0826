"""Epilogues: what a compiled kernel does to its result while it is in registers."""

from odt.kernels.opdef import Array

ReluMask = tuple[Array, float, float]
Clamp = tuple[float, float]
