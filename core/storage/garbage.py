"""Pauses the collector of cyclic garbage while many objects are made that stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pauses the collector in a `with` block or a decorated function, if it is enabled.

    A plan of a network with some hundred nodes has tens of thousands of objects without cycles. To
    visit them all, several times while they are made, takes a tenth of the time of planning.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
