"""LiteRT as judge of operators on floats, in small files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.judges import difference, litert, odt, random_inputs

Build = Callable[[ModelBuilder], int]
SHAPE = (1, 4, 5)


def cumsum(axis: int, **options: Any) -> Build:
    def build(b: ModelBuilder) -> int:
        x = b.add_input(SHAPE)
        return b.add_operator("CUMSUM", (x, b.add_constant(axis)), SHAPE, **options)

    return build


def update(start: Sequence[int]) -> Build:
    """An input with a block of another input."""

    def build(b: ModelBuilder) -> int:
        inputs = b.add_input(SHAPE), b.add_input((1, 2, 3)), b.add_constant(list(start))
        return b.add_operator("DYNAMIC_UPDATE_SLICE", inputs, SHAPE)

    return build


def update_constant(b: ModelBuilder) -> int:
    """A constant with a block of an input, at a place that another input gives."""
    start = b.add_constant(np.array([[0, 1, 2]], np.int32))
    number = b.add_input((1, 1), "int32")
    places = b.add_operator("MUL", (start, number), (1, 3), dtype="int32")
    places = b.add_operator("RESHAPE", (places, b.add_constant([3])), (3,), dtype="int32")
    inputs = b.add_weight(SHAPE, 1), b.add_input((1, 2, 3)), places
    return b.add_operator("DYNAMIC_UPDATE_SLICE", inputs, SHAPE)


def spectrum(op: str, length: Sequence[int], x: Sequence[int] = (1, 3, 4, 16)) -> Build:
    """Real numbers by `op` from a spectrum, whose complex values a RESHAPE moves."""

    def build(b: ModelBuilder) -> int:
        y = (*x[:2], length[0], length[1] // 2 + 1)
        flat = (1, *y[1:2], y[2] * y[3])
        inputs = b.add_input(x), b.add_constant(list(length))
        z = b.add_operator("RFFT2D", inputs, y, dtype="complex64")
        z = b.add_operator("RESHAPE", (z, b.add_constant(list(flat))), flat, dtype="complex64")
        return b.add_operator(op, (z,), flat)

    return build


def diagonal(b: ModelBuilder) -> int:
    """Matrices of an input with the sums of another one's rows in the diagonal."""
    x, rows = b.add_input((1, 3, 4)), b.add_input((1, 3))
    matrices = b.add_operator("MATRIX_DIAG", (rows,), (1, 3, 3))
    new = b.add_operator("SUM", (matrices, b.add_constant([2])), (1, 3))
    return b.add_operator("MATRIX_SET_DIAG", (x, new), (1, 3, 4))


def segments(b: ModelBuilder) -> int:
    """Sums of the rows of each sample, whose leading axis of 1 a RESHAPE removes."""
    x = b.add_operator("RESHAPE", (b.add_input((1, 6, 2)), b.add_constant([6, 2])), (6, 2))
    y = b.add_operator("SEGMENT_SUM", (x, b.add_constant([0, 0, 1, 2, 2, 2])), (3, 2))
    return b.add_operator("RESHAPE", (y, b.add_constant([1, 3, 2])), (1, 3, 2))


def volumes(padding: int, stride: int, size: int) -> Build:
    """CONV_3D, and CONV_3D_TRANSPOSE back to the shape of the input."""

    def build(b: ModelBuilder) -> int:
        x = b.add_input((1, 4, 5, 6, 2))
        steps = {f"stride_{axis}": stride if axis == "d" else 1 for axis in "dhw"}
        options: dict[str, Any] = {"padding": padding, **steps}
        shape = (1, size, 5 - padding * 2, 6 - padding, 3)
        w, back = b.add_weight((3, 3, 2, 2, 3), 8), b.add_weight((3, 3, 2, 2, 3), 8)
        bias = b.add_constant(np.arange(3, dtype=np.float32))
        y = b.add_operator("CONV_3D", (x, w, bias), shape, **options)
        target = b.add_constant([1, 4, 5, 6, 2])
        return b.add_operator("CONV_3D_TRANSPOSE", (target, back, y), (1, 4, 5, 6, 2), **options)

    return build


def pixels(b: ModelBuilder) -> int:
    """Some pixels of each image, put to other places; the indices count the one image of a file."""
    x = b.add_input((1, 4, 5, 2))
    read = b.add_constant([[0, 3, 1], [0, 0, 4], [0, 3, 1]])
    y = b.add_operator("GATHER_ND", (x, read), (3, 2))
    y = b.add_operator("MUL", (y, y), (3, 2))
    write, shape = b.add_constant([[0, 1], [0, 2], [0, 1]]), b.add_constant([1, 4, 2])
    return b.add_operator("SCATTER_ND", (write, y, shape), (1, 4, 2))


OPERATORS: dict[str, Build] = {
    "gather_nd, scatter_nd": pixels,
    "conv_3d, conv_3d_transpose": volumes(0, 1, 4),
    "conv_3d, conv_3d_transpose, strides": volumes(0, 2, 2),
    "conv_3d, conv_3d_transpose, valid": volumes(1, 1, 2),
    "matrix_diag, matrix_set_diag": diagonal,
    "segment_sum": segments,
    "cumsum": cumsum(-1),
    "cumsum, exclusive": cumsum(1, exclusive=True),
    "cumsum, reverse": cumsum(2, reverse=True),
    "cumsum, both": cumsum(1, exclusive=True, reverse=True),
    "dynamic_update_slice": update([0, 1, 2]),
    "dynamic_update_slice, outside": update([3, -1, 4]),
    "dynamic_update_slice, computed": update_constant,
    "rfft2d, real": spectrum("REAL", [4, 16]),
    "rfft2d of rows, imag": spectrum("IMAG", [1, 16], (1, 3, 1, 16)),
    "rfft2d, complex_abs": spectrum("COMPLEX_ABS", [4, 16]),
    "rfft2d, cast": spectrum("CAST", [2, 4]),
    "rfft2d, filled": spectrum("COMPLEX_ABS", [8, 32]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_outputs_agree_with_litert(name: str, tmp_path: Path) -> None:
    """To 1e-5 of their range, for samples computed together."""
    b, path = ModelBuilder("tflite", seed=3), tmp_path / "operator.tflite"
    b.write(path, OPERATORS[name](b))
    inputs: Any = random_inputs(path, 5, seed=1)
    assert difference(odt(path, inputs)[0], litert(path, inputs)[0]) < 1e-5


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"]
)
def test_cast_limits_as_litert(dtype: str, tmp_path: Path) -> None:
    b, path = ModelBuilder("tflite"), tmp_path / "operator.tflite"
    x = [300.7, -1.5, -0.5, 1e10, -1e10, 1e20, 127.9, -128.9, 65535.5, np.nan, np.inf, -np.inf]
    values = np.array([x], np.float32)
    b.write(path, b.add_operator("CAST", (b.add_input(values.shape),), values.shape, dtype=dtype))
    np.testing.assert_array_equal(odt(path, [values])[0], litert(path, [values])[0])
