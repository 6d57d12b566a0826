"""Zero gradients, for piecewise constant operators, as in TensorFlow and PyTorch."""

from odt.kernels.native.typed import clear
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Kernel, always


def fill(attrs: Attrs, **dx: Array) -> None:
    for a in dx.values():
        a.fill(0)


def zero(name: str) -> Kernel:
    """Makes the kernel of a gradient by the input `name` that is 0 everywhere."""
    return Kernel(fill, reads=(), writes=(f"d{name}",), compiled=Compiled(clear, always))
