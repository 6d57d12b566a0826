"""Whether a model will train: gradients and one step, tried on a batch beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from odt.core.evaluator import Data, Order
from odt.core.graph import Graph, Tensor
from odt.core.lower import file_batch, lower
from odt.core.parameters import by_name
from odt.core.trainer import Trainer
from odt.core.training_info import TrainingInfo
from odt.errors import OdtError, TrainingError
from odt.kernels.opdef import Array, TensorSpec

FLOAT64 = np.dtype(np.float64)
# Steps of central differences by itemsize, as shares of the weights' size: the larger suffers less
# from rounding, the smaller from the kinks of a RELU; the better of the two counts.
STEPS = {8: (1e-5, 1e-7), 4: (1e-2, 1e-3)}
SAME = {4: 1e-4, 8: 1e-9}  # by bytes of a number: relative rounding of a loss
MOVES = 3  # of a tensor, to see whether the loss depends on it
TOLERANCE = {8: 1e-3, 4: 5e-2}  # relative, between gradient and difference
RATES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # steps to try, as a share of the weights' size


@dataclass(frozen=True, slots=True)
class Finding:
    """One question and its answer.

    Attributes:
        what: was looked at.
        passed: whether it is as it must be.
        detail: figures, or what is wrong.
    """

    what: str
    passed: bool
    detail: str


class _OneBatch:
    """The first batch again and again."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def order(self, epoch: int) -> Order:
        return range(self.samples)


def in_float64(graph: Graph) -> Graph:
    """The graph with float64 for float32; itself where an operator insists on float32."""

    def widened(tensor: Tensor) -> Tensor:
        if tensor.spec.dtype != np.float32:
            return tensor
        data = None if tensor.data is None else tensor.data.astype(FLOAT64)
        return replace(tensor, spec=TensorSpec(tensor.spec.shape, FLOAT64), data=data)

    wide = replace(graph, tensors=tuple(widened(t) for t in graph.tensors))
    try:
        lower(wide, file_batch(graph))
    except OdtError:
        return graph
    return wide


def self_test(
    graph: Graph, info: TrainingInfo, data: Data, weights: int = 8, seed: int = 0
) -> list[Finding]:
    """Trains one step on the first batch, in float64 where the operators allow it.

    Args:
        graph: as in the file.
        info: loss, batch, what trains; its optimizer is not used.
        data: at least a batch.
        weights: how many to hold against central differences.
        seed: of their choice.

    Returns:
        Findings: loss, gradients, differences, step; those after a failure are left out.
    """
    wide = in_float64(graph)
    sgd = replace(info, optimizer="sgd", hyper_parameters={}, learning_rate=1.0)
    try:
        with Trainer(wide, sgd, workers=1) as trainer:
            return _Test(trainer, data, wide).run(weights, np.random.default_rng(seed))
    except TrainingError as e:
        return [Finding("loss", False, str(e))]


class _Test:
    def __init__(self, trainer: Trainer, data: Data, graph: Graph) -> None:
        self.trainer = trainer
        self.data = data
        self.graph = graph
        self.channels = dict(trainer.info.sparse)
        self.start = {i: a.copy() for i, a in trainer.parameters.tensors.items()}

    def run(self, weights: int, rng: np.random.Generator) -> list[Finding]:
        loss = self._loss(self.start)
        findings = [Finding("loss", True, f"{loss:.6g}")]
        if not self.start:
            return [*findings, Finding("trainable tensors", False, "there are none")]
        gradient = self._gradient()
        findings.append(self._gradients(gradient, loss, rng))
        if findings[-1].passed:
            findings.append(self._differences(gradient, weights, rng))
            findings.append(self._descent(gradient, loss))
        return findings

    def _set(self, values: dict[int, Array]) -> None:
        for i, a in values.items():
            self.trainer.parameters.tensors[i][...] = a

    def _loss(self, values: dict[int, Array]) -> float:
        self._set(values)
        batch = self.trainer.info.batch_size
        return self.trainer.evaluate(self.data, range(batch)).loss

    def _gradient(self) -> dict[int, Array]:
        """What one SGD step with rate 1 takes off."""
        self._set(self.start)
        list(self.trainer.fit(self.data, _OneBatch(self.trainer.info.batch_size), epochs=1))
        tensors = self.trainer.parameters.tensors
        return {i: self.start[i] - tensors[i] for i in self.start}

    def _gradients(
        self, gradient: dict[int, Array], loss: float, rng: np.random.Generator
    ) -> Finding:
        names = dict(zip(by_name(self.graph, gradient), gradient, strict=True))
        bad = [f"{name} is not finite" for name, i in names.items() if _is_wild(gradient[i])]
        zero = [name for name, i in names.items() if not gradient[i].any()]
        free = [name for name in zero if not bad and self._is_free(names[name], loss, rng)]
        bad += [f"{name} is zero" for name in zero if name not in free]
        detail = f"{len(gradient)} tensors, each finite and not zero"
        if free:
            detail += f" but for {', '.join(free)}, which the loss does not depend on"
        return Finding("gradients", not bad, "; ".join(bad) or detail)

    def _is_free(self, i: int, loss: float, rng: np.random.Generator) -> bool:
        """Whether the loss stays wherever a tensor goes, as with the bias of attention's keys.

        Small moves do not tell: they leave units off that are off, too.
        """
        start = self.start[i]
        size = 10 * max(float(abs(start).max()), 1.0)
        within = SAME[start.itemsize] * abs(loss)
        for _ in range(MOVES):
            moved = (start + size * rng.standard_normal(start.shape)).astype(start.dtype)
            try:
                after = self._loss({**self.start, i: moved})
            except TrainingError:
                return False
            if abs(after - loss) > within:
                return False
        return True

    def _differences(
        self, gradient: dict[int, Array], weights: int, rng: np.random.Generator
    ) -> Finding:
        """Single weights, each moved up and down; where the gradient is among the larger ones."""
        worst, bad = 0.0, []
        for i in rng.choice(sorted(gradient), weights):
            flat = gradient[i].reshape(-1)
            places = np.arange(flat.size).reshape(gradient[i].shape)
            if i in self.channels:
                places = places[list(self.channels[i])]
            sizes = abs(flat[places])
            at = int(rng.choice(places[sizes >= np.median(sizes)]))
            error, measured = min(self._error(i, at, flat, step) for step in STEPS[flat.itemsize])
            worst = max(worst, error)
            if error > TOLERANCE[flat.itemsize]:
                name = self.graph.label(int(i))
                bad.append(f"{name}[{at}]: gradient {flat[at]:.4g}, difference {measured:.4g}")
        detail = "; ".join(bad) or f"{weights} weights within {worst:.0e} in {flat.dtype}"
        return Finding("finite differences", not bad, detail)

    def _error(self, i: int, at: int, gradient: Array, step: float) -> tuple[float, float]:
        """How far a gradient is from the difference, relative, and the difference.

        What rounding alone could make of the difference counts as right.
        """
        h = step * max(float(abs(self.start[i]).mean()), 1e-3)
        above, below = (self._loss(self._moved(i, at, sign * h)) for sign in (1, -1))
        measured, found = (above - below) / (2 * h), float(gradient[at])
        rounding = 4 * float(np.finfo(gradient.dtype).eps) * abs(above) / h
        least = rounding / TOLERANCE[gradient.itemsize]
        return abs(measured - found) / max(abs(measured), abs(found), least, 1e-30), measured

    def _moved(self, i: int, at: int, by: float) -> dict[int, Array]:
        moved = self.start[i].copy()
        moved.reshape(-1)[at] += by
        return {**self.start, i: moved}

    def _descent(self, gradient: dict[int, Array], loss: float) -> Finding:
        size = _norm(list(self.start.values())) / max(_norm(list(gradient.values())), 1e-30)
        for rate in RATES:
            moved = {i: a - rate * size * gradient[i] for i, a in self.start.items()}
            try:
                after = self._loss(moved)
            except TrainingError:
                continue
            if after < loss:
                return Finding("one step", True, f"the loss falls from {loss:.6g} to {after:.6g}")
        return Finding("one step", False, f"no step against the gradient lowers {loss:.6g}")


def _norm(arrays: Sequence[Array]) -> float:
    return float(np.sqrt(sum(float(np.sum(a * a)) for a in arrays)))


def _is_wild(a: Array) -> bool:
    return not np.isfinite(a).all()
