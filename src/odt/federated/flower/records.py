"""Tensors, counts and metrics as the records of a Flower message.

A client is sent an ArrayRecord of named tensors and a ConfigRecord. It answers with an ArrayRecord
and a MetricRecord, which can hold numbers only.
"""

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from odt.core.storage.reading import check_shape, reason, without_warnings
from odt.errors import DataError
from odt.federated.checks import REFUSED
from odt.federated.update import Tensors

NPY = "numpy.ndarray"  # serialization type of an Array
MAX_HEADER = 1024  # bytes; NumPy writes 128 for most arrays
DTYPES = ("float32", "float16", "int8")


def to_record(tensors: Mapping[str, Any]) -> ArrayRecord:
    """Returns an ArrayRecord with the names of the tensors.

    Args:
        tensors: name → array.
    """
    return ArrayRecord({name: Array(np.asarray(a)) for name, a in tensors.items()})


def from_record(record: ArrayRecord, where: str) -> Tensors:
    """Returns the tensors of an ArrayRecord from another machine.

    The header of each array is compared with the bytes that follow before memory is allocated.

    Args:
        record: arrays in the form of NumPy's .npy files.
        where: first words of a message, such as "client 3".

    Raises:
        DataError: if an array is not whole, or not of float32, float16 or int8.
    """
    return {name: _array(array, f"{where}: {name}") for name, array in record.items()}


def _array(array: Array, where: str) -> np.ndarray[Any, Any]:
    """Returns an array whose header and bytes agree; raises DataError for others."""
    if array.stype != NPY:
        raise DataError(f"{where}: must be a NumPy array, but got {array.stype}. {REFUSED}")
    source = io.BytesIO(array.data)
    try:  # NumPy raises more kinds of exceptions for such headers than a list could hold
        if np.lib.format.read_magic(source) != (1, 0):
            raise ValueError("the version of its header is not 1.0")
        with without_warnings():
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(source, MAX_HEADER)
        check_shape(shape, dtype.itemsize)
    except Exception as e:
        line = reason(e)
        raise DataError(f"{where}: must be an .npy array, but got: {line}. {REFUSED}") from None
    if dtype.name not in DTYPES or not dtype.isnative:
        raise DataError(f"{where}: must be {', '.join(DTYPES)}, but got {dtype}. {REFUSED}")
    expected = math.prod(shape) * dtype.itemsize
    nbytes = len(array.data) - source.tell()
    if expected != nbytes:
        raise DataError(
            f"{where}: must hold {expected} bytes for {shape} {dtype}, but got {nbytes}. {REFUSED}"
        )
    flat = np.frombuffer(array.data, dtype, offset=source.tell())
    return flat.reshape(shape, order="F" if fortran else "C")
