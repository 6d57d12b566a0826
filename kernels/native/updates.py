"""Compiled sums of gradients and optimizer updates."""

from collections.abc import Callable

from odt.kernels.native.binding import bind
from odt.kernels.opdef import Array


def bind_accumulate(total: Array, gradient: Array, adds: Array) -> Callable[[], None]:
    """Returns a compiled call of total += gradient if adds[0], else total = gradient.

    Args:
        total, gradient: arrays of the same size.
        adds: one int64, read in each call.
    """
    return bind("accumulate", total, gradient, total.size, adds)


def bind_update(name: str, p: Array, g: Array, *slots: Array, numbers: Array) -> Callable[[], None]:
    """Returns a compiled update of p and its slots.

    Args:
        name: name of the kernel, whose arguments are p, g, the slots, their size and the numbers.
        p: parameter.
        g: its gradient.
        slots: arrays like p.
        numbers: float32, read in each call.
    """
    return bind(name, p, g, *slots, p.size, numbers)
