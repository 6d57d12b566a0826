"""INSTANCE_NORM: normalizes each channel of each image to mean 0 and variance 1, scales and shifts.

x, y (N, S…, C)    gamma, beta (C)    mean, inv (N, 1…, C), for backward

With sums and means over S…, x̂ = (x − mean) inv, inv = 1 / √(mean((x − mean)²) + ε):
y = γ x̂ + β      dγ = Σ dy x̂      dβ = Σ dy
dx = γ inv (dy − mean(dy) − x̂ mean(dy x̂))

Source: InstanceNormOptions in the Circle schema.
"""

from collections.abc import Mapping

import numpy as np

from odt.errors import ShapeError
from odt.kernels.native import normalization
from odt.kernels.rows.opdef import Array, Kernel, Names, OpDef, Options, Specs, TensorSpec


def attrs(options: Options, statics: Mapping[str, Array]) -> float:
    """Reads ε, 1e-5 if it is not in the file."""
    return float(options.get("epsilon", 1e-5))


def infer(epsilon: float, s: Specs) -> Specs:
    x, gamma, beta = s["x"], s["gamma"], s["beta"]
    valid = len(x.shape) >= 3 and x.dtype.kind == "f" and x.size > 0
    if not valid or any(v.size != x.shape[-1] or v.dtype != x.dtype for v in (gamma, beta)):
        raise ShapeError(
            "x must be (N, S…, C) of a float type and not empty, gamma and beta (C), "
            f"but got x {x}, gamma {gamma}, beta {beta}"
        )
    return {"y": x}


def mixes_samples(epsilon: float, s: Specs, batched: Names) -> bool:
    return bool(batched - {"x"})


def space(x: Array) -> tuple[int, ...]:
    return tuple(range(1, x.ndim - 1))


def moments(epsilon: float, s: Specs) -> Specs:
    x = s["x"]
    shape = (x.shape[0], *(1,) * (len(x.shape) - 2), x.shape[-1])
    return {"mean": TensorSpec(shape, x.dtype), "inv": TensorSpec(shape, x.dtype)}


def like_x(epsilon: float, s: Specs) -> Specs:
    return {"part": s["x"]}


def forward(
    epsilon: float,
    *,
    x: Array,
    gamma: Array,
    beta: Array,
    y: Array,
    mean: Array,
    inv: Array,
    part: Array,
) -> None:
    np.mean(x, axis=space(x), keepdims=True, out=mean)
    np.subtract(x, mean, out=y)
    np.multiply(y, y, out=part)
    np.mean(part, axis=space(x), keepdims=True, out=inv)
    np.add(inv, epsilon, out=inv)
    np.sqrt(inv, out=inv)
    np.reciprocal(inv, out=inv)
    np.multiply(y, inv, out=y)
    np.multiply(y, gamma.reshape(-1, copy=False), out=y)
    np.add(y, beta.reshape(-1, copy=False), out=y)


def normalized(x: Array, mean: Array, inv: Array, part: Array) -> None:
    np.subtract(x, mean, out=part)
    np.multiply(part, inv, out=part)


def back_workspace(epsilon: float, s: Specs) -> Specs:
    return {"part": s["x"], "other": s["x"], "row": s["mean"]}


def grad_x(
    epsilon: float,
    *,
    dy: Array,
    x: Array,
    gamma: Array,
    mean: Array,
    inv: Array,
    dx: Array,
    part: Array,
    other: Array,
    row: Array,
) -> None:
    normalized(x, mean, inv, part)
    np.multiply(dy, part, out=other)
    np.mean(other, axis=space(x), keepdims=True, out=row)
    np.multiply(part, row, out=part)
    np.mean(dy, axis=space(x), keepdims=True, out=row)
    np.subtract(dy, row, out=dx)
    np.subtract(dx, part, out=dx)
    np.multiply(dx, inv, out=dx)
    np.multiply(dx, gamma.reshape(-1, copy=False), out=dx)


def grad_gamma(
    epsilon: float, *, dy: Array, x: Array, mean: Array, inv: Array, dgamma: Array, part: Array
) -> None:
    normalized(x, mean, inv, part)
    np.multiply(part, dy, out=part)
    np.sum(part, axis=tuple(range(x.ndim - 1)), out=dgamma.reshape(-1, copy=False))


def grad_beta(epsilon: float, *, dy: Array, dbeta: Array) -> None:
    np.sum(dy, axis=tuple(range(dy.ndim - 1)), out=dbeta.reshape(-1, copy=False))


SAVED = ("x", "mean", "inv")
OP = OpDef(
    "INSTANCE_NORM",
    inputs=("x", "gamma", "beta"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "gamma", "beta"),
        writes=("y", "mean", "inv"),
        workspace=like_x,
        compiled=normalization.INSTANCE,
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", *SAVED, "gamma"),
            writes=("dx",),
            workspace=back_workspace,
            compiled=normalization.INSTANCE_BACK,
        ),
        "gamma": Kernel(
            grad_gamma,
            reads=("dy", *SAVED),
            writes=("dgamma",),
            workspace=like_x,
            compiled=normalization.INSTANCE_SCALE,
        ),
        "beta": Kernel(
            grad_beta, reads=("dy",), writes=("dbeta",), compiled=normalization.INSTANCE_SHIFT
        ),
    },
    aux=moments,
    attrs=attrs,
    mixes_samples=mixes_samples,
)
