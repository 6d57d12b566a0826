"""Epilogues: computations that a compiled kernel applies to its result in registers."""

from odt.kernels.opdef import Array

ReluMask = tuple[Array, float, float]
Clamp = tuple[float, float]
