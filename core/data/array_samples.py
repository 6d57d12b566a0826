"""Samples of one step in arrays that have the dtypes and shapes of those of an earlier step."""

from collections.abc import Sequence

import numpy as np

from odt.core.data.column import Column
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import SampleOrder, Weights
from odt.kernels.rows.lossdef import Check, LabelCheck
from odt.kernels.rows.opdef import Array


class ArraySamples:
    """Samples in arrays that replace those of a data set without ignored labels.

    What follows from dtypes and shapes is decided once, because it would take longer than the step
    of a small network. Values are converted and checked as those of the data set.

    Attributes:
        length: number of samples.
        weights: None, because samples have no weights.
    """

    weights: Weights | None = None

    def __init__(self, data: DataSet) -> None:
        """Takes over the arrays of a data set without weights."""
        assert data.weights is None, "samples in arrays have no weights"
        self._data = data
        self.length = data.length
        columns = data.columns
        pairs = zip(columns, data.checks, strict=True)
        self._readings = [_Reading(column, check) for column, check in pairs]
        self._arrays: Sequence[Array] = [np.asarray(column.rows) for column in columns]

    def replace(self, arrays: Sequence[Array]) -> None:
        """Replaces the arrays: those of the inputs, then those of the targets."""
        self._arrays = arrays

    def read(self, samples: SampleOrder, inputs: Sequence[Array], targets: Sequence[Array]) -> None:
        """Reads samples that follow one another, as `DataSet.read` does."""
        places = slice(samples[0], samples[-1] + 1)
        for reading, array, out in zip(
            self._readings, self._arrays, (*inputs, *targets), strict=True
        ):
            if not reading.read(array, places, out):
                self._as_data_set().read(samples, inputs, targets)  # raises the error

    def check_all(self) -> None:
        """Checks the values of all samples, as `DataSet.check_all` does."""
        self._as_data_set().check_all()

    def _as_data_set(self) -> DataSet:
        return self._data.with_arrays(self._arrays)


class _Reading:
    """How arrays of one dtype and sample shape are read into memory of the model's dtype."""

    def __init__(self, column: Column, check: Check) -> None:
        self._column, self._check = column, check
        dtype, model_dtype = column.rows.dtype, column.spec.dtype
        are_integers = dtype.kind in "iu" and model_dtype.kind in "iu"
        is_plain = column.file is None and not column.scale and column.quantization is None
        self._copies = is_plain and (are_integers or dtype == model_dtype)
        self._narrows = dtype != model_dtype
        # Labels that pass the check fit into the model's dtype.
        self._checks_first = self._copies and are_integers and isinstance(check, LabelCheck)

    def read(self, array: Array, places: slice, out: Array) -> bool:
        """Reads the samples at some places; returns whether their values pass the check.

        Raises:
            DataError: if a value cannot be converted.
        """
        if not self._copies:
            self._column.with_rows(array).read(places, out)
            return self._check(out) is None
        rows = array[places]
        if self._checks_first and self._check(rows) is not None:
            return False
        values = out.reshape(rows.shape, copy=False)
        values[...] = rows
        if self._checks_first:
            return True
        fits = not self._narrows or bool((values == rows).all())
        return fits and self._check(out) is None
