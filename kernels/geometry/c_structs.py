"""Options of custom operators that are stored as a C struct: 32-bit integers, little-endian."""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.window import SAME, VALID
from odt.kernels.rows.opdef import Options

TRANSPOSE_CONV = ("padding", "stride_w", "stride_h")  # TfLiteTransposeConvParams
POOL = (  # TfLitePoolParams
    *TRANSPOSE_CONV,
    "filter_width",
    "filter_height",
    "fused_activation_function",
)
_PADDINGS = {1: SAME, 2: VALID}  # TfLitePadding → Padding of the schema


def unpack_struct(options: Options, fields: tuple[str, ...]) -> Mapping[str, int]:
    """Returns the fields of the struct in `custom_options`, with the schema's numbers for padding.

    Bytes after the last field are ignored: they are computed by runtimes.

    Raises:
        ShapeError: if the struct is too short, or its padding is unknown.
    """
    data = options.get("custom_options", b"")
    if len(data) < 4 * len(fields):
        raise ShapeError(
            f"custom_options must have {4 * len(fields)} bytes ({', '.join(fields)}), "
            f"but got {len(data)}"
        )
    values = np.frombuffer(data, "<i4", len(fields)).tolist()
    members = dict(zip(fields, values, strict=True))
    if members["padding"] not in _PADDINGS:
        raise ShapeError(f"padding must be SAME (1) or VALID (2), but got {members['padding']}")
    return {**members, "padding": _PADDINGS[members["padding"]]}
