"""Mapping of weights or gradients by name."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias

import numpy as np

from odt.core.storage.reading import printable, reason
from odt.errors import DataError

Array: TypeAlias = np.ndarray[Any, Any]


class Arrays(MutableMapping[str, Array]):
    """Mapping from names to arrays, which can be set in place; names cannot be added or removed.

    Args:
        arrays: returns the current arrays by name.
        averages: returns their moving averages by name, which are set with them. Arrays that have
            one are read-only, because a change in place would not change the average.
    """

    def __init__(
        self,
        arrays: Callable[[], Mapping[str, Array]],
        averages: Callable[[], Mapping[str, Array]] = dict,
    ) -> None:
        self._arrays = arrays
        self._averages = averages

    def __getitem__(self, name: str) -> Array:
        array = self._arrays()[name]
        if name in self._averages():
            array = array.view()
            array.flags.writeable = False
        return array

    def __setitem__(self, name: str, values: Any) -> None:
        """Sets an array's values.

        Args:
            name: name of the array.
            values: values of the same shape, with a dtype that can be cast to the array's.

        Raises:
            KeyError: if there is no array of that name.
            DataError: if shape or dtype differ.
        """
        array = self._arrays()[name]
        new = fitting(name, array.shape, array.dtype, values)
        for a in (array, self._averages().get(name, array)):
            np.copyto(a, new, casting="same_kind")

    def __delitem__(self, name: str) -> None:
        raise TypeError("weights cannot be removed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays())

    def __len__(self) -> int:
        return len(self._arrays())

    def __repr__(self) -> str:
        return "\n".join(f"{printable(name)}: {a.shape} {a.dtype}" for name, a in self.items())


def fitting(name: str, shape: tuple[int, ...], dtype: Any, values: Any) -> Array:
    """Checks values for an array, and returns them as an array.

    Args:
        name: name of the array, for the message.
        shape: shape of the array.
        dtype: dtype of the array, to which the values must be castable.
        values: anything that `numpy.asarray` accepts.

    Raises:
        DataError: if shape or dtype differ.
    """
    array = as_array(name, values)
    if array.shape != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise DataError(f"{name}: must be {shape} {dtype}, but got {array.shape} {array.dtype}.")
    return array


def as_array(name: str, values: Any) -> Array:
    """Returns values as an array; raises DataError if NumPy cannot make one of them."""
    try:
        return np.asarray(values)
    except ValueError as e:
        raise DataError(f"{name}: must be an array, but got: {reason(e)}.") from e
