"""CUSTOM:BatchNormalization: normalizes each channel, scales it and shifts it.

x, y (S…, C)    gamma, beta, mean, variance (C)    center, inv (1, 1, C), for backward

x̂ = (x − center) inv, y = γ x̂ + β      dγ = Σ dy x̂      dβ = Σ dy

Without `batch`, center = mean, inv = 1 / √(variance + ε), and dx = dy γ inv. With it, center is the
mean of x, inv = 1 / √(mean((x − center)²) + ε), both over S…, which mixes the samples of a batch:

dx = γ inv (dy − mean(dy) − x̂ mean(dy x̂))

`mean` and `variance` are running statistics, which have no gradient. After each step of training
the engine moves them towards those of its batch, with the population's variance:

mean ← momentum · mean + (1 − momentum) · mean of the batch

Source: Ioffe and Szegedy, *Batch Normalization* (2015); BatchNormalization of ONNX.
"""

from collections.abc import Callable, Mapping

import numpy as np

from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.native import normalization
from odt.kernels.rows.opdef import (
    Array,
    Compiled,
    Kernel,
    Names,
    OpDef,
    Options,
    Specs,
    TensorSpec,
)


@dataclass(frozen=True, slots=True)
class BatchNormAttrs:
    """ε, the momentum of the running statistics, and whether those of the batch normalize."""

    epsilon: float
    momentum: float
    batch: bool = False


def attrs(options: Options, statics: Mapping[str, Array]) -> BatchNormAttrs:
    epsilon, momentum = float(options.get("epsilon", 1e-5)), float(options.get("momentum", 0.9))
    return BatchNormAttrs(epsilon, momentum, bool(options.get("batch", False)))


def infer(attrs: BatchNormAttrs, s: Specs) -> Specs:
    x = s["x"]
    vectors = [s[n] for n in ("gamma", "beta", "mean", "variance")]
    is_valid = len(x.shape) >= 2 and x.dtype.kind == "f" and x.size > 0
    if not is_valid or any(v.shape != x.shape[-1:] or v.dtype != x.dtype for v in vectors):
        raise ShapeError(
            "x must be (S…, C) of a float type and not empty, gamma, beta, mean and variance (C), "
            f"but got x {x}, {', '.join(map(str, vectors))}"
        )
    return {"y": x}


def mixes_samples(attrs: BatchNormAttrs, s: Specs, batched: Names) -> bool:
    return attrs.batch or bool(batched - {"x"})


def statistics(attrs: BatchNormAttrs, s: Specs) -> Specs:
    """Returns the arrays that forward saves for backward."""
    spec = TensorSpec((1, 1, s["x"].shape[-1]), s["x"].dtype)
    return {"center": spec, "inv": spec}


def like_x(attrs: BatchNormAttrs, s: Specs) -> Specs:
    """Returns the workspace of kernels that need one array like x."""
    return {"part": s["x"]}


def axes(x: Array) -> tuple[int, ...]:
    return tuple(range(x.ndim - 1))


def forward(
    attrs: BatchNormAttrs,
    *,
    x: Array,
    gamma: Array,
    beta: Array,
    mean: Array,
    variance: Array,
    y: Array,
    center: Array,
    inv: Array,
    part: Array,
) -> None:
    mu, factor = (a.reshape(-1, copy=False) for a in (center, inv))
    if attrs.batch:
        np.mean(x, axis=axes(x), out=mu)
        np.subtract(x, mu, out=y)
        np.multiply(y, y, out=part)
        np.mean(part, axis=axes(x), out=factor)
    else:
        np.copyto(mu, mean)
        np.subtract(x, mu, out=y)
        np.copyto(factor, variance)
    np.add(factor, attrs.epsilon, out=factor)
    np.sqrt(factor, out=factor)
    np.reciprocal(factor, out=factor)
    np.multiply(y, factor, out=y)
    np.multiply(y, gamma, out=y)
    np.add(y, beta, out=y)


def normalized(x: Array, center: Array, inv: Array, part: Array) -> None:
    """Computes part = x̂."""
    np.subtract(x, center.reshape(-1, copy=False), out=part)
    np.multiply(part, inv.reshape(-1, copy=False), out=part)


def back_workspace(attrs: BatchNormAttrs, s: Specs) -> Specs:
    """Returns the workspace of dx with statistics of the batch: two arrays like x, and a row."""
    if not attrs.batch:
        return {}
    return {"part": s["x"], "other": s["x"], "row": TensorSpec(s["x"].shape[-1:], s["x"].dtype)}


def grad_x(
    attrs: BatchNormAttrs,
    *,
    dy: Array,
    x: Array,
    gamma: Array,
    center: Array,
    inv: Array,
    dx: Array,
    part: Array | None = None,
    other: Array | None = None,
    row: Array | None = None,
) -> None:
    if part is None or other is None or row is None:  # center and inv do not depend on x
        np.multiply(dy, inv.reshape(-1, copy=False), out=dx)
    else:
        normalized(x, center, inv, part)
        np.multiply(dy, part, out=other)
        np.mean(other, axis=axes(x), out=row)
        np.multiply(part, row, out=part)
        np.mean(dy, axis=axes(x), out=row)
        np.subtract(dy, row, out=dx)
        np.subtract(dx, part, out=dx)
        np.multiply(dx, inv.reshape(-1, copy=False), out=dx)
    np.multiply(dx, gamma, out=dx)


def grad_gamma(
    attrs: BatchNormAttrs,
    *,
    dy: Array,
    x: Array,
    center: Array,
    inv: Array,
    dgamma: Array,
    part: Array,
) -> None:
    normalized(x, center, inv, part)
    np.multiply(part, dy, out=part)
    np.sum(part, axis=axes(x), out=dgamma)


def grad_beta(attrs: BatchNormAttrs, *, dy: Array, dbeta: Array) -> None:
    np.sum(dy, axis=axes(dy), out=dbeta)


def as_image(kernel: Compiled) -> Compiled:
    """Returns a kernel of INSTANCE_NORM as one of a batch, whose values are one image."""

    def bind(attrs: BatchNormAttrs, **arrays: Array) -> Callable[[], None]:
        images = {
            name: a.reshape(1, -1, a.shape[-1], copy=False)
            for name, a in arrays.items()
            if name not in ("mean", "variance")  # the running statistics
        }
        if "center" in images:
            images["mean"] = images.pop("center")
        return kernel.bind(attrs.epsilon, **images)

    def fits(attrs: BatchNormAttrs, s: Specs) -> bool:
        return attrs.batch and kernel.fits(attrs, s)

    return Compiled(bind, fits)


SAVED = ("x", "center", "inv")
OP = OpDef(
    "CUSTOM:BatchNormalization",
    inputs=("x", "gamma", "beta", "mean", "variance"),
    infer=infer,
    forward=Kernel(
        forward,
        reads=("x", "gamma", "beta", "mean", "variance"),
        writes=("y", "center", "inv"),
        workspace=like_x,
        may_alias=frozenset({("y", "x")}),
        compiled=as_image(normalization.INSTANCE),
    ),
    grads={
        "x": Kernel(
            grad_x,
            reads=("dy", *SAVED, "gamma"),
            writes=("dx",),
            workspace=back_workspace,
            compiled=as_image(normalization.INSTANCE_BACK),
        ),
        "gamma": Kernel(
            grad_gamma,
            reads=("dy", *SAVED),
            writes=("dgamma",),
            workspace=like_x,
            compiled=as_image(normalization.INSTANCE_SCALE),
        ),
        "beta": Kernel(
            grad_beta,
            reads=("dy",),
            writes=("dbeta",),
            compiled=as_image(normalization.INSTANCE_SHIFT),
        ),
    },
    stops=("mean", "variance"),
    aux=statistics,
    attrs=attrs,
    mixes_samples=mixes_samples,
)
