"""Memory that a call of a kernel allocates beside its arguments."""

import tracemalloc
from collections.abc import Mapping
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Attrs, Kernel

MAX_BYTES = 4 * np.getbufsize() * 4  # NumPy's iterators buffer so much whatever the size


def peak_of(kernel: Kernel, attrs: Attrs, arguments: Mapping[str, Any]) -> int:
    """Returns the peak of the memory that a call allocates after the first, in bytes."""
    kernel.run(attrs, **arguments)
    # The interpreter itself allocates now and then, such as for more interned names.
    return min(_peak(kernel, attrs, arguments) for _ in range(2))


def _peak(kernel: Kernel, attrs: Attrs, arguments: Mapping[str, Any]) -> int:
    tracemalloc.start()
    try:
        kernel.run(attrs, **arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
