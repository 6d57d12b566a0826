"""Compiled kernels on integers and bools: exact, for all shapes and up to the largest numbers."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.op_run import Case, best_form, row_of

from odt.errors import DataError
from odt.kernels.native import library
from odt.kernels.rows.opdef import Array

SETS = library.instruction_sets()
TYPES = ("float32", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
SHAPES = [((3, 70), (3, 70)), ((2, 3, 70), (3, 1)), ((5, 1, 2), (1, 4, 1)), ((), (130,)), ((), ())]
RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{"EQUAL": operator.eq, "NOT_EQUAL": operator.ne, "LESS": operator.lt},
    **{"LESS_EQUAL": operator.le, "GREATER": operator.gt, "GREATER_EQUAL": operator.ge},
}


@pytest.fixture(params=SETS, autouse=True)
def instruction_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", request.param)


def compiled(name: str, options: dict[str, Any], statics: dict[str, Any], **inputs: Array) -> Array:
    """y of an operator, by its compiled form."""
    row = row_of(name)
    case = Case.make(row, row.attrs(options, statics), inputs)
    kernel = best_form(row.forward, case.attrs, case.specs)
    assert kernel is not row.forward, f"{name} has no compiled form"
    return case.run(kernel)["y"]


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Numbers next to each other at both ends of the type's range and in the middle."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype == "float32":
        return np.asarray(rng.choice([-1.5, 0, 2, np.nan, np.inf], shape)).astype(dtype)
    ends = np.iinfo(dtype)
    near = [ends.min, ends.min + 1, 0, 1, ends.max - 1, ends.max]
    return np.asarray(np.array(near, dtype)[rng.integers(0, len(near), shape)])


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("dtype", TYPES)
def test_comparisons_are_exact(name: str, dtype: str) -> None:
    for k, (left, right) in enumerate(SHAPES):
        a, b = values(left, dtype, k), values(right, dtype, k + 9)
        y = compiled(name, {}, {}, a=a, b=b)
        np.testing.assert_array_equal(y, RELATIONS[name](a, b))
        assert y.dtype == bool


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MINIMUM": np.minimum},
    **{"MAXIMUM": np.maximum, "FLOOR_DIV": np.floor_divide, "FLOOR_MOD": np.remainder},
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", [t for t in TYPES if "int" in t])
def test_integers_are_combined_as_twos_complement(name: str, dtype: str) -> None:
    for k, (left, right) in enumerate(SHAPES):
        a, b = values(left, dtype, k), values(right, dtype, k + 9)
        if name.startswith("FLOOR"):
            b = np.where(b == 0, np.array(3, dtype), b)
        with np.errstate(over="ignore"):
            wanted = OPERATIONS[name](a, b)
        np.testing.assert_array_equal(compiled(name, {}, {}, a=a, b=b), wanted)


@pytest.mark.parametrize("name", ["FLOOR_DIV", "FLOOR_MOD"])
def test_a_division_of_integers_by_zero_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="b must not be 0"):
        compiled(name, {}, {}, a=np.arange(3), b=np.array([1, 0, 2]))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "float64"])
def test_values_of_every_size_are_selected(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2, s).astype(dtype) for s in ((3, 1, 5), (70, 1)))
    c = rng.random((70, 5)) < 0.5
    y = compiled("SELECT_V2", {}, {}, c=c, a=a, b=b)
    np.testing.assert_array_equal(y, np.where(c, a, b))
    of_rows = compiled(
        "SELECT", {}, {}, c=c[:, 0], a=b, b=1 - b.astype(dtype) if dtype != "bool" else ~b
    )
    np.testing.assert_array_equal(of_rows[:, 0], np.where(c[:, 0], b[:, 0], b[:, 0] == 0))


def test_logic() -> None:
    a, b = values((3, 70), "bool"), values((70,), "bool", 1)
    np.testing.assert_array_equal(compiled("LOGICAL_AND", {}, {}, a=a, b=b), a & b)
    np.testing.assert_array_equal(compiled("LOGICAL_OR", {}, {}, a=a, b=b), a | b)
    np.testing.assert_array_equal(compiled("LOGICAL_NOT", {}, {}, x=a), ~a)


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_casts_are_numpys(source: str, target: str) -> None:
    if source == target:
        return  # a view
    x = values((3, 70), source)
    y = compiled("CAST", {"output_types": (np.dtype(target),)}, {}, x=x)
    if source == "float32" and target != "bool":
        most, least = np.iinfo(target).max, np.iinfo(target).min
        exact = [most if np.isnan(v) or v > most else int(max(v, least)) for v in x.flat]
        np.testing.assert_array_equal(y, np.array(exact, target).reshape(x.shape))
    else:
        np.testing.assert_array_equal(y, x.astype(target))


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("out", ["int32", "int64"])
def test_positions_of_extremes(dtype: str, axis: int, out: str) -> None:
    x = values((4, 5, 70), dtype)
    x = np.where(np.isnan(x), 7, x).astype(dtype)
    options, statics = {"output_types": (np.dtype(out),)}, {"axis": np.array(axis)}
    for name, expected in (("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin)):
        y = compiled(name, options, statics, x=x)
        np.testing.assert_array_equal(y, expected(x, axis=axis))
        assert y.dtype == out


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(dtype: str, axis: int) -> None:
    indices = np.random.default_rng(0).integers(-1, 6, (3, 70))
    on, off = np.array(1, dtype), np.array(0, dtype)
    statics = {"depth": np.array(5)}
    y = compiled("ONE_HOT", {"axis": axis}, statics, indices=indices, on=on, off=off)
    rows = np.moveaxis(indices[..., None] == np.arange(5), -1, axis)
    np.testing.assert_array_equal(y, rows.astype(dtype))


@pytest.mark.parametrize("axes", [(0,), (1, 2), (2,), (0, 1, 2)])
def test_any_and_all(axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random((2, 3, 4)) < 0.7
    for name, expected in (("REDUCE_ANY", np.any), ("REDUCE_ALL", np.all)):
        y = compiled(name, {}, {"axes": np.array(axes)}, x=x)
        np.testing.assert_array_equal(y, expected(x, axis=axes))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("index", [-1, 4])
def test_an_index_outside_a_table_is_refused(dtype: str, index: int) -> None:
    table = np.ones((4, 3), np.float32)
    message = "indices.* must be 0 … 3, but got " + ("-1 … 2" if index < 0 else "2 … 4")
    inside_and_outside = np.array([[2], [index]], dtype)
    with pytest.raises(DataError, match=message):
        compiled("GATHER_ND", {}, {}, x=table, indices=inside_and_outside)
    with pytest.raises(DataError, match=message):
        compiled("GATHER", {}, {}, x=table, indices=inside_and_outside)
    with pytest.raises(DataError, match=message):
        compiled("EMBEDDING_LOOKUP", {}, {}, ids=inside_and_outside[:, 0], table=table)


@pytest.mark.parametrize("name", ["GATHER", "GATHER_ND", "SCATTER_ND", "EMBEDDING_LOOKUP"])
def test_an_index_into_an_empty_table_selects_no_row_before_it(name: str) -> None:
    inputs: dict[str, Array] = {"indices": np.zeros((2, 1), np.int32)}
    statics: dict[str, Array] = {}
    if name == "SCATTER_ND":
        inputs["updates"], statics["shape"] = np.ones((2, 3), np.float32), np.array([0, 3])
    elif name == "EMBEDDING_LOOKUP":
        inputs = {"ids": np.zeros(2, np.int32), "table": np.ones((0, 3), np.float32)}
    else:
        inputs["x"] = np.ones((0, 3), np.float32)
    row = row_of(name)
    case = Case.make(row, row.attrs({}, statics), inputs)
    with pytest.raises(DataError, match="must be 0 … -1, but got 0 … 0"):
        case.run(best_form(row.forward, case.attrs, case.specs))
    assert library.compiled_of(row.forward, case.attrs, case.specs) is None
