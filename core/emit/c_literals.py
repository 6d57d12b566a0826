"""C literals: numbers with all their bits, arrays, and the structs of src/abi.h."""

import ctypes
import re
from typing import Any

import numpy as np

from odt.kernels.native.structs import STRUCTS, VOLUME_FIELDS
from odt.kernels.rows.opdef import Array

WORDS_OF_A_LINE = 8
# The lists that pointers of a struct point to: the field with the number of their elements.
LISTS = {
    "row_taps": "taps_h",
    "row_weights": "taps_h",
    "col_taps": "taps_w",
    "col_weights": "taps_w",
    "plane_taps": "taps_d",
    "plane_weights": "taps_d",
}


def float_literal(value: float) -> str:
    """Returns a float32 as C."""
    number = np.float32(value)
    if np.isinf(number):
        return "-INFINITY" if number < 0 else "INFINITY"
    return "NAN" if np.isnan(number) else f"{float(number).hex()}f"


def words(data: bytes) -> str:
    """Returns bytes as the values of an array of uint32_t; zeros fill the last one."""
    padded = np.frombuffer(data + bytes(-len(data) % 4), "<u4").tolist()
    lines = (padded[at : at + WORDS_OF_A_LINE] for at in range(0, len(padded), WORDS_OF_A_LINE))
    return ",\n  ".join(", ".join(map(hex, line)) for line in lines)


def array_bytes(a: Array) -> bytes:
    """Returns the bytes of an array as a little-endian machine has them."""
    return np.ascontiguousarray(a, a.dtype.newbyteorder("<")).tobytes()


def comment_text(name: str) -> str:
    """Returns a name from a model as text that cannot end a comment or a line."""
    return re.sub(r"[^\w ./:;,-]", "_", name, flags=re.ASCII)[:80]


class Declarations:
    """Constants of a C file; equal ones are declared once.

    Attributes:
        lines: the declarations.
    """

    def __init__(self, *, volumes: bool = True) -> None:
        """Makes no declarations yet.

        Args:
            volumes: whether the program reads windows of volumes; else it has no fields for them.
        """
        self._left_out = frozenset() if volumes else frozenset(name for name, _ in VOLUME_FIELDS)
        self.lines: list[str] = []
        self._names: dict[object, str] = {}

    def struct(self, a: Any) -> tuple[str, str]:
        """Returns the type and the name of an array of one or more structs."""
        each = list(a) if isinstance(a, ctypes.Array) else [a]
        kind = next(name for name, struct in STRUCTS.items() if isinstance(each[0], struct))
        text = ",\n  ".join(map(self._fields, each))
        return kind, self._declare((kind, text), f"const {kind}", kind, text)

    def _fields(self, struct: ctypes.Structure) -> str:
        values = []
        for name, *_ in struct._fields_:
            if name in self._left_out:
                continue
            value = getattr(struct, name)
            if name in LISTS:
                values.append(self._list(ctypes.string_at(value, 8 * getattr(struct, LISTS[name]))))
            else:
                values.append(_value(value))
        return f"{{{', '.join(values)}}}"

    def _list(self, data: bytes) -> str:
        text = ", ".join(map(str, np.frombuffer(data, np.int64)))
        return self._declare(("list", data), "const int64_t", "list", text)

    def _declare(self, key: object, kind: str, prefix: str, values: str) -> str:
        if key not in self._names:
            name = self._names[key] = f"{prefix}_{len(self._names)}"
            self.lines.append(f"static {kind} {name}[] = {{{values}}};")
        return self._names[key]


def _value(value: Any) -> str:
    if isinstance(value, ctypes.Array):
        return f"{{{', '.join(map(_value, value))}}}"
    return float_literal(value) if isinstance(value, float) else str(value)
