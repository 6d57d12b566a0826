"""Sparse constants, of which a file stores only some values; all others are 0."""

import numpy as np

from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True, slots=True)
class Sparsity:
    """The form in which a file stores a sparse constant.

    Attributes:
        dtype: dtype of the values.
        places: positions of the stored values, in their order, in the flat dense tensor.
    """

    dtype: np.dtype[np.generic]
    places: Array

    def dense(self, data: Array, shape: tuple[int, ...]) -> Array:
        """Returns the dense tensor of this shape, from the bytes of its stored values."""
        values = np.zeros(shape, self.dtype)
        values.reshape(-1)[self.places] = np.frombuffer(data, self.dtype)
        return values

    def stored(self, values: Array) -> Array:
        """Returns the bytes to store for the values of a dense tensor, which `dtype` can hold."""
        return values.reshape(-1)[self.places].astype(self.dtype).view(np.uint8)
