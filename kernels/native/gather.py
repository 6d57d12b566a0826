"""Compiled gather and scatter: sums of rows that indices select, and sums into such rows.

TOPK_V2 selects, and spreads, values of a row.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from odt.kernels.native.binding import Calls, bind
from odt.kernels.native.float32 import FLOAT
from odt.kernels.rows.opdef import Array, Attrs, Compiled, Specs


def fits(name: str) -> Callable[[Attrs, Specs], bool]:
    """Makes a check: an array is float32, none of float32 is empty, NumPy's indices are int64.

    Without the check, an index would select a row before an empty table.
    """

    def check(attrs: Attrs, s: Specs) -> bool:
        rows = s[name] if name in s else s[name[1:]]  # dx has the spec of x
        has_values = all(spec.size for spec in s.values() if spec.dtype == FLOAT)
        return np.dtype(np.intp).itemsize == 8 and rows.dtype == FLOAT and has_values

    return check


def select(table: Array, at: Array, y: Array) -> Calls:
    """Returns a call that computes y[r] = table[at[r]].

    Args:
        table: (entries…, width…).
        at: (R…,) int64.
        y: (R…, width…).
    """
    sizes = 1, at.size, y.size // at.size, 0
    return bind("gather", table, y, None, at, None, *sizes)


def scatter_add(rows: Array, at: Array, table: Array) -> Calls:
    """Returns a call that computes table[at[r]] += rows[r] from 0; arguments as in `select`."""
    width = rows.size // at.size
    return bind("scatter_add", rows, at, table, at.size, width, table.size)


def _fits_topk(k: int, s: Specs) -> bool:
    return s["x"].dtype == FLOAT and k > 0 and s["x"].size > 0


def _topk(k: int, *, x: Array, values: Array, indices: Array) -> Callable[[], None]:
    width = x.shape[-1]
    return bind("topk", x, values, indices, x.size // width, width, k)


def _topk_back(k: int, *, dvalues: Array, indices: Array, dx: Array) -> Callable[[], None]:
    width = dx.shape[-1]
    return bind("topk_back", dvalues, indices, dx, dx.size // width, width, k)


TOPK, TOPK_BACK = Compiled(_topk, _fits_topk), Compiled(_topk_back, _fits_topk)


class SparseMatrix(NamedTuple):
    """A matrix as `gather` reads it: compressed sparse rows.

    Attributes:
        first: (rows + 1,) int64, first element of each row; None: row r has element r.
        at: (elements,) int64, column of each element.
        weights: (elements,) float32; None, only if `first` is None: all are 1.
    """

    first: Array | None
    at: Array
    weights: Array | None


def selection(at: Array) -> SparseMatrix:
    """Returns the matrix of y[r] = x[at[r]]."""
    return SparseMatrix(None, at, None)


def transposed(at: Array, columns: int) -> SparseMatrix:
    """Returns the transpose of the matrix `selection(at)`, which has so many columns."""
    order = np.argsort(at, kind="stable")
    first = np.searchsorted(at[order], np.arange(columns + 1))
    return SparseMatrix(first.astype(np.int64), order, np.ones(at.size, FLOAT))


def entries(matrix: Array) -> SparseMatrix:
    """Returns the elements of a matrix that are not 0."""
    rows, at = np.nonzero(matrix)
    first = np.searchsorted(rows, np.arange(len(matrix) + 1))
    weights = matrix[rows, at].astype(FLOAT)
    return SparseMatrix(first.astype(np.int64), at.astype(np.int64), weights)


def multiply(matrix: SparseMatrix, x: Array, y: Array) -> Callable[[], None]:
    """Returns a call that computes y[i] = matrix x[i].

    Args:
        matrix: from `selection`, `transposed` or `entries`.
        x: (images, columns, width).
        y: (images, rows, width).
    """
    sizes = *y.shape, x.shape[1]
    return bind("gather", x, y, *matrix, *sizes)
