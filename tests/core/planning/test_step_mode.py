"""How batches run follows from the plan, the schedule, and what the update needs."""

from typing import Any

import numpy as np
import pytest
from support.tied_network import info, network

from odt.core.planning.computation import Plans, usual_schedule
from odt.core.planning.step_mode import Loop, StepMode, Update
from odt.core.planning.step_plans import StepPlans
from odt.core.recipe.computations import training_and_validation
from odt.kernels.native.library import has_threads, is_available

BATCH = 16

pytestmark = pytest.mark.skipif(not is_available(), reason="no compiled kernels")
threaded = pytest.mark.skipif(not has_threads(), reason="the library has no threads")


def mode(m: int, w: int, *, validates: bool = False, **options: bool) -> StepMode:
    """The mode of a step of a small network."""
    plans = Plans(network(np.float32))
    each = training_and_validation(plans.graphs, info(BATCH))
    schedule = usual_schedule(plans, each[0], BATCH, m, w)
    given: dict[str, Any] = {"keep": False, "in_parts": True, **options}
    return StepPlans(plans, each[validates], schedule, **given).mode


@pytest.mark.parametrize(
    ("m", "w", "keep", "update", "in_place"),
    [
        (BATCH, 1, False, Update.DURING, True),
        (BATCH, 1, True, Update.AFTER, False),
        (4, 1, False, Update.AFTER, False),
        (8, 2, False, Update.AFTER, True),
        (8, 2, True, Update.AFTER, False),
        (4, 2, False, Update.AFTER, False),
    ],
)
def test_updates_wait_for_the_last_micro_batch_and_for_the_batches_of_a_step(
    m: int, w: int, *, keep: bool, update: Update, in_place: bool
) -> None:
    chosen = mode(m, w, keep=keep)
    assert (chosen.update, chosen.in_place) == (update, in_place)


@threaded
def test_a_short_step_of_several_workers_holds_its_batch() -> None:
    chosen = mode(4, 2)
    assert chosen.loop is Loop.WHOLE_BATCH
    assert {spec.shape[0] for spec in chosen.batch_arrays.values()} == {BATCH, 1}  # samples, scales
    assert (mode(4, 1).loop, mode(4, 1).batch_arrays) == (Loop.THREADS, {})


@threaded
def test_validation_holds_no_batch_since_outputs_are_looked_at() -> None:
    chosen = mode(4, 2, validates=True)
    assert (chosen.loop, chosen.update, chosen.batch_arrays) == (
        Loop.SIDE_BY_SIDE,
        Update.NEVER,
        {},
    )


@threaded
def test_workers_that_meet_have_threads_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LARGE", "LARGE_IN_EACH_RUN", "WORTHWHILE"):
        monkeypatch.setattr(f"odt.core.planning.gradient_sums.{name}", 1)
    assert (mode(8, 2).loop, mode(8, 2).update) == (Loop.THREADS, Update.DURING)
    whole = mode(8, 2, whole=True)
    assert (whole.update, whole.in_place) == (Update.AFTER, False)
