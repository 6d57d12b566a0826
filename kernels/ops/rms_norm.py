"""RMS_NORM: divides rows by the root of their mean square, and scales them.

x, y (…, K)    gamma (K) or (1, …, K)    inv (…, 1), for backward

With means over the last axis, inv = 1 / √(mean(x²) + ε), x̂ = x inv:
y = γ x̂      dγ = Σ dy x̂      dx = inv (γ dy − x̂ mean(γ dy x̂))

Source: RmsNormOptions in the Circle schema.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.geometry.axes import same
from odt.kernels.native import elementwise, normalization
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec


def attrs(options: Options, statics: Mapping[str, Array]) -> float:
    """Reads ε, 1e-6 if it is not in the file."""
    return float(options.get("epsilon", 1e-6))


def infer(epsilon: float, s: Specs) -> Specs:
    x, gamma = s["x"], s["gamma"]
    leading = len(gamma.shape) - 1
    fits = gamma.shape == (1,) * leading + x.shape[-1:] and leading < len(x.shape)
    if not x.shape or not x.size or x.dtype.kind != "f" or not fits or gamma.dtype != x.dtype:
        raise ShapeError(
            "x must be (…, K) of a float type and not empty, and gamma (K) of x's type, "
            f"but got x {x}, gamma {gamma}"
        )
    return {"y": x}


def mixes_samples(epsilon: float, s: Specs, batched: Names) -> bool:
    return len(s["x"].shape) == 1 or "gamma" in batched


def inverses(epsilon: float, s: Specs) -> Specs:
    x = s["x"]
    return {"inv": TensorSpec((*x.shape[:-1], 1), x.dtype)}


def like_x(epsilon: float, s: Specs) -> Specs:
    return {"part": s["x"]}


def forward(epsilon: float, *, x: Array, gamma: Array, y: Array, inv: Array, part: Array) -> None:
    np.multiply(x, x, out=part)
    np.mean(part, axis=-1, keepdims=True, out=inv)
    np.add(inv, epsilon, out=inv)
    np.sqrt(inv, out=inv)
    np.reciprocal(inv, out=inv)
    np.multiply(x, inv, out=y)
    np.multiply(y, gamma, out=y)


def back_workspace(epsilon: float, s: Specs) -> Specs:
    return {"part": s["x"], "row": s["inv"]}


def grad_x(
    epsilon: float,
    *,
    dy: Array,
    x: Array,
    gamma: Array,
    inv: Array,
    dx: Array,
    part: Array,
    row: Array,
) -> None:
    np.multiply(dy, gamma, out=dx)
    np.multiply(dx, x, out=part)
    np.mean(part, axis=-1, keepdims=True, out=row)
    np.multiply(row, inv, out=row)
    np.multiply(row, inv, out=row)
    np.multiply(x, row, out=part)
    np.subtract(dx, part, out=dx)
    np.multiply(dx, inv, out=dx)


def grad_gamma(
    epsilon: float, *, dy: Array, x: Array, inv: Array, dgamma: Array, part: Array
) -> None:
    np.multiply(x, inv, out=part)
    np.multiply(part, dy, out=part)
    np.sum(part, axis=tuple(range(x.ndim - 1)), out=dgamma.reshape(-1))


OP = OpDef(
    "RMS_NORM",
    inputs=("x", "gamma"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "gamma"),
        writes=("y", "inv"),
        workspace=like_x,
        may_alias=frozenset({("y", "x")}),
        compiled=normalization.RMS,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", "x", "gamma", "inv"),
            writes=("dx",),
            workspace=back_workspace,
            may_alias=frozenset({("dx", "dy")}),
            compiled=normalization.RMS_BACK,
        ),
        "gamma": Kernel(
            grad_gamma,
            reads=("dy", "x", "inv"),
            writes=("dgamma",),
            workspace=like_x,
            compiled=elementwise.kernel("multiply_three", "dgamma", ("dy", "x", "inv")),
        ),
    },
    aux=inverses,
    attrs=attrs,
    mixes_samples=mixes_samples,
    add_batch_axis=same,
)
