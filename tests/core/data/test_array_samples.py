"""Samples in arrays that replace those of a data set, in steps that are divided."""

import numpy as np
import pytest

from odt.core.data.array_columns import array_columns
from odt.core.data.array_samples import ArraySamples
from odt.core.data.dataset import DataSet
from odt.errors import DataError
from odt.kernels.rows.opdef import TensorSpec


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (np.float32, 1.5, "x: sample 6: values must be whole numbers that fit into int32, but"),
        (np.int64, 2**32, "x: sample 6: values must fit into int32, but got 4294967296"),
    ],
)
def test_a_bad_value_has_its_number_in_the_whole_batch(
    dtype: type[np.generic], value: float, message: str
) -> None:
    x = np.arange(24).reshape(8, 3).astype(dtype)
    spec = TensorSpec((3,), np.dtype(np.int32))
    samples = ArraySamples(DataSet(array_columns([x], [spec], "x")))
    out = np.empty((4, 3), np.int32)
    samples.read(range(4, 8), [out], [])
    np.testing.assert_array_equal(out, x[4:])
    bad = x.copy()
    bad[6, 1] = value
    samples.replace([bad])
    samples.read(range(4), [out], [])
    with pytest.raises(DataError, match=message):
        samples.read(range(4, 8), [out], [])
