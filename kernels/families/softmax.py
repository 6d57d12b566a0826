"""Softmax over the last axis, and functions that cross-entropies share."""

import numpy as np

from odt.kernels.geometry.softmax_geometry import CrossEntropyAttrs
from odt.kernels.rows.opdef import Array, Attrs, Specs, TensorSpec


def saved_probabilities(attrs: CrossEntropyAttrs, s: Specs) -> Specs:
    """Returns the specs of the saved values: p, if it is computed from logits."""
    return {"p": s["x"]} if attrs.from_logits else {}


def rows(attrs: Attrs, s: Specs) -> Specs:
    x = s["x"]
    return {"row": TensorSpec((x.size // x.shape[-1], 1), x.dtype)}


def softmax(x: Array, beta: float, p: Array, row: Array) -> None:
    """Computes p = softmax(beta · x) for x, p (R, K), with row (R, 1) as scratch; p may be x."""
    shift_by_max(x, beta, p, row)
    np.exp(p, out=p)
    np.sum(p, axis=1, keepdims=True, out=row)
    np.divide(p, row, out=p)


def log_softmax(x: Array, beta: float, p: Array, logs: Array, row: Array) -> None:
    """Computes p = softmax(beta · x) and log p, for arrays (R, K) with row (R, 1) as scratch."""
    shift_by_max(x, beta, logs, row)
    np.exp(logs, out=p)
    np.sum(p, axis=1, keepdims=True, out=row)
    np.divide(p, row, out=p)
    np.log(row, out=row)
    np.subtract(logs, row, out=logs)


def shift_by_max(x: Array, beta: float, z: Array, row: Array) -> None:
    """Computes z = beta · x − max(beta · x), at most 0, so that no exponential overflows."""
    if beta != 1:
        np.multiply(x, beta, out=z)
        x = z
    np.max(x, axis=1, keepdims=True, out=row)
    np.subtract(x, row, out=z)
