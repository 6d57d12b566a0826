"""Statistics of a data file: ranges, classes, invalid values. Reads the file once, in blocks."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from odt.core.data.array_files import map_arrays
from odt.core.data.column import Column
from odt.core.data.columns import open_columns
from odt.core.data.sidecar import Sidecar, read_sidecar
from odt.core.formats.file_kinds import HDF5, NPY, START, ZIP, file_kind
from odt.core.model.record import record_of
from odt.core.storage.reading import listed, open_input, printable, reading
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.kernels.rows.opdef import Array, TensorSpec

BOX_VALUES = 5  # class, y1, x1, y2, x2


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one tensor of a file.

    Attributes:
        name: file and tensor.
        samples: number of samples.
        spec: spec of a sample as stored.
        least, most, mean: minimum, maximum and mean of the finite values.
        nan, infinite: numbers of NaN and of infinite values.
        constant: flat positions in a sample whose value never changes.
        classes: number of samples by class for one-hot rows or labels; else empty.
    """

    name: str
    samples: int
    spec: TensorSpec
    least: float
    most: float
    mean: float
    nan: int
    infinite: int
    constant: Array
    classes: dict[str, int]


def open_any(path: str, shape: tuple[int, ...] = ()) -> tuple[tuple[Column, ...], Sidecar | None]:
    """Opens the tensors of a data file by its sidecar, its header or a given shape.

    Args:
        path: the file.
        shape: shape of a float32 sample, for a raw file without a sidecar.

    Raises:
        DataError: if the layout of the file is unknown.
    """
    with open_input(path) as f, reading(path, "must be a readable file"):
        start = f.read(START)
    sidecar = read_sidecar(path)
    if shape and (sidecar is not None or start.startswith((HDF5, NPY, ZIP))):
        raise OptionError("shape", f"must be left out for {path}, which states its own")
    if sidecar is not None:
        specs: Sequence[TensorSpec] = sidecar.tensors
    elif start.startswith((HDF5, NPY, ZIP)):
        numeric = {n: a for n, a in map_arrays(path).items() if a.dtype.kind in "biuf"}
        if not numeric:
            raise DataError(f"{path}: must hold arrays of numbers, but has none.")
        arrays = {n: a if a.shape else a.reshape(1) for n, a in numeric.items()}
        if not all(a.shape[0] for a in arrays.values()):
            raise DataError(f"{path}: must hold samples, but {listed(arrays)} have none.")
        specs = [TensorSpec(a.shape[1:], a.dtype) for a in arrays.values()]
        columns = [
            Column(f"{path}: {printable(name)}", spec, a.shape[0], a)
            for (name, a), spec in zip(arrays.items(), specs, strict=True)
        ]
        return tuple(columns), None
    elif shape:
        specs = [TensorSpec(shape, np.dtype(np.float32))]
    elif kind := file_kind(start, np.dtype(np.float32).itemsize):
        raise DataError(f"{path}: must hold samples, but it is {kind.instead_of_data(path)}")
    else:
        raise DataError(
            f"{path}: the shape of raw bytes must be given, but there is no {path}.json. "
            'Give `shape="28x28x1"`, for example.'
        )
    return open_columns(path, specs, "tensor"), sidecar


def column_statistics(column: Column, classes: Sequence[str]) -> ColumnStatistics:
    """Computes the statistics of all samples of a column.

    Args:
        column: column of the samples.
        classes: class names, if known.
    """
    spec = column.spec
    first = np.empty(spec.size, spec.dtype)
    constant = np.ones(spec.size, bool)
    least, most = math.inf, -math.inf
    total = 0.0  # sum of the finite values
    finite = nan = infinite = 0  # numbers of values
    counts = np.zeros(spec.size, np.int64)
    one_hot = spec.dtype.kind == "f" and len(spec.shape) == 1 and spec.size > 1
    labels = np.zeros(len(classes), np.int64)
    # Labels, one number for a sample; not a one-hot row.
    sparse = spec.dtype.kind in "iu" and spec.size == 1 and bool(classes)
    for start, rows in column.blocks():
        if start == 0:
            first[:] = rows[0]
        constant &= (rows == first).all(axis=0)
        is_finite = np.isfinite(rows)
        is_nan = np.isnan(rows)
        nan += int(is_nan.sum())
        infinite += int(rows.size - is_finite.sum() - is_nan.sum())
        values = rows[is_finite]
        if values.size:
            least = min(least, float(values.min()))
            most = max(most, float(values.max()))
            total += float(values.sum(dtype=np.float64))
            finite += values.size
        if one_hot:
            one_hot = bool(((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all())
            counts += (rows == 1).sum(axis=0)
        if sparse:
            sparse = bool(rows.min() >= 0 and rows.max() < len(classes))
            if sparse:
                labels += np.bincount(rows[:, 0], minlength=len(classes))
    by_class = np.zeros(0, np.int64)
    if one_hot:
        by_class = counts
    elif sparse:
        by_class = labels
    names = classes if len(classes) == len(by_class) else [str(k) for k in range(len(by_class))]
    return ColumnStatistics(
        name=column.name,
        samples=column.length,
        spec=spec,
        least=least,
        most=most,
        mean=total / finite if finite else math.nan,
        nan=nan,
        infinite=infinite,
        constant=np.flatnonzero(constant) if column.length > 1 else np.zeros(0, np.int64),
        classes=dict(zip(names, by_class.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class NamedStatistics:
    """Statistics of one column of a table, without NaN and infinite values."""

    name: str
    least: float
    most: float
    mean: float


def named_statistics(column: Column, names: Sequence[str]) -> list[NamedStatistics]:
    """Computes the statistics of each number of the last axis of the samples.

    Args:
        column: column of the samples.
        names: names of these numbers.
    """
    count = len(names)
    least, most = np.full(count, math.inf), np.full(count, -math.inf)
    total = np.zeros(count)
    finite_counts = np.zeros(count)
    for _, block in column.blocks():
        rows = block.reshape(-1, count).astype(np.float64)
        finite = np.isfinite(rows)
        least = np.minimum(least, np.where(finite, rows, math.inf).min(axis=0))
        most = np.maximum(most, np.where(finite, rows, -math.inf).max(axis=0))
        total += np.where(finite, rows, 0).sum(axis=0)
        finite_counts += finite.sum(axis=0)
    mean = np.full(count, math.nan)
    np.divide(total, finite_counts, out=mean, where=finite_counts > 0)
    values = zip(names, least.tolist(), most.tolist(), mean.tolist(), strict=True)
    return [NamedStatistics(*row) for row in values]


@dataclass(frozen=True, slots=True)
class BoxStatistics:
    """Statistics of targets that are boxes.

    Attributes:
        classes: number of boxes by class.
        most: largest number of boxes of a sample.
        mean: mean number of boxes of a sample.
        empty: number of samples without a box.
        sides: smallest, median and largest side of the boxes, the square root of their area, as a
            fraction of the image; zeros without boxes.
    """

    classes: dict[str, int]
    most: int
    mean: float
    empty: int
    sides: tuple[float, float, float]


def box_names(sidecar: Sidecar | None) -> tuple[str, ...]:
    """Returns the class names of boxes; empty for data with other targets."""
    return tuple(sidecar.recipe.get("boxes", {}).get("classes", ())) if sidecar else ()


def is_boxes(column: Column, path: str, sidecar: Sidecar | None) -> bool:
    """Whether a column of a file holds boxes (N, M, 5): the file is that of the targets."""
    files = sidecar.recipe.get("files") if sidecar is not None and box_names(sidecar) else None
    shape = column.spec.shape
    is_output = isinstance(files, dict) and files.get("output") == Path(path).name
    return is_output and len(shape) == 2 and shape[1] == BOX_VALUES


def box_statistics(column: Column, names: Sequence[str]) -> BoxStatistics:
    """Computes the statistics of boxes.

    Args:
        column: boxes (N, M, 5): class, y1, x1, y2, x2; the class −1 for no box.
        names: class names by number.
    """
    numbers = np.zeros(len(names), np.int64)
    counts, sides = [], []
    for _, block in column.blocks():
        rows = block.reshape(len(block), -1, BOX_VALUES).astype(np.float64)
        is_box = (rows[..., 0] >= 0) & (rows[..., 0] < len(names))
        counts.append(is_box.sum(axis=1))
        boxes = rows[is_box]
        numbers += np.bincount(boxes[:, 0].astype(np.int64), minlength=len(names))
        sides.append(np.sqrt((boxes[:, 3] - boxes[:, 1]) * (boxes[:, 4] - boxes[:, 2])))
    count, side = np.concatenate(counts), np.concatenate(sides)
    least, median, largest = np.quantile(side, (0, 0.5, 1)) if len(side) else np.zeros(3)
    return BoxStatistics(
        classes=dict(zip(names, numbers.tolist(), strict=True)),
        most=int(count.max()),
        mean=float(count.mean()),
        empty=int((count == 0).sum()),
        sides=(float(least), float(median), float(largest)),
    )


def column_names(path: str, sidecar: Sidecar | None) -> tuple[str, ...]:
    """Returns the names of a sample's numbers, if the file was made from a table; else none."""
    if sidecar is None:
        return ()
    record = record_of(sidecar.record_content)
    files = sidecar.recipe.get("files")
    if isinstance(files, dict) and files.get("output") == Path(path).name:
        return record.targets if record and not record.classes else ()
    names = sidecar.recipe.get("columns", [])
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _target_rows(path: str, sidecar: Sidecar | None, samples: int) -> tuple[Column, Array] | None:
    """Returns the targets of the first samples of an input file, from the output file next to it.

    Returns:
        The column and its rows (samples, values); None without an output file.
    """
    if sidecar is None:
        return None
    name = Path(str(sidecar.recipe.get("files", {}).get("output", ""))).name
    other = Path(path).parent / name
    if not name or not os.path.isfile(other) or other.name == Path(path).name:
        return None
    (column, *_), _ = open_any(str(other))
    rows = np.empty((min(samples, column.length), column.spec.size), column.spec.dtype)
    column.read(slice(0, len(rows)), rows)
    return column, rows


def sample_boxes(path: str, sidecar: Sidecar | None, samples: int) -> list[Array]:
    """Returns the boxes (M, 5) of the first samples of an input file; none for other targets."""
    targets = _target_rows(path, sidecar, samples)
    if targets is None or not box_names(sidecar):
        return []
    column, rows = targets
    return [row.reshape(column.spec.shape) for row in rows]


def label_names(path: str, sidecar: Sidecar | None, samples: int) -> list[str]:
    """Returns labels of the first samples of an input file, from the output file next to it.

    Without an output file, and for boxes, the labels are numbers of the samples.
    """
    targets = _target_rows(path, sidecar, samples)
    if targets is None or sidecar is None or box_names(sidecar):
        return [str(k) for k in range(samples)]
    column, rows = targets
    if not sidecar.classes:
        return [f"{row[0]:.4g}" for row in rows]
    labels = rows.argmax(axis=1) if column.spec.size > 1 else rows[:, 0]
    names = dict(enumerate(sidecar.classes))
    return [names.get(k, printable(k)) for k in labels.tolist()]
