"""Gradients of weights in blocks of units: each block updates its part of the parameter.

A gradient is as large as its weight. If it is computed when the weight is updated, a block of it
needs memory, and is in the cache when the update reads it.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from odt.core.planning.gradient_sums import sole_calls
from odt.core.planning.plan import Call, Delivery, Plan, Region
from odt.kernels.rows.opdef import TensorSpec

LEAST = 2**17  # values of a gradient that is computed in blocks
BLOCK = 2**15  # values of a block, unless units are larger
UNITS = 16  # least units of a block, so that tiles of the kernels are full


def block_ends(spec: TensorSpec, parts: int) -> list[int]:
    """Returns 0 and the ends of the blocks along the first axis; equally many for each part."""
    units = spec.shape[0]
    blocks = min(spec.size // BLOCK, units // UNITS) // parts * parts
    whole = (units * k // max(blocks, 1) // UNITS * UNITS for k in range(blocks))
    return [*whole, units] if blocks else [0, units]


def in_blocks(plan: Plan, parameters: Collection[str], parts: int) -> Plan:
    """Returns the plan with large gradients computed by their deliveries.

    Args:
        plan: plan for a micro-batch.
        parameters: those that are updated at their delivery, in parts.
        parts: blocks that exist at the same time.
    """
    if not any(plan.values[plan.gradients[name]].spec.size >= LEAST for name in parameters):
        return plan
    calls = sole_calls(plan)
    entries: list[Call | Delivery | None] = list(plan.entries)
    values = dict(plan.values)
    bases = {value.base for value in values.values()}
    for k, entry in enumerate(plan.entries):
        if not isinstance(entry, Delivery) or entry.call or entry.parameter not in parameters:
            continue
        first = calls.get(entry.parameter, k)
        call, spec = plan.entries[first], values[entry.gradient].spec
        if not (isinstance(call, Call) and spec.size >= LEAST):
            continue
        if entry.gradient in bases or values[entry.gradient].base is not None:
            continue  # the call computes it in another shape, that of a view of the weight
        ends = block_ends(spec, parts)
        if _fits(plan, call, ends):
            units = max(end - start for start, end in pairwise(ends))
            blocks = TensorSpec((parts, units, *spec.shape[1:]), spec.dtype)
            values[entry.gradient] = replace(values[entry.gradient], spec=blocks)
            entries[first] = None  # the delivery computes the gradient
            entries[k] = replace(entry, call=call)
    if values == plan.values:
        return plan
    return replace(plan, entries=tuple(e for e in entries if e is not None), values=values)


def _fits(plan: Plan, call: Call, ends: Sequence[int]) -> bool:
    """Whether a call can compute blocks of its result, from values in the arena."""
    read = (plan.values[plan.root(name)].region for name in call.values(call.reads))
    return (
        len(ends) > 2
        and call.compiled is not None
        and call.compiled.in_blocks
        and not any(plan.values[name].spec.size for name in call.values(call.workspace))
        and all(region in (Region.ARENA, Region.INPUT) for region in read)
    )
