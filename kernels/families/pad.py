"""Padding operators: attributes, shape inference, the border and the gradient."""

from collections.abc import Iterator, Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.families.copies import Moves, copying
from odt.kernels.geometry.axes import moved_entries
from odt.kernels.rows.opdef import Array, Names, Options, Specs, TensorSpec


@dataclass(frozen=True, slots=True)
class PadAttrs:
    """The number of values added before and after x, for each axis."""

    pads: tuple[tuple[int, int], ...]

    def inside(self, shape: tuple[int, ...]) -> tuple[slice, ...]:
        """Returns the slices of y that hold x."""
        return tuple(slice(lo, lo + n) for (lo, _), n in zip(self.pads, shape, strict=True))


def pad_attrs(options: Options, statics: Mapping[str, Array]) -> PadAttrs:
    pads = np.asarray(statics["paddings"])
    if pads.ndim != 2 or pads.shape[1] != 2:
        raise ShapeError(f"paddings must be (rank, 2), but got {pads.shape}")
    return PadAttrs(tuple((int(lo), int(hi)) for lo, hi in pads))


def infer(attrs: PadAttrs, s: Specs) -> Specs:
    x = s["x"]
    if len(attrs.pads) != len(x.shape) or any(min(p) < 0 for p in attrs.pads):
        raise ShapeError(
            f"paddings must be two counts, 0 or more, for each axis of x, "
            f"but got {attrs.pads}, x {x}"
        )
    shape = tuple(n + lo + hi for n, (lo, hi) in zip(x.shape, attrs.pads, strict=True))
    return {"y": TensorSpec(shape, x.dtype)}


def mixes_samples(attrs: PadAttrs, s: Specs, batched: Names) -> bool:
    return bool(attrs.pads) and attrs.pads[0] != (0, 0)


def add_batch_axis_to_pads(attrs: PadAttrs, samples: int) -> PadAttrs:
    return PadAttrs(((0, 0), *attrs.pads))


def moved_pads(attrs: PadAttrs, perm: tuple[int, ...]) -> PadAttrs:
    return PadAttrs(moved_entries(attrs.pads, perm))


def border(attrs: PadAttrs, y: Array) -> Iterator[Array]:
    """Yields the parts of the border around x, axis by axis."""
    for k, (lo, hi) in enumerate(attrs.pads):
        before = (slice(None),) * k
        yield y[(*before, slice(0, lo))]
        yield y[(*before, slice(y.shape[k] - hi, None))]


def grad_x(attrs: PadAttrs, *, dy: Array, dx: Array) -> Moves:
    yield dy[attrs.inside(dx.shape)], dx


GRAD_X = copying(grad_x, ("dy",), ("dx",))
