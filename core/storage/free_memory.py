"""Free memory of the process: pauses the garbage collector, and gives memory to the system.

Reading and planning a model leave holes in the memory of the process, which only small objects can
fill: 1.5 MB for a quantized MobileNetV2. They would stay beside the arenas of training.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def give_back() -> None:
    """Gives memory that is not in use back to the system; only glibc can do it on demand."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pauses the collector in a `with` block or a decorated function, if it is enabled.

    A plan of a network with some hundred nodes has tens of thousands of objects without cycles. The
    collector would visit them several times, which takes a tenth of the time of planning.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
