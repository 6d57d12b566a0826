"""Softmax over the last axis, and what cross-entropies share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from odt.kernels.opdef import Array, Attrs, Options, Specs, TensorSpec

SMALLEST = 1e-20  # onert's floor for a probability before its logarithm


@dataclass(frozen=True, slots=True)
class CrossEntropyAttrs:
    """How a cross-entropy reads its input.

    Attributes:
        from_logits: x is logits, and p = softmax(beta · x); else x is p.
        beta: of the SOFTMAX that the loss took in.
        mean_over_positions: a sample with several distributions (rank above 2) counts with their
            mean, as in Keras; else with their sum.
    """

    from_logits: bool = True
    beta: float = 1.0
    mean_over_positions: bool = True


def cross_entropy_attrs(options: Options, statics: Mapping[str, Array]) -> CrossEntropyAttrs:
    return CrossEntropyAttrs(**options)


def positions(attrs: CrossEntropyAttrs, x: TensorSpec) -> int:
    """What a sample's sum over its distributions is divided by."""
    if not attrs.mean_over_positions:
        return 1
    return max(x.size // (x.shape[0] * x.shape[-1]), 1) if x.size else 1


def saved_probabilities(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    """What forward leaves for backward: p, where it had to be computed."""
    return {"p": s["x"]} if attrs.from_logits else {}


def rows(attrs: Attrs, s: Specs) -> Specs:
    x = s["x"]
    return {"row": TensorSpec((x.size // x.shape[-1], 1), x.dtype)}


def prepare(attrs: CrossEntropyAttrs, s: Specs) -> Mapping[str, Any]:
    return {"divisor": positions(attrs, s["x"])}


def softmax(x: Array, beta: float, p: Array, row: Array) -> None:
    """p = softmax(beta · x) for x, p (R, K) with row (R, 1) as scratch; p may be x."""
    shift_by_max(x, beta, p, row)
    np.exp(p, out=p)
    np.sum(p, axis=1, keepdims=True, out=row)
    np.divide(p, row, out=p)


def shift_by_max(x: Array, beta: float, z: Array, row: Array) -> None:
    """z = beta · x − max(beta · x), at most 0, so that no exponential overflows."""
    if beta != 1:
        np.multiply(x, beta, out=z)
        x = z
    np.max(x, axis=1, keepdims=True, out=row)
    np.subtract(x, row, out=z)
