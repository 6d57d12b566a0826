"""OrtValue: an array in the wrapper that ONNX Runtime uses."""

from typing import Any

import numpy as np

from odt.training.weights import Array


class OrtValue:
    """An array; `numpy` returns it, and so does `numpy.asarray`."""

    def __init__(self, array: Any) -> None:
        """Wraps an array.

        Args:
            array: the array, which is not copied.
        """
        self._array = np.asarray(array)

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Any, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """Wraps an array.

        Args:
            numpy_obj: the array, which is not copied.
            device_type: ignored; odt computes on the processor.
            device_id: ignored.
        """
        return cls(numpy_obj)

    def numpy(self) -> Array:
        """Returns the array."""
        return self._array

    def shape(self) -> list[int]:
        """Returns the shape."""
        return list(self._array.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype, copy=copy)

    def __repr__(self) -> str:
        return f"OrtValue({self._array.shape}, {self._array.dtype})"
