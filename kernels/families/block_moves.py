"""Operators that move blocks of values: each value of y is a value of x, or 0.

A row lists pairs of equal parts of x and y. Forward copies x to y; the gradient copies dy to dx.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from odt.errors import ShapeError
from odt.kernels.families.copies import Moves, copying, zeros
from odt.kernels.rows.opdef import (
    Array,
    Attrs,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
    never_mixes_samples,
)
from odt.kernels.rows.quantizeddef import QuantizedDef

# (attrs, x, y) → pairs of equal parts of x and y, as views.
Parts = Callable[[Attrs, Array, Array], Iterator[tuple[Array, Array]]]


def block_move(
    name: str,
    parts: Parts,
    infer: Callable[[Attrs, Specs], Specs],
    attrs: Callable[[Options, Mapping[str, Array]], Attrs],
    *,
    inputs: tuple[str, ...] = ("x",),
    mixes_samples: Callable[[Attrs, Specs, Names], bool] = never_mixes_samples,
    add_batch_axis: Callable[[Attrs, int], Attrs] | None = None,
    quantized: QuantizedDef | None = None,
) -> OpDef:
    """Makes the row of an operator that moves the values of its input x.

    Args:
        name: name of the operator.
        parts: returns pairs of equal parts, which must not overlap.
        inputs: x and static inputs.
    """

    def moves(pairs: Iterable[tuple[Array, Array]], whole: Array) -> Moves:
        """Fills what no part covers with zeros."""
        copies = tuple(pairs)
        if sum(target.size for _, target in copies) < whole.size:
            yield zeros(whole)
        yield from copies

    def forward(attrs: Attrs, *, x: Array, y: Array) -> Moves:
        return moves(parts(attrs, x, y), y)

    def grad_x(attrs: Attrs, *, dy: Array, dx: Array) -> Moves:
        return moves(((target, source) for source, target in parts(attrs, dx, dy)), dx)

    return OpDef(
        name,
        inputs=inputs,
        infer=infer,
        forward=copying(forward, ("x",), ("y",)),
        grads={"x": copying(grad_x, ("dy",), ("dx",))},
        static=inputs[1:],
        attrs=attrs,
        mixes_samples=mixes_samples,
        add_batch_axis=add_batch_axis,
        quantized=quantized,
    )


def block_attrs(options: Options, statics: Mapping[str, Array]) -> int:
    """Reads the side length of a block."""
    return int(options.get("block_size", 1))


def images(s: Specs) -> TensorSpec:
    x = s["x"]
    if len(x.shape) != 4:
        raise ShapeError(f"x must be (N, H, W, C), but got {x}")
    return x


def blocks(deep: Array, wide: Array, size: int) -> tuple[Array, Array]:
    """Views (N, H, W, size²·C) and (N, H·size, W·size, C) as blocks in the same order."""
    n, height, width, _ = deep.shape
    channels = wide.shape[3]
    deep_blocks = deep.reshape(n, height, width, size, size, channels, copy=False)
    wide_blocks = wide.reshape(n, height, size, width, size, channels, copy=False)
    return deep_blocks.transpose(0, 1, 3, 2, 4, 5), wide_blocks
