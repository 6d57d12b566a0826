"""Plans for C programs on other machines."""

from pathlib import Path
from typing import Any

import pytest
from support.paths import TESTS

import odt
from odt.kernels.native.library import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="no compiled kernels")
MODEL = TESTS / "golden" / "mnist" / "model.circle"
OPTIONS: dict[str, Any] = {"loss": "categorical_crossentropy", "batch_size": 4}


def test_a_plan_for_a_target_has_the_memory_of_the_program(tmp_path: Path) -> None:
    options = {**OPTIONS, "micro_batch": 2, "optimizer": odt.Adam(0.01)}
    plan = odt.plan(MODEL, target="microcontroller", **options)
    program = odt.compile(MODEL, tmp_path / "c", target="microcontroller", **options)
    assert (plan.arenas, plan.optimizer) == (program.arena, program.optimizer)
    # The program counts the micro-batches before, too.
    assert plan.peak == plan.allocated == program.memory - 8
    assert (plan.data, plan.overhead, plan.dequantized) == (0, 0, 0)
    assert "of static memory" in str(plan)
    assert "CONV_2D" in plan.calls()


def test_a_plan_for_a_target_fits_into_a_budget() -> None:
    whole = odt.plan(MODEL, target="microcontroller", **OPTIONS, micro_batch=4)
    budget = whole.peak * 3 // 4
    assert odt.plan(MODEL, target="generic", memory_budget=budget, **OPTIONS).peak <= budget


def test_several_workers_of_a_program_are_refused() -> None:
    with pytest.raises(odt.OptionError, match="`workers=`: must be 1"):
        odt.plan(MODEL, target="generic", workers=2, **OPTIONS)
    with pytest.raises(odt.OptionError, match="`target=`: must be"):
        odt.plan(MODEL, target="moon", **OPTIONS)
