"""Tests on one batch whether a model will train: loss, gradients, and one step."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from odt.core.data.protocol import Data, scales_of
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import ABSENT, Graph, Tensor
from odt.core.model.training_info import TrainingInfo
from odt.core.options.training_options import STEP_OPTIONS
from odt.core.planning.plan import Call, Phase
from odt.core.runtime.parameters import by_name
from odt.core.training.loss_probe import MOVES, LossProbe, OutOfTimeError
from odt.core.training.random_data import RandomData
from odt.core.training.trainer import Trainer
from odt.dataclass import dataclass
from odt.errors import DataError, OdtError, TrainingError, UnsupportedError
from odt.kernels.rows.opdef import Array, TensorSpec

MAX_SAMPLES = 8  # samples at most: they are computed in float64, and again for each changed weight
WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype("c8"): np.dtype("c16")}
# Steps of central differences by itemsize, relative to the weights' size: the larger step suffers
# less from rounding, the smaller one less from the kinks of a RELU; the better result counts.
STEPS = {8: (1e-5, 1e-7), 4: (1e-2, 1e-4)}
SAME = {4: 1e-4, 8: 1e-9}  # by bytes of a number: relative rounding of a loss
TOLERANCE = {8: 1e-3, 4: 5e-2}  # relative, between gradient and difference
TINY = 1e-300  # in place of a difference of zero
DIFFERENCES = "finite differences"
# Limits of a test: operations (more in float32, which is faster) and bytes of memory.
MAX_WORK, MAX_WORK_IN_FLOAT32 = 10**10, 10**11
MAX_MEMORY = 400 << 20
LEAST = 1e-30  # size of a gradient, or of its norm, that is not zero
OTHER_RUNS = 13  # forward passes of a test, beside four for each weight
CALL, DRAW = 10**5, 50  # overhead of a call, and cost of a random number, in operations
SEARCH_STEPS = 6  # steps of a line search
FIRST = 0.1  # size of the first of them, relative to the weights
SHORTER = (1e-3, 0.1)  # least and greatest size of a step, relative to the one before
JITTER = {8: 1e-3, 4: 0.1}  # size of random changes that break ties, relative to the weights' size
MAX_LISTED = 300  # characters of a list of tensors


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one test.

    Attributes:
        what: what was tested.
        passed: whether the test passed; None if that is undecided.
        detail: figures, or the fault.
    """

    what: str
    passed: bool | None
    detail: str


LATE = Finding("test", None, "unknown: the test would take too long")


def in_float64(graphs: LoweredGraphs) -> LoweredGraphs:
    """Returns the graphs of the same file in float64; `graphs` if an operator lacks that."""

    def widened(tensor: Tensor) -> Tensor:
        dtype = WIDER.get(tensor.spec.dtype)
        if dtype is None:
            return tensor
        wide = replace(tensor, spec=TensorSpec(tensor.spec.shape, dtype))
        real = tensor.real
        return wide if real is None else wide.with_values(real.astype(dtype))

    graph = graphs.graph
    wide = LoweredGraphs(replace(graph, tensors=tuple(widened(t) for t in graph.tensors)))
    try:
        wide.check()
    except OdtError:
        return graphs
    return wide


def self_test(
    graphs: LoweredGraphs, info: TrainingInfo, data: Data, weights: int = 8, seed: int = 0
) -> list[Finding]:
    """Tests one training step on the first batch, in float64 if operators and time permit.

    A large or slow model is tested with fewer samples and weights. Random data are drawn again if
    units are dead or saturated, or if the model rejects the data.

    Args:
        graphs: the lowered graphs of the file.
        info: resolved training info; its optimizer is not used.
        data: at least one batch.
        weights: number of weights to compare with central differences.
        seed: seed of the choice of weights.

    Returns:
        Findings about loss, gradients, differences and step, up to the first failure.

    Raises:
        DataError: if the model rejects all samples of the data.
    """
    sgd = replace(
        info,
        optimizer="sgd",
        hyper_parameters={},
        learning_rate=1.0,
        schedule=None,
        rates=(),
        dropout=(),
        **{name: row.default for name, row in STEP_OPTIONS.items()},  # such as ema and clipping
    )
    unit = graphs.file_batch
    work = 0
    is_late = False
    for tested, most in ((in_float64(graphs), MAX_WORK), (graphs, MAX_WORK_IN_FLOAT32)):
        samples = _few(tested, info.batch_size)
        while samples:
            few = replace(sgd, batch_size=samples)
            with Trainer(tested, few, workers=1, scales=scales_of(data.weights)) as trainer:
                work = _work(trainer)
                is_small = trainer.memory().arena <= MAX_MEMORY
                counts = (n for n in (weights, 2, 1) if work * (OTHER_RUNS + 4 * n) <= most)
                count = next(counts, None) if is_small else None
                if count is not None:
                    probe = LossProbe(trainer, data, most // max(work, 1))
                    findings = _Test(probe, tested.graph, info, count, seed).run()
                    if findings:
                        return findings
                    is_late = True
            samples = samples // 2 // unit * unit
    if is_late:
        return [LATE]
    return [Finding("test", None, f"unknown: too large, {work:.2g} FLOP for a forward pass")]


def _few(graphs: LoweredGraphs, batch: int) -> int:
    """Returns how many samples of a batch to test: few, or the file's batch if it needs all."""
    few = min(batch, MAX_SAMPLES)
    try:
        graphs.at(few)
    except UnsupportedError:
        few = graphs.file_batch
    return few


def _work(trainer: Trainer) -> int:
    """Returns the operations of a forward pass, including the overhead of calls and data."""
    plan = trainer.plan
    parts = -(-trainer.info.batch_size // trainer.runtime.schedule.micro_batch)
    calls = [step for step in plan.entries if isinstance(step, Call)]
    drawn = DRAW * sum(plan.values[n].spec.size for n in (*plan.inputs, *plan.targets))
    return parts * (drawn + sum(CALL + c.flops for c in calls if c.phase is Phase.FORWARD))


def verdict(findings: Sequence[Finding]) -> bool | None:
    """Whether all tests passed; None if a test other than the finite differences is undecided."""
    if any(f.passed is False for f in findings):
        return False
    return True if all(f.passed for f in findings if f.what != DIFFERENCES) else None


class _Test:
    """A test of one model.

    Attributes:
        probe: computes losses and the gradient.
        start: the weights at the beginning, by tensor.
        graph: graph as in the file.
        channels: output channels that train, by filter that trains in part.
        weights: number of weights to compare with central differences.
        seed: seed of the choice of weights.
        alive: tensors that have had a gradient.
        free: tensors on which the loss does not depend.
        noise: rounding error of the loss.
        rounds: whether activations or weights are rounded to integers, through which gradients
            pass straight.
        ties: whether values tie, so that differences are no gradients.
    """

    def __init__(
        self, probe: LossProbe, graph: Graph, info: TrainingInfo, weights: int, seed: int
    ) -> None:
        self.probe = probe
        self.start = probe.start
        self.graph = graph
        self.weights = weights
        self.seed = seed
        self.channels = dict(info.sparse)
        self.rounds = any(node.op == "FAKE_QUANT" for node in graph.nodes) or any(
            graph.tensors[i].quantization is not None and graph.tensors[i].data is not None
            for node in graph.nodes
            for i in node.inputs
            if i != ABSENT
        )
        self.ties = False
        self.alive: set[int] = set()
        self.free: set[int] = set()

    def run(self) -> list[Finding]:
        """Returns findings for data, or for the random data with the fewest undecided findings.

        There are none if there was no time.
        """
        attempts: list[list[Finding]] = []
        refusal: DataError | None = None
        draws: list[Data] = [self.probe.data]
        if isinstance(self.probe.data, RandomData):
            draws += self.probe.data.others()
        for draw in draws:
            self.probe.data = draw
            try:
                attempts.append(self._look(np.random.default_rng(self.seed)))
            except TrainingError as e:
                attempts.append([Finding("loss", False, str(e))])
            except DataError as e:
                refusal = refusal or e
                continue
            except OutOfTimeError:
                break
            wrong = any(f.what == DIFFERENCES and f.passed is False for f in attempts[-1])
            if wrong or all(f.passed for f in attempts[-1]):
                return attempts[-1]
        if refusal and not attempts:
            raise refusal
        return min(attempts, key=_open, default=[])

    def _look(self, rng: np.random.Generator) -> list[Finding]:
        """Returns the findings for the probe's data, up to the first failure.

        Raises:
            OutOfTimeError: if no weight could be compared.
        """
        loss = self.probe.loss(self.start)
        fits = [n for n in (self.weights, 2, 1) if self.probe.passes >= OTHER_RUNS - 1 + 4 * n]
        if not fits:
            raise OutOfTimeError
        self.weights = fits[0]
        findings = [Finding("loss", True, f"{loss:.6g}")]
        if not self.start:
            return [*findings, Finding("trainable tensors", False, "there are none")]
        gradient = self.probe.gradient()
        findings.append(self._gradients(gradient, loss, rng))
        if findings[-1].passed is not False:
            self.noise = self.probe.noise(loss, rng)
            findings.append(self._differences(gradient, rng))
            findings.append(self._descent(gradient, loss))
        return findings

    def _gradients(
        self, gradient: dict[int, Array], loss: float, rng: np.random.Generator
    ) -> Finding:
        """Tests whether gradients are finite, and not zero where the loss depends on a tensor."""
        names = dict(zip(by_name(self.graph, gradient), gradient, strict=True))
        bad = [f"{name} is not finite" for name, i in names.items() if not _is_finite(gradient[i])]
        self.alive.update(i for i in gradient if gradient[i].any())
        zero = [name for name, i in names.items() if i not in self.alive]
        if not bad:
            self._find_free([names[name] for name in zero], loss, rng)
        free = [name for name in zero if not bad and names[name] in self.free]
        dead = [f"{name} is zero" for name in zero if name not in free]
        if bad:
            return Finding("gradients", False, _listed(bad + dead))
        if dead and self.rounds:
            cut = "; ranges may cut off all values that depend on it"
            return Finding("gradients", None, f"unknown: {_listed(dead)}{cut}")
        if dead and self.alive.intersection(gradient):
            return Finding("gradients", None, f"unknown: {_listed(dead)} on this batch")
        if dead:
            return Finding("gradients", False, _listed(dead))
        detail = f"{len(gradient)} tensors, each finite and not zero"
        if free:
            detail += f" except {_listed(free, ', ')}, on which the loss does not depend"
        return Finding("gradients", True, detail)

    def _find_free(self, tensors: Sequence[int], loss: float, rng: np.random.Generator) -> None:
        """Adds tensors on which the loss does not depend, such as the bias of attention's keys.

        Tensors are changed together, and by halves if the loss changes: there may be thousands.
        """
        tensors = [i for i in tensors if i not in self.free]
        if self._are_free(tensors, loss, rng):
            self.free.update(tensors)
        elif len(tensors) > 1:
            half = len(tensors) // 2
            self._find_free(tensors[:half], loss, rng)
            self._find_free(tensors[half:], loss, rng)

    def _are_free(self, tensors: Sequence[int], loss: float, rng: np.random.Generator) -> bool:
        """Whether the loss depends on none of some tensors.

        The changes are large, because dead units stay dead under small ones.
        """
        if not tensors:
            return True
        within = SAME[self.start[tensors[0]].itemsize] * abs(loss)
        for _ in range(MOVES):
            moved = {}
            for i in tensors:
                start = self.start[i]
                size = 10 * max(float(abs(start).max()), 1.0)
                moved[i] = (start + size * rng.standard_normal(start.shape)).astype(start.dtype)
            try:
                after = self.probe.loss({**self.start, **moved})
            except TrainingError:
                return False
            if abs(after - loss) > within:
                return False
        return True

    def _differences(self, gradient: dict[int, Array], rng: np.random.Generator) -> Finding:
        """Compares gradients with central differences, at weights with large gradients."""
        if self.rounds:
            detail = "unknown: gradients pass straight through rounding, differences do not"
            return Finding(DIFFERENCES, None, detail)
        places_by_tensor = []
        for i in rng.choice(sorted(gradient), self.weights):
            flat = gradient[i].reshape(-1)
            places = np.arange(flat.size).reshape(gradient[i].shape)
            if i in self.channels:
                places = places[list(self.channels[i])]
            stored = self.graph.tensors[i].places
            if stored is not None:
                places = np.intersect1d(places, stored)
            sizes = abs(flat[places])
            places_by_tensor.append((int(i), int(rng.choice(places[sizes >= np.median(sizes)]))))
        finding, wrong = self._compare(gradient, places_by_tensor)
        if wrong and self._have_ties(wrong, rng):
            self.ties = True
            detail = (
                f"unknown: values that tie, as in pruned channels, have several; {finding.detail}"
            )
            return Finding(DIFFERENCES, None, detail)
        return finding

    def _compare(
        self, gradient: dict[int, Array], places_by_tensor: Sequence[tuple[int, int]]
    ) -> tuple[Finding, list[tuple[int, int]]]:
        """Compares gradients with central differences; returns also the weights that differ.

        Args:
            gradient: gradients by tensor.
            places_by_tensor: tensors, and places in them.
        """
        worst, compared = 0.0, 0
        bad: list[str] = []
        wrong: list[tuple[int, int]] = []
        itemsize = 8
        for i, at in places_by_tensor:
            flat = gradient[i].reshape(-1)
            itemsize = flat.itemsize
            results = [self._error(i, at, flat, step) for step in STEPS[itemsize]]
            error, measured, _ = min(results)
            most = TOLERANCE[itemsize]
            if any(is_significant and error <= most for error, _, is_significant in results):
                compared += 1
            worst = max(worst, error)
            if error > most:
                name = self.graph.label(i)
                bad.append(f"{name}[{at}]: gradient {flat[at]:.4g}, difference {measured:.4g}")
                wrong.append((i, at))
        if bad:
            return Finding(DIFFERENCES, False, _listed(bad)), wrong
        if not compared:
            return Finding(DIFFERENCES, None, "unknown: rounding of the loss hides them"), wrong
        detail = f"{compared} weights within {worst:.0e} in float{8 * itemsize}"
        return Finding(DIFFERENCES, True, detail), wrong

    def _have_ties(self, wrong: Sequence[tuple[int, int]], rng: np.random.Generator) -> bool:
        """Whether gradients that differ agree after small random changes of all weights.

        Where values tie, as in a window of MAX_POOL_2D above a pruned channel, the loss has a kink:
        the gradient follows one value, and a difference all of them.
        """
        before = self.start

        def changed(a: Array) -> Array:
            size = JITTER[a.itemsize] * max(float(abs(a).mean()), 1e-3)
            moved: Array = (a + size * rng.standard_normal(a.shape)).astype(a.dtype)
            return moved

        try:
            self.start = self.probe.start = {i: changed(a) for i, a in before.items()}
            finding, _ = self._compare(self.probe.gradient(), wrong)
        except (OutOfTimeError, TrainingError):
            return True
        finally:
            self.start = self.probe.start = before
        return finding.passed is not False

    def _error(self, i: int, at: int, gradient: Array, step: float) -> tuple[float, float, bool]:
        """Returns the relative error of a gradient against the central difference.

        Returns:
            The error, the difference, and whether the difference exceeds the rounding error. A
            deviation that rounding can explain counts as no error.
        """
        h = step * max(float(abs(self.start[i]).mean()), 1e-3)
        above, below = (self.probe.loss(self._moved(i, at, sign * h)) for sign in (1, -1))
        measured, expected = (above - below) / (2 * h), float(gradient[at])
        least = 4 * self.noise / h / TOLERANCE[gradient.itemsize]
        size = max(abs(measured), abs(expected), LEAST)
        return abs(measured - expected) / max(size, least, TINY), measured, size > least

    def _moved(self, i: int, at: int, by: float) -> dict[int, Array]:
        """Returns the weights at the start, with one value of a tensor changed."""
        moved = self.start[i].copy()
        moved.reshape(-1)[at] += by
        return {**self.start, i: moved}

    def _descent(self, gradient: dict[int, Array], loss: float) -> Finding:
        """Searches along the gradient for a step that lowers the loss.

        After a step that is too long, the next one ends at the minimum of the parabola through the
        loss and slope before it and the loss after it: steepness differs by orders of magnitude
        between models.
        """
        fall = sum(float(np.sum(a * a)) for a in gradient.values())  # by a step of 1
        size = _norm(list(self.start.values())) or 1.0  # weights of a new layer may all be 0
        step = FIRST * size / max(np.sqrt(fall), LEAST)
        least, most = SHORTER
        significant = 0  # steps whose expected fall exceeds the rounding error
        for _ in range(SEARCH_STEPS):
            moved = {i: a - step * gradient[i] for i, a in self.start.items()}
            after = self.probe.loss_or_inf(moved)
            if after < loss:
                return Finding("one step", True, f"the loss falls from {loss:.6g} to {after:.6g}")
            expected = step * fall
            if expected > self.noise:
                significant += 1
            lowest = expected / max(2 * (after - loss + expected), TINY)  # relative to the step
            step *= min(max(lowest, least), most)
        if significant < SEARCH_STEPS // 2:
            return Finding("one step", None, "unknown: rounding of the loss hides it")
        detail = f"no step against the gradient lowers {loss:.6g}"
        if self.rounds:
            detail = f"unknown: {detail}; rounding to integers may hide the fall"
        elif self.ties:
            detail = f"unknown: {detail}; it follows one of several values that tie"
        return Finding("one step", None if self.rounds or self.ties else False, detail)


def _open(findings: Sequence[Finding]) -> tuple[bool, bool]:
    """Sort key of findings: failures last, undecided ones before them."""
    answers = [f.passed for f in findings]
    return False in answers, None in answers


def _listed(parts: Sequence[str], separator: str = "; ") -> str:
    """Joins parts, as many as fit into a line."""
    lengths = accumulate(len(part) + len(separator) for part in parts)
    shown = max(sum(length <= MAX_LISTED for length in lengths), 1)
    rest = len(parts) - shown
    ending = f"{separator}and {rest} more" if rest else ""
    return separator.join(parts[:shown]) + ending


def _norm(arrays: Sequence[Array]) -> float:
    """Returns the Euclidean norm of all values together."""
    return float(np.sqrt(sum(float(np.sum(a * a)) for a in arrays)))


def _is_finite(a: Array) -> bool:
    return bool(np.isfinite(a).all())
