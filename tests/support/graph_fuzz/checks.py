"""Compares what odt makes of a case with one sample at a time."""

import os
import re
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from odt.errors import OdtError
from odt.kernels.rows.opdef import Array
from support.graph_fuzz.cases import Case
from support.graph_fuzz.reference import STEP, Problem, Rule, train
from support.graph_fuzz.running import RATE, Model, Trained

LONGEST = 400  # characters of a refusal
MAX_STEPPED = 30  # single weights of which optimizers are followed
ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-2}
RULES = (
    Rule("sgd", 0.01, {"momentum": 0.9}),
    Rule("sgd", 0.01, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    Rule("adam", 0.01, ADAM),
    Rule("adam", 0.01, {**ADAM, "weight_decay": 0.1}),
    Rule("adamw", 0.01, {**ADAM, "weight_decay": 0.1}),
)


@dataclass
class Report:
    """What was found wrong with a case, and what odt refused of it."""

    wrong: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class Truth:
    """A problem's figures, each with how far float32 may be from them.

    That is measured: the reference is computed again with relative errors of float32's size in
    every operand and result.
    """

    def __init__(self, problem: Problem, seeds: Sequence[int]) -> None:
        self.problem = problem
        self.seeds = seeds
        self.all = range(len(problem.inputs[0]))
        rng = np.random.default_rng(1)
        values = problem.graph.values
        self.directions: dict[int, Array] = {
            i: np.asarray(rng.normal(size=values[i].shape)) for i in problem.graph.weights()
        }
        self._slopes: dict[tuple[int, tuple[int, ...]], tuple[float, float]] = {}

    @cached_property
    def outputs(self) -> list[tuple[Array, float]]:
        exact = self.problem.outputs()
        noisy = [self.problem.outputs(seed) for seed in self.seeds]
        found = []
        for k, a in enumerate(exact):
            off = max(float(abs(b[k] - a).max()) for b in noisy)
            found.append((a, 12 * off + 2e-6 * float(abs(a).max())))
        return found

    @cached_property
    def loss(self) -> tuple[float, float]:
        exact = self.problem.loss(self.all)
        off = max(abs(self.problem.loss(self.all, noise=seed) - exact) for seed in self.seeds)
        return exact, 12 * off + 4e-6 * abs(exact)

    def slope(self, weight: int, channels: tuple[int, ...] = ()) -> tuple[float, float]:
        """Along the weight's direction, or what these channels have of it."""
        key = weight, channels
        if key not in self._slopes:
            along = {weight: masked(self.directions[weight], channels)}
            exact = self.problem.slope(self.all, along)
            others = [self.problem.slope(self.all, along, step=STEP / 16)]
            others += [self.problem.slope(self.all, along, noise=seed) for seed in self.seeds]
            off = max(abs(other - exact) for other in others)
            self._slopes[key] = exact, 12 * off + 1e-9 * abs(self.loss[0]) + 1e-5 * abs(exact)
        return self._slopes[key]


def masked(direction: Array, channels: tuple[int, ...]) -> Array:
    """What these entries of axis 0 have of a direction; all for none."""
    if not channels:
        return direction
    found = np.zeros(direction.shape)
    found[list(channels)] = direction[list(channels)]
    return found


def check(case: Case, kernels: Sequence[str], seed: int = 0) -> Report:
    """Runs a case in several ways; a mismatch counts if more noise does not explain it.

    Args:
        kernels: sets to choose from.
        seed: chooses the ways, together with the seed of the case.
    """
    report = _Checker(case, kernels, Truth(case.problem, (1, 2)), seed).run()
    if report.wrong:
        report = _Checker(case, kernels, Truth(case.problem, range(3, 15)), seed).run()
    return report


class _Checker:
    def __init__(self, case: Case, kernels: Sequence[str], truth: Truth, seed: int) -> None:
        self.case, self.problem, self.truth = case, case.problem, truth
        self.graph = case.problem.graph
        self.kernels = kernels
        self.rng = np.random.default_rng([case.seed, seed])
        self.samples = len(case.problem.inputs[0])
        self.report = Report()

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def run(self) -> Report:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"m{self.case.suffix}"
            self.graph.write(path, self.case.file_batch)
            for wide in (True, False):
                with self.guarded(f"read, float64 {wide}"):
                    model = Model(path, self.problem, wide)
                    self.check_model(model)
        return self.report

    def check_model(self, model: Model) -> None:
        for _ in range(1 if model.wide else 2):
            self.predict(model)
            self.train(model, {})
        self.select(model)
        if self.chance(0.4):
            self.steps(model)

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Notes a refusal or a crash; a refusal must be one line that names a node or an option."""
        kernels = str(self.rng.choice(self.kernels))
        before = os.environ.get("ODT_KERNELS")
        os.environ["ODT_KERNELS"] = kernels
        self.what = f"{kernels}, {what}"
        try:
            yield
        except OdtError as e:
            text = str(e)
            if text.startswith("`cache_frozen=`: some operators must train"):
                return  # nothing comes before what trains
            if self.case.kind == "batched" and "the batch cannot be split" in text:
                return  # shapes that hold for the file's batch only
            self.report.refused.append(text)
            if "\n" in text or len(text) > LONGEST:
                self.wrong(f"a refusal must be a line of {LONGEST} characters, but got {text}")
            elif not re.search(r"\(node \d+\)|node \d+|`[a-z_]+=", text):
                self.wrong(f"a refusal must name a node or an option, but got {text}")
            elif self.case.kind != "moved":
                self.wrong(f"refused: {text}")
        except Exception:
            self.wrong(f"crash: {traceback.format_exc()}")
        finally:
            if before is None:
                del os.environ["ODT_KERNELS"]
            else:
                os.environ["ODT_KERNELS"] = before

    def wrong(self, text: str) -> None:
        self.report.wrong.append(f"{self.what}: {text}")

    def cut(self) -> dict[str, Any]:
        """How a batch of all samples is cut: as odt chooses, or anyhow."""
        if self.chance(0.3):
            return {}
        return {
            "micro_batch": int(self.rng.integers(1, self.samples + 1)),
            "workers": int(self.rng.integers(1, 4)),
        }

    def predict(self, model: Model) -> None:
        batch = int(self.rng.integers(1, self.samples + 1)) * self.case.file_batch
        batch = min(batch, self.samples)
        cut = self.cut()
        if cut:
            cut["micro_batch"] = min(cut["micro_batch"], batch)
        with self.guarded(f"predict in batches of {batch}, {cut}, float64 {model.wide}"):
            found = model.predict(batch, **cut)
            for k, (a, (exact, off)) in enumerate(zip(found, self.truth.outputs, strict=True)):
                self.compare(f"output {k}", a, exact, self.within(model, off, abs(exact).max()))

    def within(self, model: Model, off: float, size: Any) -> float:
        """The tolerance in this model's type."""
        return 1e-6 * off + 1e-8 * float(size) + 1e-12 if model.wide else off + 1e-7

    def compare(self, what: str, found: Any, exact: Any, within: float) -> None:
        off = abs(np.asarray(found, np.float64) - exact)
        if not (off <= within).all():
            at = np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), off.shape)
            self.wrong(
                f"{what} must be within {within:.2g} of {np.asarray(exact)[at]:.7g} at "
                f"{[int(n) for n in at]}, but got {np.asarray(found)[at]:.7g}"
            )

    def train(self, model: Model, more: Mapping[str, Any], cached: bool = False) -> None:
        """Loss and gradients of one step; `more` says what trains."""
        cut, share = self.cut(), None
        if self.chance(0.06):
            share = float(self.rng.choice([0.0, 0.0, 0.2, 0.5]))
        what = f"train {dict(more)}, {cut}, float64 {model.wide}"
        what += f", budget {share}" if share is not None else ""
        with self.guarded(what + (", cached" if cached else "")):
            info = model.info(self.samples, **more)
            if share is not None:
                cut |= {"budget": model.budget(info, share, cached, **cut)}
            self.check_gradients(model, model.gradients(info, cached, **cut), more)

    def check_gradients(self, model: Model, found: Trained, more: Mapping[str, Any]) -> None:
        loss, off = self.truth.loss
        self.compare("loss", found.losses[0], loss, self.within(model, off, abs(loss)))
        channels = dict(more.get("sparse", ()))
        for i, direction in self.truth.directions.items():
            along = masked(direction, channels.get(i, ()))
            if i not in found.weights:
                if not more and abs(self.truth.slope(i)[0]) > 1e-3:
                    self.wrong(f"w{i} does not train")
                continue
            g = found.weights[i]
            start = self.graph.values[i]
            if i in channels and np.delete(g, channels[i], 0).any():
                self.wrong(f"channels of w{i} moved that do not train")
            slope, off = self.truth.slope(i, channels.get(i, ()))
            rounding = 4e-7 * float(np.sum(abs(along) * (abs(g) + abs(start) / RATE)))
            kink = 1e-7 * abs(self.truth.loss[0])
            within = off + rounding + kink if not model.wide else self.wide_slope(i, channels)
            self.compare(f"the slope along w{i}", float(np.sum(g * along)), slope, within)

    def wide_slope(self, i: int, channels: Mapping[int, tuple[int, ...]]) -> float:
        """How exact central differences are."""
        along = {i: masked(self.truth.directions[i], channels.get(i, ()))}
        slope, off = self.truth.slope(i, channels.get(i, ()))
        steps = [self.problem.slope(self.truth.all, along, step=STEP * k) for k in (1 / 16, 1 / 4)]
        kink = max(abs(s - slope) for s in steps)
        return 1e-4 * off + 4 * kink + 1e-6 * abs(slope) + 1e-8 * (abs(self.truth.loss[0]) + 1)

    def select(self, model: Model) -> None:
        """Trains the last operators, single tensors, or channels."""
        read = {i for n in self.graph.nodes for i in n.inputs}
        weights = [i for i in self.graph.weights() if i in read]
        roll, nodes = int(self.rng.integers(3)), len(self.graph.nodes)
        if roll == 0:
            last = int(self.rng.integers(1, nodes + 1))
            more: dict[str, Any] = {"trainable_ops": tuple(range(nodes - last, nodes))}
            read = {i for n in self.graph.nodes[-last:] for i in n.inputs}
            chosen = [i for i in weights if i in read]
        elif roll == 1:
            chosen = [i for i in weights if self.chance(0.5)]
            more = {"trainable_tensors": tuple(chosen)}
        else:
            chosen = self.filters()
            more = {"sparse": tuple((i, self.channels(i)) for i in chosen)}
        if any(self.truth.slope(i)[0] for i in chosen):
            self.train(model, more, cached=roll < 2 and self.chance(0.5))

    def filters(self) -> list[int]:
        """Weights that only convolutions and fully connected layers read, as their filters."""
        ops = ("CONV_2D", "FULLY_CONNECTED")
        as_filter = {n.inputs[1] for n in self.graph.nodes if n.op in ops}
        other = {
            i for n in self.graph.nodes for k, i in enumerate(n.inputs) if k != 1 or n.op not in ops
        }
        return sorted((as_filter - other) & self.graph.constants.keys())

    def channels(self, i: int) -> tuple[int, ...]:
        count = self.graph.values[i].shape[0]
        chosen = self.rng.choice(count, int(self.rng.integers(1, count + 1)), replace=False)
        return tuple(sorted(int(k) for k in chosen))

    def steps(self, model: Model) -> None:
        """Three or more steps of an optimizer with state."""
        rule = RULES[int(self.rng.integers(len(RULES)))]
        chosen: list[int] = []
        for i in self.rng.permutation([i for i in self.graph.weights() if self.truth.slope(i)[0]]):
            if sum(self.graph.values[k].size for k in (*chosen, int(i))) <= MAX_STEPPED:
                chosen.append(int(i))
        batch = self.samples // 3 // self.case.file_batch * self.case.file_batch
        if not chosen or not batch:
            return
        cut = {k: min(n, batch) if k == "micro_batch" else n for k, n in self.cut().items()}
        how = {
            "optimizer": rule.optimizer,
            "learning_rate": rule.learning_rate,
            "hyper_parameters": dict(rule.options),
            "trainable_tensors": tuple(chosen),
        }
        with self.guarded(f"steps of {batch} {how}, {cut}, float64 {model.wide}"):
            found = model.train(model.info(batch, **how), **cut)
            batches = [range(k, k + batch) for k in range(0, self.samples - batch + 1, batch)]
            losses, weights = train(self.problem, batches, chosen, rule)
            noisy, others = train(self.problem, batches, chosen, rule, noise=1)
            for k, (loss, other) in enumerate(zip(losses, noisy, strict=True)):
                within = self.within(model, 20 * abs(other - loss) + 1e-5 * abs(loss), abs(loss))
                self.compare(f"loss {k}", found.losses[k], loss, 4 * within)
            for i, w in weights.items():
                off = float(
                    20 * abs(others[i] - w).max() + 2e-5 * (abs(w).max() + rule.learning_rate)
                )
                within = 1e-6 + 1e-4 * off if model.wide else off
                self.compare(f"w{i} afterwards", found.weights[i], w, within)
