"""Arrays in memory as columns: one array of samples for each model input or output."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from odt.core.data.column import Column, column_of
from odt.errors import DataError
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import Array, TensorSpec

Quantizations: TypeAlias = "Sequence[Quantization | None]"


def with_note(column: Column, note: str) -> Column:
    """Returns a column with one more note; an empty one is left out."""
    return replace(column, notes=(*column.notes, note)) if note else column


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
    masked_arrays = sys.modules.get("numpy.ma")  # imported, which takes 25 ms, if there are any
    for name, rows in zip(names, arrays, strict=True):
        masked = 0
        if masked_arrays is not None and isinstance(rows, masked_arrays.MaskedArray):
            masked = int(rows.mask.sum())
        if masked:
            raise DataError(
                f"{name}: must have a value everywhere, but {masked} are masked. Fill them, as "
                "with a.filled(0), or leave their samples out."
            )
    return [
        column_of(name, spec, rows, what, "", quantization, in_file=False)
        for name, spec, rows, quantization in zip(
            names, specs, map(np.asarray, arrays), each_of(quantizations, specs), strict=True
        )
    ]


def each_of(quantizations: Quantizations, specs: Sequence[TensorSpec]) -> Quantizations:
    """Returns a quantization or None for each tensor."""
    return quantizations or [None] * len(specs)
