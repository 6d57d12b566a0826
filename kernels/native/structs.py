"""The structs of src/abi.h, field by field; library.py compares their sizes with those in C."""

import ctypes
from ctypes import c_float, c_int64, c_void_p
from typing import Any

# A wrong value gives a struct another size, which library.py detects.
MAX_RANK = 6
MAX_INPUTS = 3
MAX_OUTER_AXES = 4


def _integers(*names: str) -> list[tuple[str, Any]]:
    return [(name, c_int64) for name in names]


VOLUME_FIELDS = (  # of walks, which programs without volumes leave out
    *_integers("planes", "planes_out", "plane_stride", "start_d", "stride_d", "out_plane"),
    ("taps_d", c_int64),
    *((name, c_void_p) for name in ("plane_taps", "plane_weights")),
)


class WindowWalk(ctypes.Structure):
    lists: Any  # the memory that the pointers point to

    _fields_ = [
        *_integers("images", "rows", "cols", "depth", "units"),
        *_integers("image_stride", "row_stride", "col_stride"),
        *_integers("height", "width"),
        *_integers("start_h", "stride_h", "start_w", "stride_w"),
        *_integers("out_start", "out_image", "out_row", "out_col"),
        *_integers("depth_stride", "unit_stride"),
        *_integers("taps_h", "taps_w", "tiled"),
        *((name, c_void_p) for name in ("row_taps", "row_weights", "col_taps", "col_weights")),
        *VOLUME_FIELDS,
    ]


class ElementwiseShape(ctypes.Structure):
    _fields_ = [
        ("rank", c_int64),
        ("sizes", c_int64 * MAX_RANK),
        ("y", c_int64 * MAX_RANK),
        ("inputs", c_int64 * MAX_RANK * MAX_INPUTS),
    ]


class MatmulShape(ctypes.Structure):
    _fields_ = [
        *_integers("count", "rows", "blocks", "depth", "columns"),
        *_integers(
            "left_matrix_stride", "left_row_stride", "left_block_stride", "left_depth_stride"
        ),
        *_integers(
            "right_matrix_stride",
            "right_block_stride",
            "right_depth_stride",
            "right_column_stride",
        ),
    ]


class TransposeShape(ctypes.Structure):
    _fields_ = [
        ("rank", c_int64),
        *((name, c_int64 * MAX_OUTER_AXES) for name in ("sizes", "x", "y")),
        *_integers("lines", "length", "x_line_stride", "x_stride", "y_line_stride"),
    ]


class RecurrentShape(ctypes.Structure):
    _fields_ = [
        *_integers("samples", "steps", "depth", "units", "gates"),
        *_integers("sample_stride", "step_stride", "is_tanh"),
        *((name, c_float) for name in ("lo", "hi")),
    ]


class IntegerLstmShape(ctypes.Structure):
    _fields_ = [
        *_integers("samples", "steps", "depth", "units", "out", "gates"),
        *_integers("sample_stride", "step_stride", "cell_lo", "cell_hi", "bits"),
        ("m", c_int64 * 4),
        *_integers("hidden_zero", "hidden_lo", "hidden_hi", "zero", "lo", "hi"),
    ]


class BoundCall(ctypes.Structure):
    _fields_ = [(name, c_void_p) for name in ("call", "kernel", "slots")]


class CallList(ctypes.Structure):
    _fields_ = [("calls", c_void_p), ("count", c_int64)]


STRUCTS: dict[str, type[ctypes.Structure]] = {
    "window_walk": WindowWalk,
    "elementwise_shape": ElementwiseShape,
    "matmul_shape": MatmulShape,
    "transpose_shape": TransposeShape,
    "recurrent_shape": RecurrentShape,
    "integer_lstm_shape": IntegerLstmShape,
    "bound_call": BoundCall,
    "call_list": CallList,
}
