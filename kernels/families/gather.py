"""GATHER_ND and SCATTER_ND: rows of a table, selected by index tuples."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from odt.errors import DataError, ShapeError
from odt.kernels.native.binding import Run, in_order
from odt.kernels.native.typed import check_extent, find_rows, row_extent
from odt.kernels.rows.opdef import Array, TensorSpec

INDEX = np.dtype(np.intp)


def lead_of(name: str, table: tuple[int, ...], indices: TensorSpec) -> tuple[int, ...]:
    """Returns the axes of the table that an index tuple indexes.

    Raises:
        ShapeError: if the indices are not integers, or a tuple has more indices than the table
            axes.
    """
    shape = indices.shape
    if not shape or indices.dtype.kind != "i" or shape[-1] > len(table):
        raise ShapeError(
            f"indices must be integers (…, K), with K at most {name}'s axes, "
            f"but got {indices}, {name} {table}"
        )
    return table[: shape[-1]]


def workspace(indices: TensorSpec) -> dict[str, TensorSpec]:
    """Returns the workspace of `find`."""
    count = prod(indices.shape[:-1])
    return {"at": TensorSpec((count,), INDEX), "step": TensorSpec((count,), INDEX)}


def geometry(lead: tuple[int, ...], table: tuple[int, ...]) -> Mapping[str, Any]:
    """Prepares the axes that a tuple indexes, and the number of values of a row of the table."""
    return {"lead": lead, "width": prod(table[len(lead) :])}


def find(name: str, indices: Array, lead: tuple[int, ...], at: Array, step: Array) -> None:
    """Fills `at` with the number of the row of each index tuple; `step` is scratch.

    Raises:
        DataError: if an index is outside the table.
    """
    at.fill(0)
    columns = indices.reshape(at.size, len(lead), copy=False)
    for k, size in enumerate(lead):
        np.copyto(step, columns[:, k])
        if step.size and not (np.min(step) >= 0 and np.max(step) < size):
            raise DataError(
                f"{name}: indices of axis {k} must be 0 … {size - 1}, "
                f"but got {np.min(step)} … {np.max(step)}"
            )
        np.multiply(at, size, out=at)
        np.add(at, step, out=at)


def compiled_workspace(indices: TensorSpec) -> dict[str, TensorSpec]:
    """Returns the workspace of `bind_find`."""
    return {"at": workspace(indices)["at"], **row_extent(max(indices.shape[-1], 1))}


def bind_find(
    name: str, indices: Array, lead: tuple[int, ...], at: Array, extent: Array
) -> list[Run]:
    """Returns the compiled calls of `find`; `extent` has the least and most index of each axis."""

    def error(k: int, least: int, most: int) -> DataError:
        return DataError(
            f"{name}: indices of axis {k} must be 0 … {lead[k] - 1}, but got {least} … {most}"
        )

    # `extent` has a row even if tuples have no index.
    return [find_rows(indices, lead, at, extent), check_extent(extent, lead, error)]


def bind_entries(
    name: str,
    samples: Iterator[tuple[Array, ...]],
    lead: tuple[int, ...],
    at: Array,
    extent: Array,
    move: Callable[[Array, Array], Run],
) -> Callable[[], None]:
    """Returns the compiled calls that find the entries of each sample, and then move them.

    Args:
        name: name of the operator, for messages.
        samples: as `for_each_sample` yields them, with two arrays beside the indices.
        lead, at, extent: as for `bind_find`.
        move: binds the call that moves entries between the two arrays.
    """
    calls: list[Run] = []
    for entries, first, second in samples:
        calls += [*bind_find(name, entries, lead, at, extent), move(first, second)]
    return in_order(calls)


def for_each_sample(
    samples: int | None, indices: Array, values: Array, *others: Array
) -> Iterator[tuple[Array, ...]]:
    """Yields indices, values and others: whole, or of each sample of an added batch axis.

    All samples have the same indices if these have fewer axes than the values.
    """
    if samples is None:
        yield indices, values, *others
        return
    for k in range(samples):
        entries = indices[k] if indices.ndim == values.ndim else indices
        yield entries, values[k], *(a[k] for a in others)


def without_samples(
    samples: int | None, indices: TensorSpec, values: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    """Returns the specs of indices and values of one sample.

    Raises:
        ShapeError: if there are other numbers of samples.
    """
    if samples is None:
        return indices, values
    has_sample_axis = len(indices.shape) == len(values.shape)
    if values.shape[:1] != (samples,) or (has_sample_axis and indices.shape[:1] != (samples,)):
        raise ShapeError(f"there must be {samples} samples, but got {values}, indices {indices}")
    inner = TensorSpec(indices.shape[1:], indices.dtype) if has_sample_axis else indices
    return inner, TensorSpec(values.shape[1:], values.dtype)


def take(table: Array, at: Array, width: int, out: Array) -> None:
    """Copies rows of `width` values from the table to `out`; `at` has their numbers."""
    rows = out.reshape(-1, width, copy=False)
    np.take(table.reshape(-1, width, copy=False), at, axis=0, out=rows, mode="clip")


def put(table: Array, at: Array, width: int, values: Array) -> None:
    """Fills the table with 0, and adds rows of values to its rows `at` (scatter-add)."""
    table.fill(0)
    if values.size:
        rows = table.reshape(-1, width, copy=False)
        np.add.at(rows, at, values.reshape(-1, width, copy=False))
