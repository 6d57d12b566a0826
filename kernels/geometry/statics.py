"""Reads the values of static inputs."""

from collections.abc import Mapping

from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array


def number(name: str, statics: Mapping[str, Array]) -> int:
    """Returns the value of a static input that is a single integer.

    Raises:
        ShapeError: if it has more values or none.
    """
    value = statics[name]
    if value.size != 1:
        raise ShapeError(f"{name} must be one number, but got {value.size}")
    return int(value.flat[0])
