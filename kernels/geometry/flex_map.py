"""Options of custom operators: a FlexBuffers map of numbers and vectors of numbers."""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.errors import ShapeError
from odt.kernels.rows.opdef import Options

Numbers = tuple[float, ...]
_DAMAGED = (ValueError, LookupError, TypeError, ArithmeticError, struct.error)


def unpack_map(options: Options, sizes: Mapping[str, int | None]) -> Mapping[str, Numbers]:
    """Returns fields of the map in `custom_options`, each as a tuple of numbers.

    Args:
        options: the operator's options.
        sizes: number of values by field; None for any number.

    Raises:
        ShapeError: if the bytes are not such a map, or a field is absent, has another size, or is
            not finite.
    """
    data = options.get("custom_options", b"")
    numbers = {}
    for name, size in sizes.items():
        try:
            values = _numbers(data, name)
        except _DAMAGED as e:
            raise ShapeError(
                f"custom_options must be a FlexBuffers map with {', '.join(sizes)}, "
                f"but got no {name} in its {len(data)} bytes"
            ) from e
        if size not in (None, len(values)):
            count = "1 number" if size == 1 else f"{size} numbers"
            raise ShapeError(f"{name} must have {count}, but got {values}")
        if not np.all(np.isfinite(values)):
            raise ShapeError(f"{name} must be finite, but got {values}")
        numbers[name] = values
    return numbers


def has_field(options: Options, name: str) -> bool:
    """Whether `custom_options` is a map with this field of numbers."""
    try:
        _numbers(options.get("custom_options", b""), name)
    except _DAMAGED:
        return False
    return True


def _numbers(data: bytes, name: str) -> Numbers:
    from flatbuffers import flexbuffers

    value: Any = flexbuffers.GetRoot(data).AsMap[name]
    if value.IsNumeric or value.IsBool:
        return (float(value.Value),)
    vector = value.AsTypedVector if value.IsTypedVector else value.AsFixedTypedVector
    return tuple(map(float, vector.Value))
