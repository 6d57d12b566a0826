"""Workers meet to add up and use large gradients: same bits, no waiting for one that failed."""

import threading
import time
from typing import Any

import numpy as np
import pytest
from support.limits import FOREVER
from support.networks import ArrayData
from support.paths import GOLDEN
from support.tied_network import data, info, network

from odt.core.data.protocol import Scales
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.forecast import forecast
from odt.core.planning.gradient_sums import added_in_calls
from odt.core.planning.meetings import choose_meetings
from odt.core.planning.plan import Delivery
from odt.core.runtime.program import Program
from odt.core.training.trainer import TRAINING, Trainer
from odt.errors import TrainingError
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array

SAMPLES = 12
SIZES = (SAMPLES, 5, 2, SAMPLES, 11)  # of steps: whole, and short batches
NEVER = 2**60
WEIGHT = next(i for i, t in enumerate(network().tensors) if t.data is not None)
ROWS = {"sparse": ((WEIGHT, tuple(range(16))),)}  # all of them, as a selection may name

pytestmark = pytest.mark.skipif(not is_available(), reason="no compiled kernels")


@pytest.fixture(params=[1, 200])
def least(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Workers meet for all gradients, or for those of at least 200 values."""
    values: int = request.param
    meet_from(values, monkeypatch)
    return values


def meet_from(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LARGE", "LARGE_IN_EACH_RUN", "WORTHWHILE"):
        monkeypatch.setattr(f"odt.core.planning.gradient_sums.{name}", least)
    monkeypatch.setattr("odt.core.planning.gradient_sums.SPARE", 0)


def trained(
    m: int, w: int, late: int = -1, mu: float = 0.0, batch: int = SAMPLES, **options: object
) -> tuple[list[float], dict[int, Array]]:
    """Losses and weights; the worker that computes sample `late` is late."""

    def wait(program: Program, at: int, count: int) -> None:
        if at <= late < at + count:
            time.sleep(0.02)

    with Trainer(network(), info(batch, **options), micro_batch=m, workers=w) as t:
        t.parameters.proximal_mu = mu
        t.parameters.restart(t.parameters.values())
        losses = [t.step(data(SAMPLES), samples, look=wait) for samples in SIZES]
        return losses, {i: a.copy() for i, a in t.parameters.tensors.items()}


def same(a: tuple[list[float], dict[int, Array]], b: tuple[list[float], dict[int, Array]]) -> bool:
    return a[0] == b[0] and all(x.tobytes() == b[1][i].tobytes() for i, x in a[1].items())


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "lion"])
@pytest.mark.parametrize(("m", "w"), [(6, 2), (4, 3)])
def test_updates_in_a_step_have_the_bits_of_those_at_its_end(
    m: int, w: int, optimizer: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = trained(m, w, optimizer=optimizer)
    meet_from(NEVER, monkeypatch)
    assert same(found, trained(m, w, optimizer=optimizer))


@pytest.mark.parametrize("options", [{"clip_norm": 0.5}, {"ema": 0.9}, {"mu": 0.1}, ROWS])
def test_what_needs_whole_gradients_gets_them(
    options: dict[str, Any], least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = trained(6, 2, **options)
    meet_from(NEVER, monkeypatch)
    losses, weights = trained(6, 2, **options)
    np.testing.assert_allclose(found[0], losses, rtol=1e-6)
    for i, a in weights.items():
        np.testing.assert_allclose(found[1][i], a, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("before", [False, True])  # programs are bound with a term, or without
@pytest.mark.parametrize(("m", "w"), [(SAMPLES, 1), (6, 2)])
def test_a_proximal_term_can_be_changed_between_steps(
    m: int, w: int, least: int, *, before: bool
) -> None:
    """The losses are those of an optimizer that sees all gradients after each step."""
    results = []
    for options in ({"clip_norm": 1e9}, {}):
        with Trainer(network(), info(SAMPLES, **options), micro_batch=m, workers=w) as t:
            t.parameters.proximal_mu = 0.5
            t.parameters.restart(t.parameters.values())
            if before:
                t.weigh(Scales.SAMPLES)
            losses = []
            for mu in (0.5, 0.0, 5.0, 0.0, 0.5):
                t.parameters.proximal_mu = mu
                losses += [t.step(data(SAMPLES), samples) for samples in SIZES]
            results.append(losses)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
    assert len({*results[0]}) == len(results[0])


@pytest.mark.parametrize(
    ("m", "w", "options"),
    [(2, 2, {}), (5, 2, {}), (1, 3, {}), (2, 2, {"batch": 6, "accumulate": 2})],
)
def test_shared_sums_are_those_of_the_batch(
    m: int, w: int, options: dict[str, Any], least: int
) -> None:
    losses, weights = trained(SAMPLES, 1)
    found = trained(m, w, **options)
    np.testing.assert_allclose(found[0], losses, rtol=1e-5)
    for i, a in weights.items():
        np.testing.assert_allclose(found[1][i], a, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("m", [6, 2])
def test_the_bits_do_not_depend_on_which_worker_is_late(m: int, least: int) -> None:
    assert same(trained(m, 2, late=0), trained(m, 2, late=SAMPLES - 1))


@pytest.mark.parametrize("m", [6, 2])
def test_a_loss_that_is_not_finite_changes_nothing_and_stops_all(m: int, least: int) -> None:
    bad = data(SAMPLES)
    bad.inputs[0][SAMPLES - 1] = np.inf

    def step() -> None:
        with pytest.raises(TrainingError, match="must be finite"):
            t.step(bad, SAMPLES)

    options: dict[str, Any] = {"micro_batch": m, "workers": 2}
    with Trainer(network(), info(SAMPLES), **options) as t:
        before = {i: a.copy() for i, a in t.parameters.tensors.items()}
        thread = threading.Thread(target=step)
        thread.start()
        thread.join(FOREVER)
        assert not thread.is_alive()
        assert all(a.tobytes() == before[i].tobytes() for i, a in t.parameters.tensors.items())
        assert t.parameters.step == 0
        with Trainer(network(), info(SAMPLES), **options) as other:  # training goes on
            assert t.step(data(SAMPLES), SAMPLES) == other.step(data(SAMPLES), SAMPLES)
            for i, a in other.parameters.tensors.items():
                assert t.parameters.tensors[i].tobytes() == a.tobytes() != before[i].tobytes()


def test_a_worker_does_not_wait_for_one_that_failed_in_backward(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward = Program.backward

    def fail(self: Program) -> None:
        if threading.current_thread() is thread:
            raise MemoryError("none left")
        backward(self)

    def step() -> None:
        with pytest.raises(MemoryError, match="none left"):
            t.step(data(SAMPLES), SAMPLES)

    monkeypatch.setattr(Program, "backward", fail)
    with Trainer(network(), info(SAMPLES), micro_batch=6, workers=2) as t:
        before = {i: a.copy() for i, a in t.parameters.tensors.items()}
        met = {t._training.sums._tensors[name] for name in t._training.sums.met}
        thread = threading.Thread(target=step)
        thread.start()
        thread.join(FOREVER)
        assert not thread.is_alive()
        assert met
        for i in met:
            assert t.parameters.tensors[i].tobytes() == before[i].tobytes()


@pytest.mark.parametrize("m", [6, 2])
def test_the_forecast_knows_which_sums_there_are(m: int, least: int) -> None:
    with Trainer(network(), info(SAMPLES), micro_batch=m, workers=2) as t:
        allocated, held = t._training.gradient_nbytes, t.parameters.nbytes
        sizes = [a.nbytes for a in t.parameters.tensors.values()]
        small = sum(n for n in sizes if n < 4 * least)
        assert allocated == 2 * small + (0 if m == 6 else held - small)
        plans, schedule = t._plans, t.runtime.schedule
        assert forecast(plans, t._runs, t.info, schedule).gradients == allocated


@pytest.mark.parametrize("w", [2, 3])
def test_workers_have_a_large_sum_each_where_these_need_little_memory(
    w: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    meet_from(1, monkeypatch)
    with Trainer(network(), info(SAMPLES), micro_batch=2, workers=w) as t:
        plan = t._training.plan
        added = added_in_calls(plan)
        assert added < t._training.sums.met
    values = (w - 1) * sum(plan.trained_specs[name].size for name in added)
    for spare, separate in ((values, True), (values - 1, False)):
        monkeypatch.setattr("odt.core.planning.gradient_sums.SPARE", spare)
        with Trainer(network(), info(SAMPLES), micro_batch=2, workers=w) as t:
            assert added.isdisjoint(t._training.sums.met) == separate


def test_deliveries_of_a_meeting_are_together_where_the_arena_has_room() -> None:
    graph = read_model(str(GOLDEN / "mnist" / "model.circle")).graph
    given = TrainingInfo(loss="categorical_crossentropy", batch_size=16)
    with Trainer(graph, given, micro_batch=8, workers=2) as t:
        plan, memory = t._plans.at(t._runs[TRAINING], 8)
    groups, gathered, placed = choose_meetings(plan, memory, plan.parameters)
    assert 1 <= len(groups) < len(plan.parameters)
    assert placed.nbytes <= memory.nbytes
    assert [n for group in groups for n in group] == list(plan.parameters)
    assert gathered.parameters == plan.parameters
    kinds = [isinstance(entry, Delivery) for entry in gathered.entries]
    assert sum(a and not b for a, b in zip(kinds, [*kinds[1:], False], strict=True)) == len(groups)


def test_a_short_batch_of_a_cnn_meets_as_a_whole_one(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = read_model(str(GOLDEN / "mnist" / "model.circle")).graph
    given = TrainingInfo(loss="categorical_crossentropy", batch_size=16)
    rng = np.random.default_rng(0)
    x = rng.random((16, 28, 28, 1), np.float32)
    y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 16)]
    found = []
    for from_values in (least, NEVER):
        meet_from(from_values, monkeypatch)
        with Trainer(graph, given, micro_batch=8, workers=2) as t:
            losses = [t.step(ArrayData([x], [y]), n) for n in (16, 11, 9, 3, 16)]
            found.append((losses, {i: a.copy() for i, a in t.parameters.tensors.items()}))
    assert same(*found)
