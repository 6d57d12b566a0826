"""Shapes of samples in files: what is the model's, and what only has as many elements."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from odt.core.data.columns import open_columns
from odt.core.data.sidecar import Sidecar, sidecar_path
from odt.datasets.preprocess import Preprocessing
from odt.errors import DataError
from odt.kernels.rows.opdef import Array, TensorSpec

F32 = np.dtype(np.float32)


def numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 3), (1, 2, 3), (6,), (6, 1), (2, 1, 3)])
@pytest.mark.parametrize("wanted", [(2, 3), (2, 3, 1), (1, 2, 1, 3), (6,), (1, 1, 6)])
def test_axes_of_1_count_for_nothing_and_either_may_be_flat(
    tmp_path: Path, shape: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    np.save(tmp_path / "x.npy", numbers(4, *shape))
    (column,) = open_columns(str(tmp_path / "x.npy"), [TensorSpec(wanted, F32)], "input")
    out = np.empty((4, 6), np.float32)
    column.read(slice(None), out)
    assert np.array_equal(out, numbers(4, 6))


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((3, 32, 32), (32, 32, 3)),
        ((32, 32, 3), (3, 32, 32)),
        ((3, 2), (2, 3)),
        ((4, 2, 3), (2, 3, 4)),
    ],
)
@pytest.mark.parametrize("form", ["npy", "hdf5", "raw"])
def test_other_orders_of_axes_are_refused_and_the_right_one_is_named(
    tmp_path: Path, shape: tuple[int, ...], wanted: tuple[int, ...], form: str
) -> None:
    x = numbers(2, *shape)
    path = tmp_path / "x.data"
    if form == "npy":
        with path.open("wb") as f:
            np.save(f, x)
    elif form == "hdf5":
        with h5py.File(path, "w") as f:
            f["value/0"] = x
    else:
        path.write_bytes(x.tobytes())
        Path(sidecar_path(str(path))).write_text(Sidecar((TensorSpec(shape, F32),), 2).to_json())
    with pytest.raises(DataError) as e:
        open_columns(str(path), [TensorSpec(wanted, F32)], "input")
    said = str(e.value)
    assert f"{wanted}, but the array is {x.shape}. Reorder its axes: np.transpose(a, (" in said
    axes = [int(n) for n in said.partition("(a, (")[2].rstrip(".)").split(",")]
    assert np.transpose(x, axes).shape == (2, *wanted)


def test_shapes_that_only_have_as_many_elements_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", numbers(2, 4, 6))
    with pytest.raises(DataError, match=r"24 elements \(3, 8\), but the array is \(2, 4, 6\)"):
        open_columns(str(tmp_path / "x.npy"), [TensorSpec((3, 8), F32)], "input")


def test_targets_of_another_loss_are_refused_and_the_loss_is_named(tmp_path: Path) -> None:
    labels, rows = str(tmp_path / "labels.npy"), str(tmp_path / "rows.npy")
    np.save(labels, np.zeros(5, np.int64))
    np.save(rows, numbers(5, 10))
    with pytest.raises(DataError, match="for the loss `sparse_categorical_crossentropy`"):
        open_columns(labels, [TensorSpec((10,), F32)], "expected output")
    with pytest.raises(DataError, match="for the loss `categorical_crossentropy`"):
        open_columns(rows, [TensorSpec((), np.dtype(np.int32))], "expected output")
    with pytest.raises(DataError, match="must be the samples"):
        open_columns(rows, [TensorSpec((5,), F32)], "expected output")


def test_expected_values_of_outputs_without_a_loss_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t.bin")
    two = Sidecar((TensorSpec((3,), F32), TensorSpec((), np.dtype(np.int32))), 2)
    (tmp_path / "t.bin").write_bytes(bytes(two.nbytes))
    Path(sidecar_path(path)).write_text(two.to_json())
    with pytest.raises(DataError, match=r"needs 1 .* says 2. .*the outputs that have a loss"):
        open_columns(path, [TensorSpec((3,), F32)], "expected output")


def test_pictures_are_not_taken_for_channels_first() -> None:
    with pytest.raises(DataError, match=r"must become \(3, 8, 8\), but is \(8, 8, 3\)"):
        Preprocessing(shape=(3, 8, 8)).apply(np.zeros((8, 8, 3), np.uint8))
    assert Preprocessing(shape=(8, 8)).apply(np.zeros((8, 8, 1), np.uint8)).shape == (8, 8)
