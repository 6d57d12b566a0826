"""Compiled optimizer updates."""

from collections.abc import Callable
from typing import Any

from odt.kernels.native.binding import argument, bind, function
from odt.kernels.opdef import Array


def bind_accumulate(total: Array, gradient: Array, adds: Array) -> Callable[[], None]:
    """Returns a compiled call of total += gradient if adds[0], else total = gradient.

    Args:
        total, gradient: arrays of the same size.
        adds: one int64, read in each call.
    """
    return bind("accumulate", total, gradient, total.size, adds)


def bind_update(name: str, numbers: int, *arrays: Array) -> Callable[..., None]:
    """Returns a compiled update of p and its slots, to be called with the gradient and numbers.

    Args:
        name: name of the function, whose arguments are p, the gradient, the slots, their size and
            the numbers.
        numbers: number of these numbers.
        arrays: p and the slots.
    """
    run = function(name)
    p, *slots = map(argument, arrays)
    size = arrays[0].size
    known: list[Any] = [None, None]  # gradients are passed in the same array each time

    def update(gradient: Array, *numbers: float) -> None:
        if known[0] is not gradient:
            known[:] = gradient, argument(gradient)
        run(p, known[1], *slots, size, *numbers)

    return update
