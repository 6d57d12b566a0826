"""About how long a plan takes: good for choosing between plans, not for a clock.

Figures of one core of a machine of today; what counts is how they stand to each other.
"""

from math import ceil

from odt.core.planning.plan import Call, Plan

CALL = 4e-6  # seconds: a kernel's NumPy calls beside their loops
FLOPS = 50e9  # arithmetic a second
BOUND_CALL = 1e-6  # seconds: of a call that is bound to its arrays, beside the kernel
BYTES = 8e9  # bytes a second, read or written beyond the cache
TOGETHER = 1.25  # how much longer a run takes while another worker runs too


def call_seconds(plan: Plan, call: Call) -> float:
    """One call, its operands in memory."""
    touched = sum(plan.values[v].spec.nbytes for v in call.arrays.values())
    return CALL + call.flops / FLOPS + touched / BYTES


def run_seconds(plan: Plan) -> float:
    """All calls of a plan."""
    return sum(call_seconds(plan, s) for s in plan.entries if isinstance(s, Call))


def adding_seconds(plan: Plan) -> float:
    """Adding a run's gradients to those of the runs before."""
    return 3 * sum(plan.gradient_nbytes.values()) / BYTES


def samples_worth_a_run(one: Plan, two: Plan, share: float) -> int:
    """How many samples a run should have, so that what it takes beside them is below a share.

    Args:
        one, two: the plan for one sample and for two.
        share: of the samples' time.
    """
    beside = adding_seconds(one) + len(one.entries) * BOUND_CALL
    a_sample = run_seconds(two) - run_seconds(one)
    return ceil(beside / (share * a_sample)) if a_sample > 0 else 1


def seconds_a_call(one: Plan, two: Plan, samples: int) -> float:
    """About what a call of a run takes, on average.

    Args:
        one, two: the plan for one sample and for two.
        samples: of the run.
    """
    a_sample = run_seconds(two) - run_seconds(one)
    calls = sum(isinstance(entry, Call) for entry in one.entries)
    return (run_seconds(one) + (samples - 1) * a_sample) / max(calls, 1)


def samples_of_calls(one: Plan, two: Plan, seconds: float) -> int:
    """How many samples a run should have, so that a call takes so long on average.

    Args:
        one, two: the plan for one sample and for two.
        seconds: of a call.
    """
    first, second = (seconds_a_call(one, two, n) for n in (1, 2))
    return 1 + max(ceil((seconds - first) / (second - first)), 0) if second > first else 1


def step_seconds(plan: Plan, batch: int, micro_batch: int, workers: int) -> float:
    """A step on a batch, cut up; the update itself is the same for all plans."""
    runs = -(-batch // micro_batch)
    one = run_seconds(plan) * -(-runs // workers) * (TOGETHER if workers > 1 else 1)
    return one + adding_seconds(plan) * (runs > 1) * runs
