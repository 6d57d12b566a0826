"""Each worker sums the gradients of its micro-batches; the sums are added in a fixed order."""

import threading
import time
from typing import Any

import numpy as np
import pytest
from support.limits import FOREVER
from support.tied_network import data, info, network

from odt.core.planning.gradient_sums import added_in_calls
from odt.core.planning.plan import Delivery, Region
from odt.core.runtime.program import Program, Samples
from odt.core.training.trainer import Trainer
from odt.kernels.native.library import is_available
from odt.kernels.rows.opdef import Array

SAMPLES = 12


def gradients(delayed: int) -> dict[int, Array]:
    """The gradients of two batches; the worker that computes sample `delayed` is late."""

    def wait(program: Program, at: int, count: int) -> None:
        if at == delayed:
            time.sleep(0.02)

    with Trainer(network(), info(SAMPLES), micro_batch=2, workers=2) as trainer:
        engine = trainer.runtime.engine_of(0)
        for _ in range(2):
            samples = data(SAMPLES)

            def fill(program: Samples, at: int, count: int, samples=samples) -> None:  # type: ignore[no-untyped-def]
                samples.read(range(at, at + count), program.inputs, program.targets)

            engine.accumulate(SAMPLES, [0.1], fill, wait)
        return {i: a.copy() for i, a in engine.gradients.items()}


def test_the_bits_do_not_depend_on_which_worker_is_late() -> None:
    first, second = gradients(0), gradients(SAMPLES // 2)
    assert first.keys() == second.keys()
    assert all(a.tobytes() == second[i].tobytes() for i, a in first.items())


@pytest.mark.parametrize("options", [{"clip_norm": 0.01}, {}])
def test_sums_of_two_workers_are_the_gradients_of_the_batch(options: dict[str, float]) -> None:
    """Also of a short batch, which one worker computes, and before clipping."""
    results = []
    for split in ({"micro_batch": SAMPLES, "workers": 1}, {"micro_batch": 2, "workers": 2}):
        with Trainer(network(), info(SAMPLES, **options), **split) as trainer:  # type: ignore[arg-type]
            for samples in (SAMPLES, 2, SAMPLES):
                trainer.step(data(SAMPLES), samples)
            results.append({i: a.copy() for i, a in trainer.parameters.tensors.items()})
    for i, a in results[0].items():
        np.testing.assert_allclose(results[1][i], a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_update_can_keep_its_gradients(optimizer: str) -> None:
    """NumPy, which updates float64, computes in the memory of a gradient otherwise."""
    options: dict[str, Any] = {"optimizer": optimizer, "hyper_parameters": {"weight_decay": 0.1}}
    with Trainer(network(np.float64), info(SAMPLES, **options)) as t:
        t.accumulate(data(SAMPLES, np.float64), SAMPLES)
        arrays = {**t.gradients}
        before = {i: a.copy() for i, a in arrays.items()}
        t.apply_gradients(keep=True)
        assert before
        for i, a in before.items():
            np.testing.assert_array_equal(arrays[i], a)


def test_a_gradient_is_computed_in_its_sum_if_each_worker_has_one_micro_batch() -> None:
    """Also between batches whose gradients are accumulated; the bits are those of copies."""
    results, samples = [], data(SAMPLES)
    for in_place in (True, False):
        with Trainer(network(), info(SAMPLES), micro_batch=8, workers=2) as trainer:
            engine = trainer.runtime.engine_of(0)
            assert engine.plans.mode.in_place
            if not in_place:
                engine.programs = engine._make_programs(in_place=False)
            for count in (SAMPLES, 4, SAMPLES):
                trainer.step(samples, count)
                for _ in range(2):
                    trainer.accumulate(samples, count)
                sums = [a.copy() for a in trainer.gradients.values()]
                trainer.apply_gradients()
            results.append([*sums, *(a.copy() for a in trainer.parameters.tensors.values())])
    assert [a.tobytes() for a in results[0]] == [a.tobytes() for a in results[1]]


@pytest.mark.skipif(not is_available(), reason="no compiled kernels")
def test_calls_add_to_the_sums_if_workers_have_several_micro_batches() -> None:
    """Except for a weight used twice, whose gradient is a sum of two, and for biases."""
    with Trainer(network(), info(SAMPLES), micro_batch=2, workers=2) as trainer:
        engine = trainer.runtime.engine_of(0)
        for worker, arrays in enumerate(engine.sums.sums):
            program = engine.programs.program(worker, (2, 2))
            plan, sums = program.plan, arrays.values()
            added = added_in_calls(plan)
            assert {plan.values[name].spec.shape for name in added} == {(16, 12)}
            for entry, runs in zip(plan.entries, program.runs, strict=True):
                if isinstance(entry, Delivery):
                    gradient = program.array(entry.gradient)
                    in_sum = any(np.shares_memory(gradient, total) for total in sums)
                    in_arena = plan.values[plan.root(entry.gradient)].region is Region.ARENA
                    assert in_sum == (entry.parameter in added) == (not runs) != in_arena


def test_a_worker_does_not_wait_for_one_that_failed() -> None:
    def fail(program: Program, at: int, count: int) -> None:
        if at >= SAMPLES // 2:
            raise ValueError("failed")

    def step() -> None:
        with pytest.raises(ValueError, match="failed"):
            trainer.step(data(SAMPLES), SAMPLES, look=fail)

    with Trainer(network(), info(SAMPLES), micro_batch=2, workers=2) as trainer:
        thread = threading.Thread(target=step)
        thread.start()
        thread.join(FOREVER)
        assert not thread.is_alive()
