"""Recognizes matrices and tables of formulas by their values: sinusoids and bands of filters.

A trained matrix has none of these forms, also not approximately. Values of float16 and of integers
are rounded, so that comparisons have a tolerance.
"""

import numpy as np

from odt.kernels.rows.opdef import Array

LEAST = 4  # points of a sinusoid that are compared
FEW = 8  # about as many columns are compared first, which rules out most arrays without memory
FIRST = 64  # points of a sinusoid that are compared first
EXACT, ROUNDED = 2e-3, 0.04  # tolerances, as a fraction of the largest value
SLOW = 1.995  # 2 cos ω of the slowest sinusoid that is told from a straight line
MIN_BANDS = 4  # rows of a bank of filters
MAX_FILLED = 0.6  # fraction of its values that are not 0


def is_sinusoidal(values: Array, tolerance: float = EXACT) -> bool:
    """Whether all lines of an array along one of its axes are sinusoids.

    Each sinusoid obeys x[t + 1] + x[t − 1] = 2 cos(ω) x[t].

    Args:
        values: an array with at least two axes that are longer than 1.
        tolerance: of the equation, as a fraction of the largest value.
    """
    shape = [n for n in values.shape if n != 1]
    if len(shape) < 2 or not values.size:
        return False
    array = values.reshape(shape)
    largest = max(float(array.max()), -float(array.min()))
    if not np.isfinite(largest) or not largest:
        return False
    axes = (np.moveaxis(array, k, 0) for k, n in enumerate(shape) if n >= LEAST)
    return any(_are_sinusoids(lines, largest, tolerance) for lines in axes)


def _are_sinusoids(lines: Array, largest: float, tolerance: float) -> bool:
    """Whether all lines along axis 0 are sinusoids, constants included, and two vary fast enough.

    The first points of a few lines, which may deviate more, are compared without a copy of all.
    """
    columns = lines[:FIRST].reshape(min(len(lines), FIRST), -1)
    few = columns[:, :: max(columns.shape[1] // FEW, 1)].astype(np.float64)
    if _deviation(few, _factors(few)) > 4 * tolerance * largest:
        return False
    columns = lines.reshape(len(lines), -1).astype(np.float64)
    factors = _factors(columns)
    if _deviation(columns, factors) > tolerance * largest:
        return False
    varies = np.ptp(columns, axis=0) > 10 * tolerance * largest
    return int((varies & (factors < SLOW)).sum()) > 1


def _factors(columns: Array) -> Array:
    """Fits 2 cos ω to each column."""
    middle = columns[1:-1]
    powers = np.maximum((middle**2).sum(0), np.finfo(np.float64).tiny)
    factors: Array = np.clip(((columns[2:] + columns[:-2]) * middle).sum(0) / powers, -2, 2)
    return factors


def _deviation(columns: Array, factors: Array) -> float:
    """Returns the largest deviation of columns from the equation with their factors."""
    return float(np.abs(columns[2:] + columns[:-2] - factors * columns[1:-1]).max())


def are_quadratures(a: Array, b: Array, tolerance: float = EXACT) -> bool:
    """Whether two matrices hold cosines and sines of the same angles, under the same window.

    The sum of squares is then the square of the window, the same in each row.

    Args:
        a: matrix, one row for each frequency.
        b: matrix of the same shape.
        tolerance: of a value, as a fraction of the largest one; that of a sum of squares is four
            times as large.
    """
    if a.shape != b.shape or a.ndim < 2 or len(a) < LEAST or not a.size:
        return False
    matrices = a.reshape(len(a), -1), b.reshape(len(b), -1)
    columns = matrices[0].shape[1]
    most = sum(float(max(m.max(), -m.min())) ** 2 for m in matrices)
    few = _squares(*(m[:, :: max(columns // FEW, 1)] for m in matrices))
    if columns < LEAST or not np.ptp(few, axis=0).max() <= 4 * tolerance * most:
        return False
    squares = _squares(*matrices)
    largest = squares.max()
    same = bool(largest and np.ptp(squares, axis=0).max() <= 4 * tolerance * largest)
    return same and not np.allclose(matrices[0][0], matrices[0][1])


def _squares(a: Array, b: Array) -> Array:
    """Returns the sums of the squares of two matrices in float64."""
    return np.asarray(a, np.float64) ** 2 + np.asarray(b, np.float64) ** 2


def is_split_quadrature(values: Array, tolerance: float = EXACT) -> bool:
    """Whether a matrix has cosines in one half of its rows, or in every other, and sines else."""
    n = len(values) // 2
    halves = (values[:n], values[n : 2 * n]), (values[: 2 * n : 2], values[1 : 2 * n : 2])
    return len(values) == 2 * n and any(are_quadratures(a, b, tolerance) for a, b in halves)


def is_filter_bank(values: Array) -> bool:
    """Whether each row of a matrix weighs one band: mel filters, and rows of an identity.

    Values are not negative, most are 0, and the others of a row are side by side.
    """
    if values.ndim < 2 or len(values) < MIN_BANDS or not values.size:
        return False
    rows = np.asarray(values).reshape(len(values), -1)
    filled = rows != 0
    if rows.shape[1] < LEAST or (rows < 0).any() or filled.mean() > MAX_FILLED:
        return False
    changes = np.diff(np.pad(filled, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    bands = (changes > 0).sum(axis=1)
    return bool((bands <= 1).all() and bands.sum() >= MIN_BANDS)


def is_mask(values: Array) -> bool:
    """Whether an array holds zeros and ones, and nothing else."""
    if values.size < 2 or values.flat[0] not in (0, 1):
        return False
    ones = values == 1
    return bool(ones.any() and not ones.all() and (ones | (values == 0)).all())
