"""BATCH_TO_SPACE_ND: images of a batch become the pixels of fewer and larger ones.

x (N·Πb, S…, R…)    block (M,), crops (M, 2): static    y (N, S·b − before − after…, R…)

dx is dy put back, and 0 for what is cropped. Source: tf.batch_to_space_nd.
"""

from collections.abc import Iterator

from odt.errors import ShapeError
from odt.kernels.batching import BatchAttrs, batch_attrs, checked, mixes, places
from odt.kernels.moving import moving
from odt.kernels.opdef import Array, Specs, TensorSpec


def infer(attrs: BatchAttrs, s: Specs) -> Specs:
    x = s["x"]
    larger = checked(attrs, x)
    axes = zip(x.shape[1:], attrs.block, attrs.edges, strict=False)
    sizes = [n * b - lo - hi for n, b, (lo, hi) in axes]
    if x.shape[0] % larger or min(sizes, default=1) < 1:
        raise ShapeError(
            f"block must divide x's first axis, and crops leave something, but got {attrs.block}, "
            f"{attrs.edges}, x {x}"
        )
    shape = (x.shape[0] // larger, *sizes, *x.shape[1 + len(sizes) :])
    return {"y": TensorSpec(shape, x.dtype)}


def parts(attrs: BatchAttrs, x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    for space, batch in places(attrs, y, x):
        yield batch, space


OP = moving(
    "BATCH_TO_SPACE_ND", parts, infer, batch_attrs, inputs=("x", "block", "edges"), mixes=mixes
)
