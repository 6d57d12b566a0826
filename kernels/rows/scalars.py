"""Numbers of Python, NumPy and similar packages as values of options."""

import sys
from numbers import Real
from typing import Any, TypeGuard


def plain(value: Any) -> Any:
    """Returns a scalar of NumPy, or an array without axes, as a value of Python."""
    is_scalar = hasattr(type(value), "item") and getattr(value, "ndim", None) == 0
    return value.item() if is_scalar else value


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a real number that a float can hold; True and False are none."""
    number = plain(value)
    is_real = isinstance(number, Real) and not isinstance(number, bool)
    return is_real and bool(abs(number) <= sys.float_info.max)
