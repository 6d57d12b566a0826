"""Outputs, losses, gradients and steps of optimizers in float64, one sample at a time.

Gradients are central differences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odt.kernels.rows.opdef import Array
from support.graph_fuzz.graphs import SampleGraph
from support.graph_fuzz.operators import Node, compute

Weights = Mapping[int, Array]
STEP = 1e-5  # of central differences
ROUNDING = 2.0**-22  # relative errors in place of those that float32 makes
SHAPE_ONLY = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def evaluate(
    graph: SampleGraph, inputs: Sequence[Array], weights: Weights, noise: int = 0
) -> list[Array]:
    """The values of all tensors that the outputs need, for one sample.

    Args:
        inputs: each (1, …).
        weights: constants that have other values than in the file.
        noise: seed of rounding errors; 0 for none. They are the same whatever the values are.
    """
    values = list(graph.values)
    for i, a in zip(graph.inputs, inputs, strict=True):
        values[i] = a.astype(np.float64) if a.dtype.kind == "f" else a
    for i, a in weights.items():
        values[i] = a
    rng = np.random.default_rng(noise)

    def rounded(a: Array) -> Array:
        if not noise or a.dtype.kind != "f":
            return a
        return np.asarray(a * (1 + ROUNDING * rng.standard_normal(a.shape)))

    for node in graph.needed():
        given = [None if i < 0 else rounded(values[i]) for i in node.inputs]
        for i, y in zip(node.outputs, compute(node, given), strict=True):
            values[i] = rounded(y)
    return values


@dataclass(frozen=True)
class Problem:
    """A graph, samples, and the losses on its outputs.

    Attributes:
        inputs: of all samples: each (samples, …).
        targets: for each output.
        losses: for each output.
        loss_weights: for each output.
        reduction: sum_over_batch_size or sum.
    """

    graph: SampleGraph
    inputs: tuple[Array, ...]
    targets: tuple[Array, ...]
    losses: tuple[str, ...]
    loss_weights: tuple[float, ...]
    reduction: str = "sum_over_batch_size"

    def outputs(self, noise: int = 0) -> list[Array]:
        """Of all samples, each computed alone."""
        found: list[list[Array]] = []
        for k in range(len(self.inputs[0])):
            values = evaluate(self.graph, [a[k : k + 1] for a in self.inputs], {}, noise)
            found.append([values[i] for i in self.graph.outputs])
        return [np.concatenate(rows) for rows in zip(*found, strict=True)]

    def loss(self, samples: Sequence[int], weights: Weights | None = None, noise: int = 0) -> float:
        """The loss of a batch of these samples."""
        each = [self._loss_of(k, weights or {}, noise) for k in samples]
        return float(np.mean(each) if self.reduction == "sum_over_batch_size" else np.sum(each))

    def _loss_of(self, sample: int, weights: Weights, noise: int) -> float:
        one = slice(sample, sample + 1)
        values = evaluate(self.graph, [a[one] for a in self.inputs], weights, noise)
        total = 0.0
        for i, t, name, weight in zip(
            self.graph.outputs, self.targets, self.losses, self.loss_weights, strict=True
        ):
            total += weight * self._loss_on(i, values, name, t[one])
        return total

    def _loss_on(self, output: int, values: Sequence[Array], name: str, t: Array) -> float:
        """The loss on an output, from logits where SOFTMAX or LOGISTIC made it of them."""
        y = values[output]
        if name == "mean_squared_error":
            return float(np.mean((y - t) ** 2))
        node = origin(self.graph, output)
        if name == "binary_crossentropy":
            x = values[node.inputs[0]].reshape(y.shape) if node and node.op == "LOGISTIC" else y
            each = np.mean(np.logaddexp(0, x) - t * x, -1)
        else:
            made = node is not None and node.op == "SOFTMAX"
            x = values[node.inputs[0]] * node.options["beta"] if node and made else y
            log_p = (x - np.logaddexp.reduce(x, -1, keepdims=True)).reshape(y.shape)
            classes = np.eye(y.shape[-1])[t] if t.dtype.kind == "i" else t
            each = -np.sum(classes * log_p, -1)
        return float(np.mean(each) if self.reduction == "sum_over_batch_size" else np.sum(each))

    def slope(
        self,
        samples: Sequence[int],
        along: Weights,
        weights: Weights | None = None,
        noise: int = 0,
        step: float = STEP,
    ) -> float:
        """The derivative of a batch's loss when weights move in a direction."""
        start = {i: self.graph.values[i] for i in along} | dict(weights or {})

        def moved(by: float) -> float:
            return self.loss(
                samples, start | {i: start[i] + by * d for i, d in along.items()}, noise
            )

        return (moved(step) - moved(-step)) / (2 * step)

    def gradients(
        self, samples: Sequence[int], weights: Weights, noise: int = 0
    ) -> dict[int, Array]:
        """By every single weight of these tensors."""
        found = {}
        for i, a in weights.items():
            found[i] = np.empty(a.shape)
            for at in np.ndindex(a.shape):
                unit = np.zeros(a.shape)
                unit[at] = 1
                # A jump, as of CEIL, between the points of a difference multiplies it: another
                # step seldom meets the same jump.
                steps = (STEP, STEP / 30)
                slopes = [self.slope(samples, {i: unit}, weights, noise, s) for s in steps]
                found[i][at] = (
                    slopes[0]
                    if np.isclose(slopes[0], slopes[1], 0.1, 1e-3)
                    else min(slopes, key=abs)
                )
        return found


def origin(graph: SampleGraph, output: int) -> Node | None:
    """The node that an output's values come from, whatever shape they got then."""
    node = next((n for n in graph.nodes if output in n.outputs), None)
    if node is None or node.activation:
        return None
    return origin(graph, node.inputs[0]) if node.op in SHAPE_ONLY else node


def train(
    problem: Problem,
    batches: Sequence[Sequence[int]],
    trained: Sequence[int],
    rule: "Rule",
    noise: int = 0,
) -> tuple[list[float], dict[int, Array]]:
    """The losses of steps on these batches, and the weights afterwards."""
    weights = {i: problem.graph.values[i].copy() for i in trained}
    states: dict[int, dict[str, Array]] = {i: {} for i in trained}
    losses = []
    for k, samples in enumerate(batches):
        losses.append(problem.loss(samples, weights, noise))
        gradients = problem.gradients(samples, weights, noise)
        weights = {i: rule(w, gradients[i], k + 1, states[i]) for i, w in weights.items()}
    return losses, weights


@dataclass(frozen=True)
class Rule:
    """An update rule by its published formula.

    Attributes:
        optimizer: sgd, adam (as in Keras) or adamw (as in PyTorch).
        options: its hyper-parameters; all that are not 0.
    """

    optimizer: str
    learning_rate: float
    options: Mapping[str, Any]

    def __call__(self, w: Array, g: Array, step: int, state: dict[str, Array]) -> Array:
        """The weight after a step."""
        o, rate = self.options, self.learning_rate
        decay = o.get("weight_decay", 0.0)
        if self.optimizer == "adamw":
            w = w - rate * decay * w
        else:
            g = g + decay * w
        if self.optimizer == "sgd":
            momentum = o.get("momentum", 0.0)
            state["b"] = momentum * state.get("b", np.zeros(w.shape)) + g
            return w - rate * (g + momentum * state["b"] if o.get("nesterov") else state["b"])
        b1, b2, epsilon = o["beta_1"], o["beta_2"], o["epsilon"]
        state["m"] = b1 * state.get("m", np.zeros(w.shape)) + (1 - b1) * g
        state["v"] = b2 * state.get("v", np.zeros(w.shape)) + (1 - b2) * g * g
        one, two = 1 - b1**step, 1 - b2**step
        if self.optimizer == "adamw":
            epsilon *= np.sqrt(two)
        rate = rate * np.sqrt(two) / one
        moved: Array = w - rate * state["m"] / (np.sqrt(state["v"]) + epsilon)
        return moved
