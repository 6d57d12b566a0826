"""What a kernel does to its result while it is in registers."""

from odt.kernels.opdef import Array

Gate = tuple[Array, float, float]
Clamp = tuple[float, float]
