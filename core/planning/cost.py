"""Estimates the time of a plan, to choose among plans.

The constants are those of one core of a current machine; only their ratios matter.
"""

from math import ceil

from odt.core.planning.plan import Call, Plan

CALL = 4e-6  # seconds: overhead of the NumPy calls in a kernel
FLOPS = 50e9  # operations per second
BOUND_CALL = 1e-6  # seconds: overhead of calling a bound kernel
BYTES = 8e9  # bytes per second, read or written beyond the cache
TOGETHER = 1.25  # factor of a run's time while another worker runs too


def call_seconds(plan: Plan, call: Call) -> float:
    """Estimates the seconds of a call whose operands are in memory, not in the cache."""
    touched = sum(plan.values[v].spec.nbytes for v in call.arrays.values())
    return CALL + call.flops / FLOPS + touched / BYTES


def run_seconds(plan: Plan) -> float:
    """Estimates the seconds of all calls of a plan."""
    return sum(call_seconds(plan, s) for s in plan.entries if isinstance(s, Call))


def adding_seconds(plan: Plan) -> float:
    """Estimates the seconds of adding the gradients of a run to those of earlier runs."""
    return 3 * sum(plan.gradient_nbytes.values()) / BYTES


def samples_worth_a_run(one: Plan, two: Plan, fraction: float) -> int:
    """Returns the number of samples that keeps a run's overhead below a fraction of its time.

    Args:
        one: the plan for one sample.
        two: the plan for two samples.
        fraction: limit of the overhead, relative to the time of the samples.
    """
    beside = adding_seconds(one) + len(one.entries) * BOUND_CALL
    a_sample = run_seconds(two) - run_seconds(one)
    return ceil(beside / (fraction * a_sample)) if a_sample > 0 else 1


def seconds_a_call(one: Plan, two: Plan, samples: int) -> float:
    """Estimates the mean seconds per call of a run.

    Args:
        one: the plan for one sample.
        two: the plan for two samples.
        samples: number of samples in the run.
    """
    a_sample = run_seconds(two) - run_seconds(one)
    calls = sum(isinstance(entry, Call) for entry in one.entries)
    return (run_seconds(one) + (samples - 1) * a_sample) / max(calls, 1)


def samples_of_calls(one: Plan, two: Plan, seconds: float) -> int:
    """Returns the number of samples for which a call takes a given time on average.

    Args:
        one: the plan for one sample.
        two: the plan for two samples.
        seconds: mean time of a call.
    """
    first, second = (seconds_a_call(one, two, n) for n in (1, 2))
    return 1 + max(ceil((seconds - first) / (second - first)), 0) if second > first else 1


def step_seconds(plan: Plan, batch: int, micro_batch: int, workers: int) -> float:
    """Estimates the seconds of a step, without the update, which is the same for all plans."""
    runs = -(-batch // micro_batch)
    one = run_seconds(plan) * -(-runs // workers) * (TOGETHER if workers > 1 else 1)
    return one + adding_seconds(plan) * (runs > 1) * runs
