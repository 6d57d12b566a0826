"""What finite differences cannot judge: gradients where an operator has none, by convention."""

from typing import Any

import numpy as np
import pytest
from support.op_run import Case, row_of

from odt.errors import DataError
from odt.kernels.rows.opdef import Array


def gradient(op: str, dy: Any, /, of: str = "x", **inputs: Any) -> Array:
    """The gradient by an input in 64 bits, options under the name `options`."""
    options = inputs.pop("options", {})
    statics = inputs.pop("statics", {})
    row = row_of(op)
    arrays = {n: np.asarray(a, "c16" if np.iscomplexobj(a) else "f8") for n, a in inputs.items()}
    case = Case.make(row, row.attrs(options, statics), arrays)
    case.forward()
    case.arrays["dy"] = np.asarray(dy, np.float64).reshape(case.specs["y"].shape)
    return case.gradient(of)


@pytest.mark.parametrize(
    ("op", "x"),
    [("RELU", [0.0, -0.0]), ("RELU6", [0.0, 6.0]), ("RELU_N1_TO_1", [-1.0, 1.0])],
)
def test_nothing_passes_at_the_edge_of_a_clamp(op: str, x: list[float]) -> None:
    np.testing.assert_array_equal(gradient(op, [5, 7], x=x), [0, 0])


def pooled(x: Any, dy: Any, size: int, stride: int) -> Array:
    options = {
        "padding": 1,
        "filter_height": size,
        "filter_width": size,
        "stride_h": stride,
        "stride_w": stride,
    }
    image = np.asarray(x, np.float64)[None, :, :, None]
    return gradient("MAX_POOL_2D", dy, x=image, options=options)[0, :, :, 0]


def test_the_first_of_equal_maxima_gets_the_gradient() -> None:
    np.testing.assert_array_equal(pooled([[1, 3], [3, 3]], [5], 2, 2), [[0, 5], [0, 0]])
    np.testing.assert_array_equal(pooled(np.zeros((2, 2)), [5], 2, 2), [[5, 0], [0, 0]])


def test_each_overlapping_window_has_a_first_maximum_of_its_own() -> None:
    got = pooled([[2, 2, 2], [0, 0, 2], [0, 0, 2]], [1, 10, 100, 1000], 2, 1)
    np.testing.assert_array_equal(got, [[1, 10, 0], [100, 0, 1000], [0, 0, 0]])


def test_equals_count_for_the_first_input() -> None:
    for op in ("MAXIMUM", "MINIMUM"):
        pair = {"a": [2, 1], "b": [2, 1]}
        np.testing.assert_array_equal(gradient(op, [5, 7], of="a", **pair), [5, 7])
        np.testing.assert_array_equal(gradient(op, [5, 7], of="b", **pair), [0, 0])


@pytest.mark.parametrize("op", ["ABS", "LEAKY_RELU", "PRELU", "ELU", "RELU_0_TO_1"])
def test_at_zero(op: str) -> None:
    """ABS and clamps pass nothing, what has a slope below 0 passes that slope."""
    wanted = {"ABS": 0, "LEAKY_RELU": 0.5, "PRELU": 0.5, "ELU": 2, "RELU_0_TO_1": 0}
    inputs: dict[str, Any] = {"x": [0.0]} | ({"alpha": [0.25]} if op == "PRELU" else {})
    options = {"alpha": 0.25} if op == "LEAKY_RELU" else {}
    assert gradient(op, [2], **inputs, options=options) == wanted[op]


def test_the_absolute_value_of_zero_passes_nothing() -> None:
    got = gradient("COMPLEX_ABS", [5, 1e30, 2], x=[0, 0, 3 - 4j])
    np.testing.assert_allclose(got, [0, 0, 1.2 - 1.6j], rtol=1e-6)


def test_powers_where_formulas_break() -> None:
    """0⁰, 0¹ and 0²: slopes 0, 1, 0; by the exponent of a base not above 0 nothing."""
    arrays = {"a": [0, 0, 0, -2], "b": [0, 1, 2, 2]}
    np.testing.assert_array_equal(gradient("POW", [1, 1, 1, 1], of="a", **arrays), [0, 1, 0, -4])
    np.testing.assert_array_equal(gradient("POW", [1, 1, 1, 1], of="b", **arrays), [0, 0, 0, 0])


@pytest.mark.parametrize("op", ["REDUCE_MAX", "REDUCE_MIN"])
def test_equals_share_the_gradient(op: str) -> None:
    got = gradient(op, [6, 8], x=[[3, 3, 3], [5, 5, 5]], statics={"axes": np.array([1])})
    np.testing.assert_allclose(got, np.array([[2, 2, 2], [8 / 3, 8 / 3, 8 / 3]]))


def test_a_vector_of_almost_nothing_is_scaled_by_the_floor() -> None:
    np.testing.assert_allclose(gradient("L2_NORMALIZATION", [3, 5], x=[1e-9, 0]), [3e6, 5e6])
    np.testing.assert_allclose(gradient("L2_NORMALIZATION", [3, 5], x=[0, 0]), [3e6, 5e6])


@pytest.mark.parametrize("bad", [[0, 3], [-1, 0]])
def test_an_index_out_of_range_is_an_error_in_the_data(bad: list[int]) -> None:
    row = row_of("GATHER")
    inputs: dict[str, Array] = {"x": np.ones((3, 2)), "indices": np.array(bad, np.int32)}
    case = Case.make(row, row.attrs({}, {}), inputs)
    with pytest.raises(DataError, match=r"indices must be 0 … 2, but got"):
        case.forward()
