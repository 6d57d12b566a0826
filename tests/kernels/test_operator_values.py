"""Values that finite differences and drawn inputs do not meet: ties, zeros, ends."""

from typing import Any

import numpy as np
import pytest
from support.op_run import Case, row_of

from odt.errors import DataError
from odt.kernels.rows.opdef import Array


def computed(op: str, /, **inputs: Any) -> Array:
    """The output y for inputs given as they are; options and statics under these names."""
    options, statics = inputs.pop("options", {}), inputs.pop("statics", {})
    row = row_of(op)
    case = Case.make(
        row, row.attrs(options, statics), {n: np.asarray(a) for n, a in inputs.items()}
    )
    return case.forward()["y"]


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("ROUND", [-2.0, -2.0, 0.0, 0.0, 0.0, 2.0, 2.0]),
        ("FLOOR", [-3.0, -2.0, -1.0, 0.0, 0.0, 1.0, 2.0]),
        ("CEIL", [-2.0, -1.0, 0.0, 0.0, 1.0, 2.0, 3.0]),
        ("SIGN", [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0]),
    ],
)
def test_halves_and_zero(op: str, wanted: list[float]) -> None:
    """ROUND takes halves to the even neighbor, as LiteRT does."""
    got = computed(op, x=[-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_quotients_round_down_and_remainders_have_the_sign_of_the_divisor(dtype: type) -> None:
    pair: dict[str, Array] = {
        "a": np.array([7, -7, 7, -7, 6], dtype),
        "b": np.array([3, 3, -3, -3, -3], dtype),
    }
    np.testing.assert_array_equal(computed("FLOOR_DIV", **pair), [2, -3, -3, 2, -2])
    np.testing.assert_array_equal(computed("FLOOR_MOD", **pair), [1, 2, -2, -1, 0])


def test_integers_are_divided_and_averaged_towards_zero() -> None:
    """As in LiteRT."""
    a, b = np.array([7, -7, 7, -7, 6], np.int32), np.array([3, 3, -3, -3, -3], np.int32)
    np.testing.assert_array_equal(computed("DIV", a=a, b=b), [2, -2, -2, 2, -2])
    x = np.array([[1, 2, 2], [-1, -2, -2]], np.int32)
    mean = computed("MEAN", x=x, statics={"axes": np.array([1])})
    np.testing.assert_array_equal(mean, [1, -1])


def test_no_integer_has_a_negative_exponent() -> None:
    with pytest.raises(DataError, match="POW: b must be 0 or more"):
        computed("POW", a=np.array([2, 2]), b=np.array([1, -1]))


@pytest.mark.parametrize("op", ["DIV", "FLOOR_DIV", "FLOOR_MOD"])
def test_no_integer_is_divided_by_zero(op: str) -> None:
    with pytest.raises(DataError, match=f"{op}: b must not be 0"):
        computed(op, a=np.array([1, 2]), b=np.array([1, 0]))


def ints(values: Any) -> Array:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("mode", "pads", "wanted"),
    [(0, [[2, 1]], [3, 2, 1, 2, 3, 2]), (1, [[3, 1]], [3, 2, 1, 1, 2, 3, 3])],
    ids=["REFLECT", "SYMMETRIC"],
)
def test_a_mirror_repeats_the_last_value_or_not(
    mode: int, pads: list[list[int]], wanted: list[int]
) -> None:
    x = np.array([1, 2, 3], np.float32)
    got = computed("MIRROR_PAD", x=x, options={"mode": mode}, statics={"paddings": ints(pads)})
    np.testing.assert_array_equal(got, wanted)


def test_a_list_selects_whole_rows_and_selects_columns_where_it_is_stretched() -> None:
    c, a, b = np.array([True, False]), np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])
    np.testing.assert_array_equal(computed("SELECT", c=c, a=a, b=b), [[1, 2], [7, 8]])
    np.testing.assert_array_equal(computed("SELECT_V2", c=c, a=a, b=b), [[1, 6], [3, 8]])


@pytest.mark.parametrize(
    ("start", "limit", "delta", "wanted"),
    [(1, 10, 4, [1, 5, 9]), (5, -1, -3, [5, 2]), (3, 3, 1, [])],
)
def test_a_range_ends_before_its_limit(
    start: int, limit: int, delta: int, wanted: list[int]
) -> None:
    given = {"start": ints(start), "limit": ints(limit), "delta": ints(delta)}
    np.testing.assert_array_equal(computed("RANGE", statics=given), wanted)
