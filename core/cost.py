"""About how long a plan takes: good for choosing between plans, not for a clock.

Figures of one core of a machine of today; what counts is how they stand to each other.
"""

from odt.core.plan import Call, Plan

CALL = 4e-6  # seconds: a kernel's NumPy calls beside their loops
FLOPS = 50e9  # arithmetic a second
BYTES = 8e9  # bytes a second, read or written beyond the cache
TOGETHER = 1.25  # how much longer a run takes while another worker runs too


def call_seconds(plan: Plan, call: Call) -> float:
    """One call, its operands in memory."""
    touched = sum(plan.values[v].spec.nbytes for v in call.arrays.values())
    return CALL + call.flops / FLOPS + touched / BYTES


def run_seconds(plan: Plan) -> float:
    """All calls of a plan."""
    return sum(call_seconds(plan, s) for s in plan.steps if isinstance(s, Call))


def step_seconds(plan: Plan, batch: int, micro_batch: int, workers: int) -> float:
    """A step on a batch, cut up; the update itself is the same for all plans."""
    runs = -(-batch // micro_batch)
    one = run_seconds(plan) * -(-runs // workers) * (TOGETHER if workers > 1 else 1)
    trained = sum(plan.values[name].spec.nbytes for name in plan.parameters)
    return one + 3 * trained * (runs > 1) * runs / BYTES
