"""Estimates the time of a run on a board from its rates."""

import math

from odt.core.planning.budget.forecast import Forecast
from odt.core.planning.computation import Computation
from odt.core.planning.cost import TOGETHER, Rates, operand_seconds, overhead_seconds
from odt.core.planning.plan import Call, Plan
from odt.training.boards import Board
from odt.training.run_time import Costs

SPLIT = 0.65  # gain of each further core that shares a call of the only worker
SHARED = 100e-6  # seconds from which calls are shared


def run_seconds(plan: Plan, rates: Rates, entries: int | None = None, cores: int = 1) -> float:
    """Estimates the seconds of the calls of a plan, or of its first entries.

    Args:
        plan: the plan.
        rates: rates of a core that runs it.
        entries: number of entries; None for all.
        cores: number of cores that share a call.
    """
    calls = [entry for entry in plan.entries[:entries] if isinstance(entry, Call)]
    return sum(_call_seconds(plan, call, rates, cores) for call in calls)


def _call_seconds(plan: Plan, call: Call, rates: Rates, cores: int) -> float:
    """Estimates the seconds of a call that cores share."""
    seconds = operand_seconds(plan, call, rates)
    if seconds > SHARED:
        seconds /= 1 + SPLIT * (cores - 1)
    return overhead_seconds(call, rates) + seconds


def _rates(board: Board) -> Rates:
    """Returns the rates of a core; operators without a rate only read and write memory."""
    return Rates(
        dense=board.dense,
        convolution=board.convolution,
        depthwise=board.depthwise,
        other=math.inf,
        memory=board.memory,
        call=board.call,
        numpy_call=board.numpy_call,
    )


def costs_on(board: Board, forecast: Forecast, training: Computation) -> Costs:
    """Estimates the parts of a run on a board.

    Args:
        board: the board.
        forecast: plans and schedule of the run.
        training: the computation of a training step; it begins after frozen layers that are cached.
    """
    schedule = forecast.schedule
    runs = -(-schedule.batch // schedule.micro_batch)
    plan = forecast.plan
    alone = schedule.workers == 1
    cores = board.threads if alone else 1
    together = 1.0 if alone else TOGETHER

    rates = _rates(board)

    def batch_seconds(plan: Plan, entries: int | None = None) -> float:
        one = run_seconds(plan, rates, entries, cores)
        return one * -(-runs // schedule.workers) * together

    # Sums and updates read two arrays and write one.
    adding = 3 * sum(plan.gradient_nbytes.values()) * (runs if runs > 1 else 0)
    update = 3 * (forecast.parameters + forecast.slots)
    step = batch_seconds(plan) + (adding + update) / board.memory + board.step
    forward = batch_seconds(plan, plan.forward_entries)
    frozen = 0.0
    if training.begin:
        part = Computation(end=training.begin)
        frozen_plan = forecast.plans.plan(part, schedule.micro_batch)
        frozen = batch_seconds(frozen_plan) / schedule.batch
    return Costs(step, forward / schedule.batch, frozen)
