"""Targets of the terms of a loss: those of the caller, or coefficients that follow from labels."""

from collections.abc import Callable

import numpy as np

from odt.compat.ort.loss_graph import Classes, Term
from odt.compat.ort.recipe_model import check_labels
from odt.errors import DataError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.opdef import TensorSpec
from odt.loss import add_loss
from odt.training.weights import Array

LINEAR = "odt.compat.ort:linear"  # the loss Σ coefficient · value
Arguments = Callable[[int], tuple[str, Array]]  # an input → its name and its values


def register_linear_loss() -> None:
    """Makes LINEAR a loss of odt."""
    add_loss((_linear_value, _linear_gradient), LINEAR)


def targets_of(term: Term, argument: Arguments, spec: TensorSpec, samples: int) -> Array:
    """Returns the targets of a term.

    Coefficients are multiplied by the number of samples, because the loss of a batch is their mean.

    Args:
        term: the term.
        argument: returns name and values of an input.
        spec: spec of a sample's targets.
        samples: number of samples.

    Raises:
        DataError: if labels cannot be used.
    """
    if term.loss:
        name, values = argument(term.target)
        if LOSSES[term.loss.partition(":")[0]].targets == LABELS:
            check_labels(name, values, spec)
        return values
    shape = (samples, *spec.shape)
    if term.classes is None:
        number = samples if term.is_sum else 1 / max(spec.size, 1)
        return np.broadcast_to(np.float32(term.factor * number), shape)
    name, labels = argument(term.classes.labels)
    check_labels(name, labels, TensorSpec(spec.shape[:-1], np.dtype(np.int32)))
    at, weights = _weighted(name, labels, term.classes, shape[-1])
    weights *= samples * term.factor / (1.0 if term.is_sum else weights.sum())
    result = np.zeros(shape, np.float32)
    np.put_along_axis(result, at[..., np.newaxis], weights[..., np.newaxis], axis=-1)
    return result


def _weighted(name: str, labels: Array, classes: Classes, count: int) -> tuple[Array, Array]:
    """Returns labels, 0 for those that are ignored, and their weights.

    Raises:
        DataError: if a label is none of the classes, or all weights are 0.
    """
    is_class = labels != classes.ignored
    bad = is_class & ((labels < 0) | (labels >= count))
    if bad.any():
        sample = int(np.argwhere(bad)[0][0])
        raise DataError(
            f"{name}: sample {sample}: labels must be 0 … {count - 1}, but got {labels[bad][0]}."
        )
    at = np.where(is_class, labels, 0)
    weights = np.where(is_class, 1.0 if classes.weight is None else classes.weight[at], 0.0)
    if weights.sum() <= 0:
        raise DataError(f"{name}: a label must have a weight above 0, but none has.")
    return at, weights


def _linear_value(t: Array, x: Array) -> Array:
    result: Array = np.einsum("ni,ni->n", t.reshape(len(t), -1), x.reshape(len(x), -1))
    return result


def _linear_gradient(t: Array, x: Array) -> Array:
    return t
