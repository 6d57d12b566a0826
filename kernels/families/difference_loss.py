"""Losses that are the mean over a sample's elements of a function of x − t."""

from odt.errors import ShapeError
from odt.kernels.rows.opdef import Array, Attrs, Specs, TensorSpec


def infer(attrs: Attrs, s: Specs) -> Specs:
    if s["t"] != s["x"] or not s["x"].shape:
        raise ShapeError(f"t must be like x, (N, …), but got x {s['x']}, t {s['t']}")
    return {"loss": TensorSpec((1,), s["x"].dtype)}


def difference(attrs: Attrs, s: Specs) -> Specs:
    return {"difference": s["x"]}


def elements(x: Array) -> int:
    """Returns the number of elements of a sample."""
    return int(x.size // x.shape[0])
