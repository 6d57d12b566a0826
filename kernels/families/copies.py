"""Kernels that copy between views of their arrays."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from odt.kernels.native import copies
from odt.kernels.native.copies import Pairs
from odt.kernels.rows.opdef import Array, Attrs, Kernel, Specs, never, no_arguments

Prepare = Callable[[Attrs, Specs], Mapping[str, Any]]
Moves = Iterator[tuple[Array, Array]]


def zeros(target: Array) -> tuple[Array, Array]:
    """Returns the pair that fills the target with zeros."""
    return np.broadcast_to(np.zeros((), target.dtype), target.shape), target


def copying(
    pairs: Pairs,
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    prepare: Prepare = no_arguments,
    view: Callable[[Attrs, Specs], bool] = never,
) -> Kernel:
    """Makes a kernel that copies each source to its target.

    Args:
        pairs: (attrs, **arrays, **arguments of `prepare`) → pairs (source, target) of views of
            equal shape, in the order of the copies.
        reads, writes, prepare, view: as in Kernel.
    """

    def run(attrs: Attrs, **arrays: Any) -> None:
        for source, target in pairs(attrs, **arrays):
            np.copyto(target, source)

    compiled = copies.compiled_copies(pairs, (*reads, *writes), prepare)
    return Kernel(run, reads, writes, view=view, prepare=prepare, compiled=compiled)


def slicing(prepare: Prepare) -> tuple[Kernel, Kernel]:
    """Makes forward and gradient of y = x[at]; `prepare` returns the tuple `at`."""

    def forward(attrs: Attrs, *, x: Array, y: Array, at: Any) -> Moves:
        yield x[(*at, ...)], y

    def grad_x(attrs: Attrs, *, dy: Array, dx: Array, at: Any) -> Moves:
        yield zeros(dx)
        yield dy, dx[(*at, ...)]

    return (
        copying(forward, ("x",), ("y",), prepare),
        copying(grad_x, ("dy",), ("dx",), prepare),
    )


def _zero(attrs: Attrs, *, y: Array) -> Moves:
    yield zeros(y)


ZERO = copying(_zero, (), ("y",))
