"""Selecting and replacing values by positions, known and computed, does what NumPy does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, one_node, value
from support.onnx_outputs import compute

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
N = 3


def real(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def indexed(kind: str, indices: Array, known: bool, *rest: Array, **attributes: Any) -> OnnxFile:
    """A node of x, indices and other inputs; those that are not known are inputs of the model."""
    file = OnnxFile(18)
    file.inputs.append(value("x", ("N", 3, 4)))
    if known:
        file.constants({"i": indices})
    else:
        file.inputs.append(value("i", ("N", *indices.shape[1:]), "int64"))
    for k, array in enumerate(rest):
        file.inputs.append(value(f"r{k}", ("N", *array.shape[1:])))
    file.outputs.append(value("y", ()))
    file.add(kind, "x", "i", *(f"r{k}" for k in range(len(rest))), **attributes)
    return file


@pytest.mark.parametrize("known", [True, False])
def test_gathering_elements(tmp_path: Path, known: bool) -> None:
    x, i = real(N, 3, 4), RNG.integers(-4, 4, (1 if known else N, 2, 5))
    arrays = (x,) if known else (x, i)
    (y,) = compute(indexed("GatherElements", i, known, axis=2), tmp_path, *arrays)
    each = np.broadcast_to(i, (N, 2, 5))
    np.testing.assert_array_equal(y, np.take_along_axis(x[:, :2], each, 2))


@pytest.mark.parametrize("known", [True, False])
def test_gathering_tuples(tmp_path: Path, known: bool) -> None:
    x, i = real(N, 3, 4), RNG.integers(-3, 3, (1 if known else N, 5, 2))
    arrays = (x,) if known else (x, i)
    (y,) = compute(indexed("GatherND", i, known, batch_dims=1), tmp_path, *arrays)
    each = np.broadcast_to(i, (N, 5, 2))
    wanted = [[x[n, a, b] for a, b in each[n]] for n in range(N)]
    np.testing.assert_array_equal(y, wanted)


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda a, b: b,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
}


@pytest.mark.parametrize("how", COMBINE)
def test_scattering_elements(tmp_path: Path, how: str) -> None:
    """Entries that occur several times are combined one after the other; else the last one wins."""
    x, new = real(N, 3, 4), real(N, 2, 4)
    i = np.array([[[0, 1, 2, -1], [0, 2, 2, 0]]])
    file = indexed("ScatterElements", i, True, new, axis=1, reduction=how)
    wanted = x.copy()
    for n, a, b in np.ndindex(N, 2, 4):
        at = n, i[0, a, b], b
        wanted[at] = COMBINE[how](wanted[at], new[n, a, b])
    (y,) = compute(file, tmp_path, x, new)
    np.testing.assert_allclose(y, wanted, rtol=1e-6)


@pytest.mark.parametrize("how", ["none", "add"])
def test_scattering_at_computed_positions(tmp_path: Path, how: str) -> None:
    x, new = real(N, 3, 4), real(N, 1, 4)
    i = RNG.integers(-3, 3, (N, 1, 4))
    file = indexed("ScatterElements", i, False, new, axis=1, reduction=how)
    wanted = x.copy()
    for n, b in np.ndindex(N, 4):
        at = n, i[n, 0, b], b
        wanted[at] = COMBINE[how](wanted[at], new[n, 0, b])
    (y,) = compute(file, tmp_path, x, i, new)
    np.testing.assert_allclose(y, wanted, rtol=1e-6)


def test_replacing_slices(tmp_path: Path) -> None:
    """As PyTorch writes x[:, 1] = new."""
    x, new = real(N, 3, 4), real(N, 1, 4)
    file = indexed("ScatterND", np.array([[[0, 1]]]), True, new)
    (y,) = compute(file, tmp_path, x, new)
    wanted = x.copy()
    wanted[:, 1] = new[:, 0]
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("largest", [0, 1])
def test_largest_and_smallest_values(tmp_path: Path, largest: int) -> None:
    x = real(N, 5, 4)
    file = one_node("TopK", x, {"k": np.array([2])}, 11, axis=1, largest=largest)
    (y,) = compute(file, tmp_path, x)
    ordered = np.sort(x, 1)[:, ::-1] if largest else np.sort(x, 1)
    np.testing.assert_array_equal(y, ordered[:, :2])


def test_one_hot_vectors(tmp_path: Path) -> None:
    """Negative indices count from the end; those outside hit nothing."""
    i = np.array([[0, 2], [-1, 3], [-3, -4]])
    constants = {"depth": np.array(3), "values": np.array([2, 5], np.float32)}
    (y,) = compute(one_node("OneHot", i, constants, 11, axis=1), tmp_path, i)
    hits = np.where(i < 0, i + 3, i)[:, None] == np.arange(3)[:, None]
    np.testing.assert_array_equal(y, np.where(hits, 5, 2))


def test_positions_of_a_condition(tmp_path: Path) -> None:
    x = real(N, 5)
    flags = np.array([True, False, False, True])
    (y,) = compute(one_node("Compress", x, {"c": flags}, 11, axis=1), tmp_path, x)
    np.testing.assert_array_equal(y, x[:, [0, 3]])


def test_gathering_elements_at_computed_rows(tmp_path: Path) -> None:
    """Their columns are a folded constant, a view that repeats a row: kernels read whole arrays."""
    x, i = real(N, 3, 4), RNG.integers(0, 3, (N, 2, 4))
    (y,) = compute(indexed("GatherElements", i, False, axis=1), tmp_path, x, i)
    np.testing.assert_array_equal(y, np.take_along_axis(x, i, 1))
