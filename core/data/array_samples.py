"""Samples of one step in arrays that have the dtypes and shapes of those of an earlier step."""

from collections.abc import Sequence

import numpy as np

from odt.core.data.column import Column
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import SampleOrder
from odt.kernels.rows.opdef import Array


class ArraySamples:
    """Samples in arrays, in place of those of a data set.

    What follows from dtypes and shapes is decided once, because it would take longer than the step
    of a small network. Values are converted and checked as those of the data set.

    Attributes:
        length: number of samples.
        weights: None, because samples have no weights.
    """

    weights: Array | None = None

    def __init__(self, data: DataSet) -> None:
        """Takes over the arrays of a data set without weights."""
        assert data.weights is None
        self._data, self.length = data, data.length
        self._columns = data.inputs + data.targets
        self._copies = [_copies(column) for column in self._columns]
        self._arrays: Sequence[Array] = [np.asarray(column.rows) for column in self._columns]

    def replace(self, arrays: Sequence[Array]) -> None:
        """Replaces the arrays: those of the inputs, then those of the targets."""
        self._arrays = arrays

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples that follow one another, as `DataSet.read` does."""
        rows = slice(samples[0], samples[-1] + 1)
        columns = zip(self._columns, self._copies, self._data.checks, self._arrays, strict=True)
        outs = (*inputs, *targets)
        for (column, copies, check, array), out in zip(columns, outs, strict=True):
            if copies:
                part = array if len(out) == self.length else array[rows]
                values = out.reshape(part.shape, copy=False)
                np.copyto(values, part, casting="unsafe")
                fits = part.dtype == out.dtype or (values == part).all()
            else:
                column.with_rows(array).read(rows, out)
                fits = True
            if not fits or check(out) is not None:
                self._as_data_set().read(samples, inputs, targets)  # raises the error

    def check_all(self) -> None:
        """Checks the values of all samples, as `DataSet.check_all` does."""
        self._as_data_set().check_all()

    def _as_data_set(self) -> DataSet:
        return self._data.with_arrays(self._arrays)


def _copies(column: Column) -> bool:
    """Whether values are copied: those of the model's dtype, and integers for integers."""
    changes = column.file is not None or column.scale or column.quantization is not None
    both = column.rows.dtype, column.spec.dtype
    return not changes and (both[0] == both[1] or all(dtype.kind in "iu" for dtype in both))
