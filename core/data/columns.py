"""Data files as columns: one array of samples for each model input or output.

A column is read a few samples at a time, so a file may be larger than memory. Raw files have the
layout of onert_train: all samples of tensor 0, then all samples of tensor 1, …; little-endian,
without a header.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from odt.core.data.array_columns import Quantizations, each_of, with_note
from odt.core.data.array_files import hdf5_arrays, npy_array, npz_arrays
from odt.core.data.column import Column, Rows, column_of
from odt.core.data.sidecar import read_sidecar
from odt.core.formats.file_kinds import HDF5, NPY, START, ZIP, file_kind
from odt.core.model.tensor_names import TensorNames, numbered_names
from odt.core.storage.mapped_files import MappedFile
from odt.core.storage.reading import listed, open_input, reading
from odt.errors import DataError
from odt.kernels.rows.opdef import Array, TensorSpec

# The end of the message about a file with inputs and targets.
MAKE_FILES = "; odt gen-datafile makes files of inputs and of targets from it."


def open_columns(
    path: str,
    specs: Sequence[TensorSpec],
    what: str,
    quantizations: Quantizations = (),
    *,
    names: TensorNames | None = None,
    ignore_rest: bool = False,
) -> tuple[Column, ...]:
    """Opens a raw, `.npy`, `.npz` or HDF5 file, detected by its bytes, as one column per tensor.

    Args:
        path: the file. `.npz` holds arrays with the names of the tensors, `0`, `1`, …, `arr_0`,
            `arr_1`, …, or a single one; HDF5 holds such data sets in a group `value`.
        specs: shape and dtype of one sample of each tensor.
        what: word for a tensor in messages: "input", "expected output".
        quantizations: quantization of each tensor, None for a tensor without; empty for none.
        names: names of the tensors; None for numbers only.
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
    if start.startswith((HDF5, NPY, ZIP)):
        return _array_columns_of(path, start, specs, what, quantizations, names)
    kind = file_kind(start, specs[0].dtype.itemsize) if specs else None
    if kind is not None and read_sidecar(path) is None:
        raise DataError(
            f"{path}: must hold raw values, .npy, .npz or HDF5, but it is "
            f"{kind.instead_of_data(path)}"
        )
    first, *rest = _raw_columns(path, size, specs, what, quantizations, ignore_rest)
    note = names.order_note(specs, path, what) if names is not None else ""
    return (with_note(first, note), *rest)


def _array_columns_of(
    path: str,
    start: bytes,
    specs: Sequence[TensorSpec],
    what: str,
    quantizations: Quantizations,
    names: TensorNames | None,
) -> tuple[Column, ...]:
    """Opens a file of arrays; arguments as for open_columns, and the first bytes of the file."""
    # Names of the arrays of tensors, and of the other arrays; none in a file of one array.
    used: list[str] = []
    ignored: list[str] = []
    each = each_of(quantizations, specs)

    def pick(arrays_of_file: Collection[str]) -> list[str]:
        names_of_tensors = names or numbered_names(len(specs))
        remedy = MAKE_FILES if {"x", "y"} <= set(arrays_of_file) else ""
        matches = names_of_tensors.find(arrays_of_file, path, strict=what == "input", remedy=remedy)
        ignored.extend(sorted(set(arrays_of_file).difference(matches)))
        used.extend(matches)
        return matches

    def check(k: int, rows: Rows) -> None:
        if k < len(specs):
            column_of(f"{path}: {what} {k}", specs[k], rows, what, "", each[k])

    if start.startswith(HDF5):
        arrays = hdf5_arrays(path, pick)
    elif start.startswith(NPY):
        arrays = [npy_array(path)]
    else:
        arrays = list(npz_arrays(path, pick, check).values())
    if len(arrays) != len(specs):
        raise DataError(
            f"{path}: the model has {len(specs)} {what}s, but the file holds {len(arrays)} array. "
            'Give an .npz or HDF5 file with arrays "0", "1", ….'
        )
    scale = "" if start.startswith(NPY) else _scale(path, arrays)
    columns = [
        column_of(f"{path}: {what} {k}", spec, rows, what, scale, quantization)
        for k, (spec, rows, quantization) in enumerate(zip(specs, arrays, each, strict=True))
    ]
    if names is not None and all(name.removeprefix("arr_").isdecimal() for name in used):
        columns[0] = with_note(columns[0], names.order_note(specs, path, what))
    if ignored:
        note = f"{path}: {listed(ignored)}: no {what} that is needed has this name: ignored."
        columns[0] = with_note(columns[0], note)
    return tuple(columns)


def _scale(path: str, arrays: Sequence[Rows]) -> str:
    """Returns the scale in a file's sidecar; empty if there is none.

    Raises:
        DataError: if the sidecar describes other arrays.
    """
    sidecar = read_sidecar(path)
    if sidecar is None or not sidecar.scale:
        return ""
    layout = [((sidecar.samples, *t.shape), t.dtype) for t in sidecar.tensors]
    if layout != [(a.shape, a.dtype) for a in arrays]:
        raise DataError(
            f"{path}: its JSON file says "
            f"{', '.join(f'{shape} {dtype}' for shape, dtype in layout)}, but "
            f"the file holds {', '.join(f'{a.shape} {a.dtype}' for a in arrays)}. Write the data "
            f"again, or delete {path}.json."
        )
    return sidecar.scale


def _raw_columns(
    path: str,
    size: int,
    specs: Sequence[TensorSpec],
    what: str,
    quantizations: Quantizations,
    ignore_rest: bool,
) -> tuple[Column, ...]:
    """Opens a raw file of some bytes; other arguments as for open_columns."""
    stored, scale = _raw_layout(path, size, specs, what)
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
            "Give raw values of the model's shape and dtype, .npy, .npz or HDF5."
        )
    if rest:
        notes = (
            f"{path}: {length} samples of {sample} bytes; the last {rest} bytes of the file are "
            "not a whole sample and are ignored.",
        )
    with open_input(path) as f, reading(path, "must be a readable file"):
        data = MappedFile(f.fileno(), path)
    columns = []
    offset = 0
    each = each_of(quantizations, specs)
    for k, (spec, s, quantization) in enumerate(zip(specs, stored, each, strict=True)):
        rows: Array = np.ndarray((length, *s.shape), s.dtype, data, offset)  # may be unaligned
        column = column_of(f"{path}: {what} {k}", spec, rows, what, scale, quantization)
        columns.append(replace(column, notes=column.notes + notes))
        notes = ()  # those about the file are given once
        offset += length * s.nbytes
    return tuple(columns)


def _raw_layout(
    path: str, size: int, specs: Sequence[TensorSpec], what: str
) -> tuple[Sequence[TensorSpec], str]:
    """Returns shapes, dtypes and scale of a raw file from its sidecar, or else from specs."""
    sidecar = read_sidecar(path)
    if sidecar is None:
        return [TensorSpec(s.shape, s.dtype.newbyteorder("<")) for s in specs], ""
    if sidecar.nbytes != size:
        raise DataError(
            f"{path}: its JSON file says {sidecar.samples} samples in {sidecar.nbytes} bytes, but "
            f"the file has {size}. Write the data again, or delete {path}.json."
        )
    if len(sidecar.tensors) != len(specs):
        hint = ""
        if what == "expected output":
            hint = " Give those of the outputs that have a loss; `output_losses=` selects them."
        raise DataError(
            f"{path}: the model needs {len(specs)} tensors of {what}, but the file's JSON file "
            f"says {len(sidecar.tensors)}.{hint}"
        )
    return sidecar.tensors, sidecar.scale
