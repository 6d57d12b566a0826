"""Cross-entropy of class numbers joined with the dense layer before it, in chunks of rows.

x (…, I)    w (V, I)    b (V,) or absent    t (R)    scale (1,) or (S,), S runs of rows    loss (1,)

For the logits y = x wᵀ + b, the loss of y is that of sparse_categorical_crossentropy, and
dx = dy w    dw = dyᵀ x    db = Σ dy
Logits and their gradients exist for the rows of a chunk alone: with many classes, as of a language
model's words, they are far larger than x. dx may be x, because a chunk of x is read before that of
dx is written. terms (R) is −log p of each row's class, and best (R) the place of its largest logit.

Weights that a file stores as integers or blocks are decoded some units at a time.

Plans use this kernel in place of the calls of layer and loss where it saves memory.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from odt.kernels.families.loss_scale import scaled_sum
from odt.kernels.geometry.softmax_geometry import ChunkedAttrs, prepare
from odt.kernels.losses import sparse_categorical_crossentropy as labels
from odt.kernels.native import chunked_loss as compiled
from odt.kernels.rows.opdef import Array, Kernel, Specs, TensorSpec

UNITS = 4096  # units whose weights are decoded, or get their gradient, at a time
RESULTS = ("loss", "dx", "dw", "db", "terms", "best")


def workspace(attrs: ChunkedAttrs, s: Specs) -> Specs:
    """Returns the workspace: the logits of a chunk, and what the loss needs of its rows."""
    logits = compiled.logits(attrs, s)
    specs = {
        "logits": logits,
        **compiled.scales(s),
        **labels.scratch_forward(attrs.loss, {"x": logits}),
    }
    units, depth = attrs.shape
    of_units = TensorSpec((min(UNITS, units), depth), logits.dtype)
    if attrs.decoder is not None:
        specs["block"] = of_units
        if "dx" in s:
            specs["addend"] = TensorSpec((logits.shape[0], depth), logits.dtype)
    if "dw" in s:
        specs["part"] = of_units
    if "db" in s:
        specs["column"] = TensorSpec(logits.shape[1:], logits.dtype)
    return specs


def run(
    attrs: ChunkedAttrs,
    *,
    x: Array,
    w: Array,
    t: Array,
    scale: Array,
    loss: Array,
    logits: Array,
    divisor: int,
    b: Array | None = None,
    dx: Array | None = None,
    dw: Array | None = None,
    db: Array | None = None,
    terms: Array | None = None,
    best: Array | None = None,
    by_row: Array | None = None,
    part: Array | None = None,
    column: Array | None = None,
    block: Array | None = None,
    addend: Array | None = None,
    **scratch: Array,
) -> None:
    x, t = x.reshape(-1, attrs.shape[1], copy=False), t.reshape(-1, copy=False)
    if by_row is not None:
        np.copyto(by_row.reshape(scale.size, -1, copy=False), scale[:, np.newaxis])
        scale = by_row
    total = 0.0
    for first in range(0, len(x), attrs.rows):
        here = slice(first, min(first + attrs.rows, len(x)))
        y = logits[: here.stop - first]
        own = {name: a[: len(y)] for name, a in scratch.items()}
        of_rows = {"t": t[here], "scale": scale if scale.size == 1 else scale[here]}
        for units, real in _weights(attrs, w, block):
            np.matmul(x[here], real.T, out=y[:, units])
        if b is not None:
            np.add(y, b, out=y)
        if best is not None:
            np.argmax(y, axis=1, out=own["at"])
            np.copyto(best[here], own["at"], casting="unsafe")
        terms_of_rows = None if terms is None else terms[here]
        labels.log_p(attrs.loss, x=y, t=of_rows["t"], p=y, terms=terms_of_rows, **own)
        total += scaled_sum(own["values"], of_rows["scale"], -divisor)
        if dx is None and dw is None and db is None:
            continue
        own.pop("mean", None)
        labels.grad_x(attrs.loss, x=y, p=y, dx=y, divisor=divisor, **of_rows, **own)
        if db is not None and column is not None:
            np.sum(y, axis=0, out=column)
            _add(db, column, first)
        if dw is not None and part is not None:
            for at in range(0, len(dw), UNITS):
                of_units = part[: len(dw[at : at + UNITS])]
                np.matmul(y[:, at : at + UNITS].T, x[here], out=of_units)
                _add(dw[at : at + UNITS], of_units, first)
        if dx is not None:
            to = dx.reshape(x.shape, copy=False)[here]
            for units, real in _weights(attrs, w, block):
                result = to if addend is None else addend[: len(y)]
                np.matmul(y[:, units], real, out=result)
                if result is not to:
                    _add(to, result, units.start)
    loss[0] = total


def _weights(attrs: ChunkedAttrs, w: Array, block: Array | None) -> Iterator[tuple[slice, Array]]:
    """Yields units and their weights: all of them, or blocks that are decoded into `block`."""
    units = attrs.shape[0]
    if attrs.decoder is None or block is None:
        yield slice(0, units), w
        return
    for at in range(0, units, len(block)):
        numbers = np.arange(at, min(at + len(block), units))
        real = block[: len(numbers)]
        attrs.decoder.decode_rows(w, numbers, real)
        yield slice(at, at + len(real)), real


def _add(total: Array, part: Array, first: int) -> None:
    """Adds a part to a total; sets the total to the first part."""
    if first:
        np.add(total, part, out=total)
    else:
        np.copyto(total, part)


def _prepare(attrs: ChunkedAttrs, s: Specs) -> dict[str, object]:
    """Returns the divisor of the loss, which depends on all axes of the logits."""
    shape = (*s["t"].shape, attrs.shape[0])
    return {**prepare(attrs.loss, {"x": TensorSpec(shape, s["x"].dtype)})}


@lru_cache
def kernel(reads: tuple[str, ...], writes: tuple[str, ...]) -> Kernel:
    """Returns the kernel that computes some of RESULTS, with a bias if it reads one."""
    return Kernel(
        run,
        reads=reads,
        writes=writes,
        workspace=workspace,
        may_alias=frozenset({("dx", "x")}) if "dx" in writes else frozenset(),
        prepare=_prepare,
        compiled=compiled.compiled(_prepare),
    )
