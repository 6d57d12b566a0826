"""A column: the samples of one model input or output, read into the caller's memory.

Values are converted to the model's dtype if it is of the same kind or a wider one: float16 and
float64 to float32, int64 labels to int32, uint8 pixels to float32, scaled if the sidecar says so.
Floats are converted to integers if they are whole, such as class numbers from a table. For a
quantized input of the model, an array of the input's own type holds its integers, and any other
holds real numbers, which are quantized with the input's scale. The shape of a sample must be the
model's, except for axes of length 1; either shape may be flat.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from odt.core.data.scale import rescale
from odt.core.storage.mapped_files import MappedFile, mapped_file
from odt.core.storage.mapped_pages import Pages
from odt.core.storage.reading import reading
from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.geometry.quantize import Quantization, quantize
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import DISTRIBUTIONS, LABELS
from odt.kernels.rows.opdef import Array, TensorSpec

TARGETS = ("expected output", "y")  # words for targets in messages
BLOCK = 1 << 20  # bytes of samples that are checked together
SOUND_HDF5 = "must be a valid HDF5 file"

# A mapped array or an HDF5 data set.
Rows: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Column:
    """The samples of one tensor.

    Attributes:
        name: file and tensor, for messages.
        spec: shape and dtype of one sample of the model.
        length: number of samples.
        rows: array in the file; its first axis is the samples.
        notes: warnings about the file for the user.
        file, pages: the mapped file and its pages.
        scale: scale of integers that are read as floats; see sidecar.py.
        quantization: quantization with which real numbers are read as integers; None for none.
    """

    name: str
    spec: TensorSpec
    length: int
    rows: Rows
    notes: tuple[str, ...] = ()
    file: MappedFile | None = None
    pages: Pages | None = None
    scale: str = ""
    quantization: Quantization | None = None

    def with_rows(self, rows: Array) -> "Column":
        """Returns the column with other samples, of the same dtype and shape."""
        return replace(self, length=len(rows), rows=rows)

    def read(self, samples: Sequence[int] | slice | Array, out: Array) -> None:
        """Reads samples into the rows of `out`; allocates nothing that grows with the file.

        Args:
            samples: numbers of samples: a slice, a range, an array or a list.
            out: contiguous array, with one row per sample and the dtype of the spec.

        Raises:
            LostFileError: if the file became shorter.
            DataError: if the file can no longer be read, or a value does not fit the dtype.
        """
        if isinstance(samples, range) and samples.step == 1:
            samples = slice(samples.start, samples.stop)
        out = out.reshape((out.shape[0], *self.rows.shape[1:]), copy=False)
        quantization = self.quantization
        real = out if quantization is None else np.empty(out.shape, np.float32)
        try:
            self._fill(samples, real)
        finally:
            if self.file is not None:
                self.file.check()
        if self.scale:
            rescale(real, self.scale)
        if quantization is not None:
            if not np.isfinite(real).all():
                raise DataError(f"{self.name}: values must be finite to be quantized.")
            out[...] = quantize(real, quantization, out.dtype)
        if self.pages is not None:
            self.pages.count(len(out))

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """Yields blocks of samples: the number of the first, and the rows in a reused array."""
        count = max(1, BLOCK // max(1, self.spec.nbytes))
        out = np.empty((min(count, self.length), self.spec.size), self.spec.dtype)
        for at in range(0, self.length, count):
            rows = out[: min(count, self.length - at)]
            self.read(slice(at, at + len(rows)), rows)
            yield at, rows

    def _fill(self, samples: Sequence[int] | slice | Array, out: Array) -> None:
        """Reads samples, and converts them to the dtype of `out`."""
        if self.rows.dtype == out.dtype:
            self._read(samples, out)
            return
        gives_integers = self.rows.dtype.kind in "iuf" and out.dtype.kind in "iu"
        if gives_integers and not np.can_cast(self.rows.dtype, out.dtype):
            wide = np.empty(out.shape, self.rows.dtype)
            self._read(samples, wide)
            self._narrow(samples, wide, out)
        else:
            with np.errstate(over="ignore"):  # checks of values detect infinity
                self._read(samples, out)

    def _read(self, samples: Sequence[int] | slice | Array, out: Array) -> None:
        """Copies samples from the file; floats and wider types as NumPy casts them."""
        if not isinstance(self.rows, np.ndarray):
            with reading(self.name, SOUND_HDF5):
                _read_hdf5(self.rows, samples, out)
        elif isinstance(samples, slice):
            np.copyto(out, self.rows[samples], casting="same_kind")
        elif self._is_plain(out.dtype):
            np.take(self.rows, samples, axis=0, out=out, mode="clip")  # other modes buffer `out`
        else:
            for at, k in enumerate(samples):  # slices: a sample may be a number, without axes
                np.copyto(out[at : at + 1], self.rows[k : k + 1], casting="same_kind")

    def _narrow(self, samples: Sequence[int] | slice | Array, wide: Array, out: Array) -> None:
        """Converts integers, or whole floats, to the model's dtype; raises for other values."""
        if wide.dtype.kind == "f":
            with np.errstate(invalid="ignore"):  # of NaN and infinity
                np.copyto(out, wide, casting="unsafe")
        else:
            np.copyto(out, wide, casting="unsafe")
        if (out == wide).all():
            return
        row, *place = (int(i[0]) for i in np.nonzero(out != wide))
        sample = (samples.start or 0) + row if isinstance(samples, slice) else samples[row]
        rule = "be whole numbers that fit" if wide.dtype.kind == "f" else "fit"
        raise DataError(
            f"{self.name}: sample {sample}: values must {rule} into {out.dtype}, "
            f"but got {wide[row, *place]}."
        )

    def _is_plain(self, dtype: np.dtype[Any]) -> bool:
        """Whether NumPy can gather rows into `out` without a copy of all rows."""
        flags = self.rows.flags
        return bool(self.rows.dtype == dtype and flags.c_contiguous and flags.aligned)


def _read_hdf5(rows: Any, samples: Any, out: Array) -> None:
    if not isinstance(samples, slice):
        for at, k in enumerate(samples):
            rows.read_direct(out, np.s_[int(k) : int(k) + 1], np.s_[at : at + 1])
    elif len(out):
        rows.read_direct(out, np.s_[samples])


def same_layout(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes describe the same values in memory.

    Axes of length 1 are ignored, and a flat array matches any array of its size.
    """
    if a == b:
        return True
    a, b = ([n for n in shape if n != 1] for shape in (a, b))
    return a == b or (min(len(a), len(b)) <= 1 and math.prod(a) == math.prod(b))


class SampleShapeError(DataError):
    """Samples whose shape is not that of the model's tensor.

    Args:
        message: the rule and the shapes.
        shape: shape of the array of samples.
    """

    def __init__(self, message: str, shape: tuple[int, ...]) -> None:
        super().__init__(message)
        self.shape = shape


def column_of(
    name: str,
    spec: TensorSpec,
    rows: Rows,
    what: str,
    scale: str,
    quantization: Quantization | None,
    *,
    in_file: bool = True,
) -> Column:
    """Makes a column of an array, whose shape and dtype it checks.

    Args:
        name: file and tensor, for messages.
        spec: shape and dtype of one sample of the model.
        rows: samples along the first axis.
        what: word for the tensor in messages.
        scale: scale of integers that are read as floats; see sidecar.py.
        quantization: quantization of the tensor; None for none.
        in_file: whether the rows are in a file, so that notes tell of conversions, and pages are
            released.

    Raises:
        DataError: if the samples do not fit the tensor.
    """
    dtype = rows.dtype
    if dtype.kind not in "biuf" and not np.can_cast(dtype, spec.dtype, "same_kind"):
        hint = ""
        if dtype.kind in "USTO" and what in TARGETS:
            hint = " Number the classes: names, y = np.unique(y, return_inverse=True)."
        elif dtype.kind in "USTO":
            hint = " Convert it, as with a.astype('float32')."
        raise DataError(f"{name}: must hold numbers, but holds {_words(rows)}.{hint}")
    if not rows.shape or not same_layout(rows.shape[1:], spec.shape):
        raise SampleShapeError(
            f"{name}: a sample must have {spec.size} elements {spec.shape}, but the array is "
            f"{rows.shape}. {_remedy(rows, spec, what)}",
            rows.shape,
        )
    if rows.dtype.newbyteorder("=") == spec.dtype and not scale:
        quantization = None  # rows are the tensor's integers already
    converts_floats = rows.dtype.kind == "f" and spec.dtype.kind in "iu"
    if quantization is None and not (
        converts_floats or np.can_cast(rows.dtype, spec.dtype, "same_kind")
    ):
        raise DataError(
            f"{name}: the model needs {spec.dtype}, but the file holds {rows.dtype}. "
            f"Convert it to {spec.dtype}."
        )
    notes: tuple[str, ...] = ()
    if rows.dtype.kind not in "iu" or (spec.dtype.kind != "f" and quantization is None):
        scale = ""
    if in_file and rows.dtype.newbyteorder("=") != spec.dtype:
        scaled = f", scaled to {scale}," if scale else ""
        verb = "converted" if quantization is None else "quantized"
        notes = (f"{name}: {rows.dtype} is {verb} to {spec.dtype}{scaled} as it is read.",)
    if in_file and quantization is not None:
        from odt.core.data.quantized_range import range_notes

        notes += range_notes(name, rows, spec, scale, quantization)
    has_pages = in_file and isinstance(rows, np.ndarray) and rows.shape[0]
    pages = Pages(rows) if has_pages else None
    file = mapped_file(rows)
    column = Column(name, spec, rows.shape[0], rows, notes, file, pages, scale, quantization)
    if converts_floats and quantization is None:
        next(column.blocks(), None)  # targets of another task are refused before training
    return column


def _words(rows: Rows) -> str:
    """Names values that are no numbers."""
    return {"U": "texts", "S": "texts", "T": "texts", "O": "Python objects"}.get(
        rows.dtype.kind, f"values of type {rows.dtype}"
    )


def _remedy(rows: Rows, spec: TensorSpec, what: str) -> str:
    """Returns advice for rows of the wrong form: a conversion, or a loss that accepts them."""
    shape = rows.shape[1:]
    classes = math.prod(spec.shape[-1:])
    if rows.shape and sorted(shape) == sorted(spec.shape):
        axes = [0]
        for n in spec.shape:  # the first axis of this length that is not used yet
            axes.append(next(k + 1 for k, m in enumerate(shape) if m == n and k + 1 not in axes))
        return f"Reorder its axes: np.transpose(a, {tuple(axes)})."
    if what in TARGETS and rows.shape:
        elements = math.prod(shape)
        if rows.dtype.kind in "iu" and classes > 1 and elements * classes == spec.size:
            return f"Integer labels are for the loss `{_loss_for(LABELS)}`."
        if spec.dtype.kind == "i" and elements > spec.size and elements % spec.size == 0:
            return f"Rows with one value per class are for the loss `{_loss_for(DISTRIBUTIONS)}`."
        is_turned = len(rows) == classes  # its axes may be classes and samples
        if len(shape) == len(spec.shape) == 1 < min(elements, classes) and not is_turned:
            return (
                f"For {elements} classes, give the model as many outputs: odt replace-head with "
                f"`classes={elements}`."
            )
    if rows.shape == spec.shape:
        return "It is one sample: give its first axis to samples, as in a[np.newaxis]."
    return "Its first axis must be the samples."


def _loss_for(targets: str) -> str:
    """Returns the loss to suggest for such targets."""
    return next(name for name, row in LOSSES.items() if row.targets == targets)
