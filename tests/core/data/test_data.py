"""Data files, splits, orders and checks of values.

Layout, length and split of raw files are those of onert_train; the numbers 800/199 and 99/0 were
worked out from its source in float32.
"""

import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from odt.core.data.array_columns import array_columns
from odt.core.data.column import Column
from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet, EpochOrder, target_check
from odt.core.data.sidecar import Sidecar, read_sidecar, sidecar_path
from odt.core.data.split import split_classes, split_last, validation_warning
from odt.errors import DataError, OptionError
from odt.kernels.losses.sparse_categorical_crossentropy import check_labels
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import Array, TensorSpec

F32 = np.dtype(np.float32)
PIXELS = TensorSpec((2, 3), F32)
LABEL = TensorSpec((), np.dtype(np.int32))


def numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def read(column: Column, samples: Any) -> Array:
    count = len(np.arange(column.length)[samples])
    out = np.full((count, column.spec.size), 99).astype(column.spec.dtype)
    column.read(samples, out)
    return out


def raw(path: Path, *arrays: Array) -> str:
    path.write_bytes(b"".join(a.tobytes() for a in arrays))
    return str(path)


def test_a_raw_file_holds_one_tensor_after_the_other(tmp_path: Path) -> None:
    first, second = numbers(4, 2, 3), np.arange(4, dtype=np.int32) - 2
    path = raw(tmp_path / "x.bin", first, second)
    a, b = open_columns(path, [PIXELS, LABEL], "input")
    assert (a.length, b.length) == (4, 4)
    assert np.array_equal(read(a, slice(1, 3)), first[1:3].reshape(2, 6))
    assert read(b, slice(None)).ravel().tolist() == [-2, -1, 0, 1]


def test_a_tensor_may_begin_at_an_odd_byte(tmp_path: Path) -> None:
    path = raw(tmp_path / "x.bin", np.arange(3, dtype=np.uint8), numbers(3, 6))
    specs = [TensorSpec((1,), np.dtype(np.uint8)), PIXELS]
    _, b = open_columns(path, specs, "input")
    assert np.array_equal(read(b, np.array([2, 0])), numbers(3, 6)[[2, 0]])


def test_trailing_bytes_are_ignored_with_a_warning(tmp_path: Path) -> None:
    path = raw(tmp_path / "x.bin", numbers(2, 6), np.zeros(5, np.uint8))
    (column,) = open_columns(path, [PIXELS], "input", ignore_rest=True)
    assert column.length == 2
    assert "last 5 bytes" in column.notes[0]
    with pytest.raises(DataError, match=r"must hold whole samples of 24 bytes .* but has 5 bytes"):
        open_columns(path, [PIXELS], "input")


FILES = {
    "table.csv": b"width,height\r\n1.5,2.5\r\n3.5,4.5\r\n",
    "umlaut.csv": "Größe;Gewicht\n1,5;2,5\n3,5;4,5\n".encode() * 9,
    "photo.jpg": b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(26),
    "photo.png": b"\x89PNG\r\n\x1a\n" + bytes(28),
    "sound.wav": b"RIFF\x24\0\0\0WAVEfmt " + bytes(32),
    "data.tar.gz": b"\x1f\x8b\x08" + bytes(33),
    "data.tar": bytes(257) + b"ustar\0" + bytes(25),
    "model.tflite": b"\x1c\0\0\0TFL3" + bytes(28),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_kinds_are_no_samples(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    with pytest.raises(DataError, match=r"must hold raw values, .npy, .npz or HDF5, but it is an?"):
        open_columns(str(path), [TensorSpec((1,), np.dtype(np.float32))], "input", ignore_rest=True)


def test_an_archive_without_arrays_is_named_as_such(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for k in range(8000):
            archive.writestr(f"cats/{k}.jpg", b"")
    with pytest.raises(
        DataError, match=r"must hold arrays \(.npy\), but is a zip archive with cats"
    ):
        open_columns(str(tmp_path / "photos.zip"), [PIXELS], "input")


def test_gray_pixels_that_look_like_text_are_samples(tmp_path: Path) -> None:
    path = raw(tmp_path / "x.bin", np.full((2, 300), ord("a"), np.uint8))
    (column,) = open_columns(path, [TensorSpec((300,), np.dtype(np.uint8))], "input")
    assert column.length == 2


@pytest.mark.parametrize("samples", [slice(1, 4), np.array([3, 0, 3]), [2, 1]])
@pytest.mark.parametrize("kind", ["raw", "npy", "npz", "packed npz", "h5", "big-endian h5"])
def test_every_format_gives_the_same_samples(tmp_path: Path, kind: str, samples: Any) -> None:
    x, path = numbers(5, 2, 3), tmp_path / "x"
    with open(path, "wb") as f:
        if kind == "raw":
            f.write(x.tobytes())
        elif kind == "npy":
            np.save(f, x)
        elif kind == "npz":
            np.savez(f, x)
        elif kind == "packed npz":
            np.savez_compressed(f, x=x)
    if kind.endswith("h5"):
        with h5py.File(path, "w") as h5:
            h5["value/0"] = x.astype(">f4") if kind.startswith("big") else x
    (column,) = open_columns(str(path), [PIXELS], "input")
    assert np.array_equal(read(column, samples), x[samples].reshape(-1, 6))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.uint8, ">f8"])
def test_smaller_and_larger_dtypes_are_converted_with_a_warning(tmp_path: Path, dtype: Any) -> None:
    np.save(tmp_path / "x.npy", numbers(5, 6).astype(dtype))
    (column,) = open_columns(str(tmp_path / "x.npy"), [PIXELS], "input")
    assert np.array_equal(read(column, np.array([4, 0])), numbers(5, 6)[[4, 0]])
    assert "float32" in column.notes[0]


def test_columns_in_fortran_order_are_read_right(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(numbers(5, 6)))
    (column,) = open_columns(str(tmp_path / "x.npy"), [PIXELS], "input")
    assert np.array_equal(read(column, np.array([4, 0])), numbers(5, 6)[[4, 0]])


def test_several_inputs_come_from_numbered_arrays(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"1": np.zeros(3, np.int64), "0": numbers(3, 6)}
    np.savez(tmp_path / "x.npz", **arrays)
    a, b = open_columns(str(tmp_path / "x.npz"), [PIXELS, LABEL], "input")
    assert np.array_equal(read(a, slice(None)), numbers(3, 6))
    assert b.length == 3


def test_reading_shuffled_allocates_nothing_that_grows(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((20_000, 100), np.float32))  # 8 MB
    (column,) = open_columns(str(tmp_path / "x.npy"), [TensorSpec((100,), F32)], "input")
    samples, out = np.random.default_rng(0).permutation(20_000)[:5000], np.empty((5000, 100), F32)
    tracemalloc.start()
    column.read(samples, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 10


@pytest.mark.parametrize("kind", ["npy", "h5"])
@pytest.mark.parametrize("samples", [slice(1, 4), np.array([3, 0, 2])])
def test_labels_beyond_int32_are_never_merged(tmp_path: Path, kind: str, samples: Any) -> None:
    """2³² + 1 would become 1, and HDF5 would make 2³¹ and 2³² one class."""
    labels, path = np.array([0, 1, 2**32 + 1, 3, 4]), str(tmp_path / f"y.{kind}")
    if kind == "npy":
        np.save(path, labels)
    else:
        with h5py.File(path, "w") as f:
            f["value/0"] = labels
    (column,) = open_columns(path, [LABEL], "expected output")
    assert read(column, slice(0, 2)).ravel().tolist() == [0, 1]
    with pytest.raises(DataError, match="sample 2: values must fit into int32, but got 4294967297"):
        read(column, samples)


@pytest.mark.filterwarnings("error")
def test_values_beyond_float32_are_infinite_without_a_warning(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((4, 6), 1e300))
    (column,) = open_columns(str(tmp_path / "x.npy"), [PIXELS], "input")
    assert np.isinf(read(column, slice(None))).all()


def test_a_damaged_file_is_an_error_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("value/0", data=numbers(4, 6), chunks=(4, 6), compression="gzip")
        where = f["value/0"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[where.byte_offset : where.byte_offset + where.size] = bytes(where.size)
    path.write_bytes(data)
    (column,) = open_columns(str(path), [PIXELS], "input")
    with pytest.raises(DataError, match=r"x.h5: input 0: must be a valid HDF5 file, but got"):
        read(column, slice(None))


@pytest.mark.parametrize("kind", ["npy", "h5"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8"])
def test_whole_floats_are_class_numbers(tmp_path: Path, dtype: str, kind: str) -> None:
    labels, path = np.array([3, 0, 1, 2]).astype(dtype), str(tmp_path / f"y.{kind}")
    if kind == "npy":
        np.save(path, labels)
    else:
        with h5py.File(path, "w") as f:
            f["value/0"] = labels
    (column,) = open_columns(path, [LABEL], "expected output")
    assert read(column, np.array([2, 0])).ravel().tolist() == [1, 3]
    assert "converted to int32" in column.notes[0]


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf, -np.inf, 2.0**31, 1e300])
def test_other_floats_are_never_made_labels(tmp_path: Path, value: float) -> None:
    np.save(tmp_path / "y.npy", [0.0, 1.0, value])
    rule = "sample 2: values must be whole numbers that fit into int32, but got"
    with pytest.raises(DataError, match=rule):
        open_columns(str(tmp_path / "y.npy"), [LABEL], "expected output")


SCALAR_FORMS: dict[str, Callable[[Array], Array]] = {
    "float64": lambda a: a.astype(np.float64),
    "float16": lambda a: a.astype(np.float16),
    "big-endian": lambda a: a.astype(">f4"),
    "strided": lambda a: np.repeat(a, 2)[::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "int64": lambda a: a.astype(np.int64),
}


@pytest.mark.parametrize("samples", [slice(1, 4), np.array([3, 0, 3]), [2, 1], range(1, 3)])
@pytest.mark.parametrize("form", SCALAR_FORMS)
def test_a_sample_may_be_one_number_of_any_form(form: str, samples: Any) -> None:
    values = np.arange(5, dtype=np.float32) - 2
    (column,) = array_columns([SCALAR_FORMS[form](values)], [TensorSpec((), F32)], "y")
    assert np.array_equal(read(column, samples).ravel(), values[samples])


@pytest.mark.parametrize("kind", ["npy", "npz", "packed npz", "h5"])
def test_a_sample_may_be_one_number_in_any_file(tmp_path: Path, kind: str) -> None:
    values, path = np.arange(5.0), tmp_path / "y"
    with open(path, "wb") as f:
        if kind == "npy":
            np.save(f, values)
        elif kind != "h5":
            (np.savez_compressed if kind.startswith("packed") else np.savez)(f, values)
    if kind == "h5":
        with h5py.File(path, "w") as h5:
            h5["value/0"] = values
    (column,) = open_columns(str(path), [TensorSpec((), F32)], "expected output")
    assert np.array_equal(read(column, np.array([4, 1])).ravel(), [4, 1])


def test_masked_values_are_no_values() -> None:
    x = numbers(4, 6)
    values: Any = np.ma.asarray(x)
    (column,) = array_columns([values], [PIXELS], "x")
    assert np.array_equal(read(column, slice(None)), x)
    values[0, :2] = np.ma.masked
    with pytest.raises(DataError, match="x: must have a value everywhere, but 2 are masked"):
        array_columns([values], [PIXELS], "x")


def test_a_sidecar_describes_the_bytes(tmp_path: Path) -> None:
    path = raw(tmp_path / "x.bin", numbers(4, 6).astype(np.uint8))
    pixels = TensorSpec((2, 3), np.dtype(np.uint8))
    sidecar = Sidecar((pixels,), 4, ("cat", "dog"), "00", {"source": {"name": "mnist"}})
    Path(sidecar_path(path)).write_text(sidecar.to_json())
    assert read_sidecar(path) == sidecar
    (column,) = open_columns(path, [PIXELS], "input")
    assert np.array_equal(read(column, slice(None)), numbers(4, 6))


def columns(tmp_path: Path, x: Array, t: Array) -> tuple[Column, Column]:
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "t.npy", t)
    (a,) = open_columns(str(tmp_path / "x.npy"), [TensorSpec(x.shape[1:], x.dtype)], "input")
    (b,) = open_columns(str(tmp_path / "t.npy"), [TensorSpec(t.shape[1:], t.dtype)], "target")
    return a, b


def test_files_of_different_length_are_refused(tmp_path: Path) -> None:
    a, b = columns(tmp_path, numbers(4, 6), numbers(5, 3))
    with pytest.raises(DataError, match=r"x.npy: input 0: 4 of .*t.npy: target 0: 5 of"):
        DataSet([a], [b])


def one_hot(*labels: int) -> Array:
    return np.eye(3, dtype=np.float32)[list(labels)]


def spoiled(a: Array, index: Any, value: float) -> Array:
    a = a.copy()
    a[index] = value
    return a


CROSS = "categorical_crossentropy"
X, T = numbers(4, 6), one_hot(0, 1, 2, 0)
LABELS = np.array([0, 1, 2, 0], np.int32)
BAD_VALUES = {
    "nan": (spoiled(X, (2, 1), np.nan), T, CROSS, "x.npy.*sample 2.*finite, but got nan"),
    "inf": (spoiled(X, (3, 0), np.inf), T, CROSS, "x.npy.*sample 3.*finite, but got inf"),
    "-inf": (spoiled(X, (0, 5), -np.inf), T, CROSS, "x.npy.*sample 0.*got -inf"),
    "not one": (X, spoiled(T, (1, 0), 1), CROSS, "t.npy.*sample 1.*got the sum 2"),
    "negative": (X, spoiled(T, (2, 0), -0.5), CROSS, "sample 2.*a value -0.5"),
    "nan target": (X, spoiled(T, (1, 0), np.nan), CROSS, "t.npy.*sample 1.*nan"),
    "zeros": (X, spoiled(T, (3, 0), 0), CROSS, "t.npy.*sample 3.*got the sum 0"),
    "label 3": (X, spoiled(LABELS, 2, 3), f"sparse_{CROSS}", "sample 2.*0 … 2, or -1 .*got 3"),
    "label -2": (X, spoiled(LABELS, 3, -2), f"sparse_{CROSS}", "sample 3.*0 … 2, or -1 .*got -2"),
    "share": (X, spoiled(T, (2, 0), 1.5), "binary_crossentropy", "sample 2.*0 … 1, but got 1.5"),
    "nan share": (X, spoiled(T, (1, 0), np.nan), "binary_crossentropy", "t.npy.*sample 1.*nan"),
    "regression": (X, spoiled(X, (1, 1), np.inf), "mean_squared_error", "t.npy.*sample 1.*inf"),
}


@pytest.mark.parametrize("case", BAD_VALUES)
@pytest.mark.parametrize("at_once", [False, True])
def test_values_no_loss_can_use_are_named(tmp_path: Path, case: str, at_once: bool) -> None:
    x, t, loss, words = BAD_VALUES[case]
    a, b = columns(tmp_path, x, t)
    data = DataSet([a], [b], [target_check(loss, TensorSpec((3,), F32))])
    order: Any = np.array([3, 2, 1, 0])
    look = data.check_all if at_once else partial(data.read, order, [x.copy()], [t.copy()])
    with pytest.raises(DataError, match=words):
        look()


def test_check_all_names_every_file(tmp_path: Path) -> None:
    a, b = columns(tmp_path, spoiled(X, (2, 1), np.nan), spoiled(T, (1, 0), 1))
    with pytest.raises(DataError, match=r"x\.npy.*sample 2.*t\.npy.*sample 1"):
        DataSet([a], [b], [target_check(CROSS, TensorSpec((3,), F32))]).check_all()


def test_good_values_pass(tmp_path: Path) -> None:
    soft = np.array([[0.2, 0.3, 0.5]], np.float16).astype(F32).repeat(4, axis=0)
    a, b = columns(tmp_path, X, soft)
    data = DataSet([a], [b], [target_check(CROSS, TensorSpec((3,), F32))])
    x, t = np.empty_like(X), np.empty_like(soft)
    data.read(range(4), [x], [t])
    data.check_all()
    assert np.array_equal(x, X)
    assert np.array_equal(t, soft)


def test_each_position_of_a_map_is_a_distribution() -> None:
    check = target_check(CROSS, TensorSpec((2, 3), F32))
    maps = np.stack([one_hot(0, 1), one_hot(2, 2), spoiled(one_hot(0, 1), (1, 2), 1)])
    problem = check(maps.reshape(3, 6))
    assert problem is not None
    assert problem[0] == 2
    assert check(maps[:2].reshape(2, 6)) is None


def test_a_check_allocates_little() -> None:
    check = target_check(CROSS, TensorSpec((10,), F32))
    rows = np.eye(10, dtype=F32)[np.zeros(100_000, int)]  # 4 MB
    labels = np.zeros((100_000, 1), np.int32)
    tracemalloc.start()
    assert check(rows) is None
    assert check_labels(TensorSpec((10,), F32))(labels) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 10


@pytest.mark.parametrize(
    ("length", "share", "training", "validation"),
    [
        (1000, 0.2, range(800), range(800, 999)),
        (100, 0.01, range(99), range(99, 99)),
        (10, 0.0, range(10), range(10, 10)),
        (10, 1.0, range(0), range(10)),
        (60_000, 0.1, range(54_000), range(54_000, 60_000)),
        # In float32 there are 2^24 + 4.
        (2**24 + 3, 0.0, range(2**24 + 3), range(2**24 + 3, 2**24 + 3)),
        (2**24 + 3, 0.1, range(15_099_498), range(15_099_498, 2**24 + 3)),
    ],
)
def test_splits_are_those_of_onert_train(
    length: int, share: float, training: range, validation: range
) -> None:
    assert (split_last(length, share).training, split_last(length, share).validation) == (
        training,
        validation,
    )


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(OptionError, match=r"must be 0 … 1"):
        split_last(10, share)


def test_orders_repeat_and_lose_nothing() -> None:
    order = EpochOrder(range(10, 60), shuffle=True, seed=3)
    assert sorted(order.order(1)) == list(range(10, 60))
    assert list(order.order(1)) == list(EpochOrder(range(10, 60), True, 3).order(1))
    assert list(order.order(1)) != list(order.order(2))
    assert list(order.order(1)) != list(EpochOrder(range(10, 60), True, 4).order(1))
    assert EpochOrder(range(10, 60)).order(7) == range(10, 60)


def test_each_class_gives_its_fraction_to_validation() -> None:
    labels = np.repeat([0, 1, 2, 3], [50, 30, 17, 1])
    parts = split_classes(labels, 0.2, seed=3)
    training, validation = np.asarray(parts.training), np.asarray(parts.validation)
    assert np.array_equal(np.sort(np.concatenate([training, validation])), np.arange(98))
    assert len(validation) == 20
    wanted = np.bincount(labels) * 0.2
    assert (abs(np.bincount(labels[validation], minlength=4) - wanted) <= 1).all()
    assert 97 in training  # the only sample of its class
    again = split_classes(labels, 0.2, seed=3)
    assert np.array_equal(validation, again.validation)
    assert not np.array_equal(validation, split_classes(labels, 0.2, seed=4).validation)


@pytest.mark.parametrize(
    ("validation", "words"),
    [
        ([0, 1, 1], None),
        ([0, 2], "of class 2, but training has none"),
        ([1, 1], "only samples of class 1, but training has 2 classes"),
    ],
)
def test_validation_with_missing_classes_warns(validation: list[int], words: str | None) -> None:
    found = validation_warning(np.array([0, 1, 1, 0]), np.array(validation))
    assert (found is None) if words is None else (found is not None and words in found)


@pytest.mark.parametrize(
    ("loss", "shape", "targets", "labels"),
    [
        ("categorical_crossentropy", (3,), [[0, 1, 0], [0.1, 0, 0.9]], [1, 2]),
        ("sparse_categorical_crossentropy", (3,), [[2], [0]], [2, 0]),
        ("binary_crossentropy", (1,), [[1], [0]], [1, 0]),
        ("binary_crossentropy", (1,), [[0.5], [0]], None),
        ("binary_crossentropy", (2,), [[1, 0], [0, 1]], None),
        ("mean_squared_error", (1,), [[1], [0]], None),
        ("categorical_crossentropy", (2, 2), np.ones((2, 2, 2)) / 2, None),
    ],
)
def test_labels_are_read_from_targets_of_classes(
    loss: str, shape: tuple[int, ...], targets: Any, labels: list[int] | None
) -> None:
    output = TensorSpec(shape, np.dtype(np.float32))
    target = LOSSES[loss].target(TensorSpec((1, *shape), output.dtype))
    spec = TensorSpec(target.shape[1:], target.dtype)
    columns = array_columns([np.array(targets, spec.dtype)], [spec], "y")
    found = DataSet((), columns).labels([(loss, output)])
    assert (found is None) if labels is None else (found is not None and found.tolist() == labels)
