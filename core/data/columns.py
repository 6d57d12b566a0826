"""Data files as columns: one array of samples for each model input or output.

A column is read a few samples at a time into the caller's memory, so a file may be larger than
memory. Raw files have the layout of onert_train: all samples of tensor 0, then all samples of
tensor 1, …; little-endian, without a header.

Values are converted to the model's dtype if it is of the same kind or a wider one: float16 and
float64 to float32, int64 labels to int32, uint8 pixels to float32, scaled if the sidecar says so. A
float is never converted to an integer, except for a quantized input of the model: an array of the
input's own type holds its integers, and any other holds real numbers, which are quantized with the
input's scale. The shape of a sample in the file must be the model's,
except for axes of length 1; either shape may be flat.
"""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from odt.core.data.array_files import (
    HDF5,
    NPY,
    SOUND_HDF5,
    ZIP,
    Rows,
    hdf5_arrays,
    npy_array,
    npz_arrays,
)
from odt.core.data.file_kinds import START, file_kind
from odt.core.data.quantized_range import range_notes
from odt.core.data.sidecar import read_sidecar, rescale
from odt.core.storage.mapped_files import MappedFile, mapped_file
from odt.core.storage.mapped_pages import Pages
from odt.core.storage.reading import (
    open_input,
    reading,
)
from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.geometry.quantize import Quantization, quantize
from odt.kernels.lossdef import DISTRIBUTIONS, LABELS
from odt.kernels.opdef import Array, TensorSpec
from odt.kernels.registry import LOSSES

Quantizations: TypeAlias = "Sequence[Quantization | None]"
BLOCK = 1 << 20  # bytes of samples that are checked together


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

    def read(self, samples: Sequence[int] | slice | Array, out: Array) -> None:
        """Reads samples into the rows of `out`; allocates nothing that grows with the file.

        Args:
            samples: numbers of samples: a slice, a range, an array or a list.
            out: contiguous array, with one row per sample and the dtype of the spec.

        Raises:
            LostFileError: if the file became shorter.
            DataError: if the file can no longer be read.
        """
        if isinstance(samples, range) and samples.step == 1:
            samples = slice(samples.start, samples.stop)
        out = out.reshape((out.shape[0], *self.rows.shape[1:]), copy=False)
        quantized = self.quantization
        real = out if quantized is None else np.empty(out.shape, np.float32)
        try:
            self._fill(samples, real)
        finally:
            if self.file is not None:
                self.file.check()
        if self.scale:
            rescale(real, self.scale)
        if quantized is not None:
            if not np.isfinite(real).all():
                raise DataError(f"{self.name}: values must be finite to be quantized.")
            out[...] = quantize(real, quantized, out.dtype)
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
        if self.rows.dtype == out.dtype:
            self._read(samples, out)
            return
        integers = self.rows.dtype.kind in "iu" and out.dtype.kind in "iu"
        if integers and not np.can_cast(self.rows.dtype, out.dtype):
            wide = np.empty(out.shape, self.rows.dtype)
            self._read(samples, wide)
            self._narrow(samples, wide, out)
        else:
            with np.errstate(over="ignore"):  # infinity is found when values are checked
                self._read(samples, out)

    def _read(self, samples: Sequence[int] | slice | Array, out: Array) -> None:
        if not isinstance(self.rows, np.ndarray):
            with reading(self.name, SOUND_HDF5):
                _read_hdf5(self.rows, samples, out)
        elif isinstance(samples, slice):
            np.copyto(out, self.rows[samples], casting="same_kind")
        elif self._is_plain(out.dtype):
            np.take(self.rows, samples, axis=0, out=out, mode="clip")  # others buffer `out`
        else:
            for row, k in zip(out, samples, strict=True):
                np.copyto(row, self.rows[k], casting="same_kind")

    def _narrow(self, samples: Sequence[int] | slice | Array, wide: Array, out: Array) -> None:
        """Converts integers to the model's dtype; raises if a value does not fit."""
        np.copyto(out, wide, casting="same_kind")
        if np.array_equal(out, wide):
            return
        row, *place = (int(i[0]) for i in np.nonzero(out != wide))
        sample = (samples.start or 0) + row if isinstance(samples, slice) else samples[row]
        raise DataError(
            f"{self.name}: sample {sample}: values must fit into {out.dtype}, "
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


def open_columns(
    path: str,
    specs: Sequence[TensorSpec],
    what: str,
    quantizations: Quantizations = (),
    *,
    ignore_rest: bool = False,
) -> tuple[Column, ...]:
    """Opens a raw, `.npy`, `.npz` or HDF5 file, detected by its bytes, as one column per tensor.

    Args:
        path: the file. HDF5 holds a group `value` with data sets "0", "1", …; `.npz` holds arrays
            of these names, `arr_0`, `arr_1`, …, or a single one.
        specs: shape and dtype of one sample of each tensor.
        what: word for a tensor in messages: "input", "expected output".
        quantizations: quantization of each tensor, None for a tensor without; empty for none.
        ignore_rest: whether to ignore bytes after the last whole sample of a raw file, as
            onert_train does, with a note; otherwise they are refused.

    Raises:
        DataError: if the file cannot be read, has another format, or does not match the specs.
    """
    with open_input(path) as f, reading(path, "must be a readable file"):
        start = f.read(START)
        size = os.fstat(f.fileno()).st_size
    if not size:
        raise DataError(f"{path}: must hold samples, but it is empty.")
    if start.startswith(HDF5):
        arrays = hdf5_arrays(path, len(specs))
    elif start.startswith(NPY):
        arrays = [npy_array(path)]
    elif start.startswith(ZIP):
        arrays = list(npz_arrays(path, len(specs)).values())
    else:
        kind = file_kind(start, specs[0].dtype.itemsize) if specs else None
        if kind is not None and read_sidecar(path) is None:
            raise DataError(
                f"{path}: must hold raw values, .npy, .npz or HDF5, but it is {kind.name}. "
                f"{kind.remedy.format(path=path)}"
            )
        return _raw_columns(path, size, specs, what, quantizations, ignore_rest)
    if len(arrays) != len(specs):
        raise DataError(
            f"{path}: the model has {len(specs)} {what}s, but the file holds {len(arrays)} array. "
            'Give an .npz or HDF5 file with arrays "0", "1", ….'
        )
    scale = "" if start.startswith(NPY) else _scale(path, arrays)
    return tuple(
        _column(f"{path}: {what} {k}", spec, rows, what, scale, quantization)
        for k, (spec, rows, quantization) in enumerate(
            zip(specs, arrays, _each(quantizations, specs), strict=True)
        )
    )


def array_columns(
    arrays: Sequence[Array],
    specs: Sequence[TensorSpec],
    what: str,
    quantizations: Quantizations = (),
) -> list[Column]:
    """Makes a column for each tensor from arrays in memory.

    Args:
        arrays: samples along the first axis.
        specs: shape and dtype of one sample of each tensor.
        what: word for a tensor in messages: "x", "y".
        quantizations: as in open_columns.

    Raises:
        DataError: if there are more or fewer arrays than tensors, or shapes or dtypes do not fit.
    """
    if len(arrays) != len(specs):
        raise DataError(
            f"{what}: must be {len(specs)} arrays, one for each tensor, but got {len(arrays)}."
        )
    names = [what] if len(specs) == 1 else [f"{what}[{k}]" for k in range(len(specs))]
    return [
        replace(_column(name, spec, rows, what, "", quantization), notes=(), pages=None)
        for name, spec, rows, quantization in zip(
            names, specs, map(np.asarray, arrays), _each(quantizations, specs), strict=True
        )
    ]


def _each(quantizations: Quantizations, specs: Sequence[TensorSpec]) -> Quantizations:
    return quantizations or [None] * len(specs)


def same_layout(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes describe the same values in memory.

    Axes of length 1 are ignored, and a flat array matches any array of its size.
    """
    a, b = ([n for n in shape if n != 1] for shape in (a, b))
    return a == b or (min(len(a), len(b)) <= 1 and math.prod(a) == math.prod(b))


def _scale(path: str, arrays: Sequence[Rows]) -> str:
    """Returns the scale in a file's sidecar, if the sidecar describes these arrays, else "none"."""
    sidecar = read_sidecar(path)
    if sidecar is None or not sidecar.scale:
        return ""
    known = [((sidecar.samples, *t.shape), t.dtype) for t in sidecar.tensors]
    if known != [(a.shape, a.dtype) for a in arrays]:
        raise DataError(
            f"{path}: its JSON file says "
            f"{', '.join(f'{shape} {dtype}' for shape, dtype in known)}, but "
            f"the file holds {', '.join(f'{a.shape} {a.dtype}' for a in arrays)}. Write the data "
            f"again, or delete {path}.json."
        )
    return sidecar.scale


def _column(
    name: str,
    spec: TensorSpec,
    rows: Rows,
    what: str,
    scale: str,
    quantization: Quantization | None,
) -> Column:
    if not rows.shape or not same_layout(rows.shape[1:], spec.shape):
        raise DataError(
            f"{name}: a sample must have {spec.size} elements {spec.shape}, but the array is "
            f"{rows.shape}. {_remedy(rows, spec, what)}"
        )
    if rows.dtype.newbyteorder("=") == spec.dtype and scale in ("", "none"):
        quantization = None  # the tensor's integers
    if quantization is None and not np.can_cast(rows.dtype, spec.dtype, "same_kind"):
        raise DataError(
            f"{name}: the model needs {spec.dtype}, but the file holds {rows.dtype}. "
            f"Convert it to {spec.dtype}."
        )
    notes: tuple[str, ...] = ()
    if rows.dtype.kind not in "iu" or (spec.dtype.kind != "f" and quantization is None):
        scale = ""
    if rows.dtype.newbyteorder("=") != spec.dtype:
        scaled = f", scaled to {scale}," if scale else ""
        verb = "converted" if quantization is None else "quantized"
        notes = (f"{name}: {rows.dtype} is {verb} to {spec.dtype}{scaled} as it is read.",)
    if quantization is not None:
        notes += range_notes(name, rows, spec, scale, quantization)
    pages = Pages(rows) if isinstance(rows, np.ndarray) and rows.shape[0] else None
    file = mapped_file(rows)
    return Column(name, spec, rows.shape[0], rows, notes, file, pages, scale, quantization)


def _remedy(rows: Rows, spec: TensorSpec, what: str) -> str:
    """Returns advice for rows of the wrong form: a conversion, or a loss that accepts them."""
    shape, classes = rows.shape[1:], math.prod(spec.shape[-1:])
    if rows.shape and sorted(shape) == sorted(spec.shape):
        axes = [0]
        for n in spec.shape:
            axes.append(next(k + 1 for k, m in enumerate(shape) if m == n and k + 1 not in axes))
        return f"Reorder its axes: np.transpose(a, {tuple(axes)})."
    if what in ("expected output", "y") and rows.shape:
        elements = math.prod(shape)
        if rows.dtype.kind in "iu" and classes > 1 and elements * classes == spec.size:
            return f"Integer labels are for the loss `{_loss_for(LABELS)}`."
        if spec.dtype.kind == "i" and elements > spec.size and elements % spec.size == 0:
            return f"Rows with one value per class are for the loss `{_loss_for(DISTRIBUTIONS)}`."
    return "Its first axis must be the samples."


def _loss_for(targets: str) -> str:
    """Returns the loss to suggest for such targets."""
    return next(name for name, row in LOSSES.items() if row.targets == targets)


def _raw_columns(
    path: str,
    size: int,
    specs: Sequence[TensorSpec],
    what: str,
    quantizations: Quantizations,
    ignore_rest: bool,
) -> tuple[Column, ...]:
    stored, scale = _stored(path, size, specs, what)
    sample = sum(s.nbytes for s in stored)
    length, rest = divmod(size, sample)
    if not length:
        raise DataError(
            f"{path}: a sample of {what} has {sample} bytes "
            f"({', '.join(str(s) for s in specs)}), but the file has {size}."
        )
    notes: tuple[str, ...] = ()
    if rest and not ignore_rest:
        raise DataError(
            f"{path}: must hold whole samples of {sample} bytes "
            f"({', '.join(str(s) for s in stored)}), but has {rest} bytes after {length} samples. "
            f"Give raw values of the model's shape and dtype, .npy, .npz or HDF5."
        )
    if rest:
        notes = (
            f"{path}: {length} samples of {sample} bytes; the last {rest} bytes of the file are "
            "not a whole sample and are ignored.",
        )
    with open_input(path) as f, reading(path, "must be a readable file"):
        data = MappedFile(f.fileno(), path)
    columns, offset = [], 0
    each = _each(quantizations, specs)
    for k, (spec, s, quantization) in enumerate(zip(specs, stored, each, strict=True)):
        rows: Array = np.ndarray((length, *s.shape), s.dtype, data, offset)  # may be unaligned
        column = _column(f"{path}: {what} {k}", spec, rows, what, scale, quantization)
        columns.append(replace(column, notes=column.notes + notes))
        notes = ()
        offset += length * s.nbytes
    return tuple(columns)


def _stored(
    path: str, size: int, specs: Sequence[TensorSpec], what: str
) -> tuple[Sequence[TensorSpec], str]:
    """Returns shapes, dtypes and scale of a raw file from its sidecar, or else from specs."""
    sidecar = read_sidecar(path)
    if sidecar is None:
        return [TensorSpec(s.shape, s.dtype.newbyteorder("<")) for s in specs], ""
    if sidecar.nbytes != size:
        raise DataError(
            f"{path}: its JSON file says {sidecar.samples} samples in {sidecar.nbytes} bytes, but "
            "the "
            f"file has {size}. Write the data again, or delete {path}.json."
        )
    if len(sidecar.tensors) != len(specs):
        hint = " Give those of the outputs that have a loss; `output_losses=` selects them."
        hint = hint if what == "expected output" else ""
        raise DataError(
            f"{path}: the model needs {len(specs)} tensors of {what}, but the file's JSON file "
            f"says {len(sidecar.tensors)}.{hint}"
        )
    return sidecar.tensors, sidecar.scale
