"""Fuses neighboring calls when they are bound to memory.

Only calls are fused: the plan, its values and lifetimes do not change. Therefore a fused call must
not write to memory that it reads later.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from odt.core.planning.plan import Call, Delivery, Plan
from odt.kernels.native.regions import address
from odt.kernels.rows.opdef import ADDITION, Array


def merged(
    plan: Plan,
    arrays: Mapping[str, Array],
    observable: Collection[str] = (),
) -> dict[int, tuple[int, dict[str, Any]]]:
    """Returns entry → (the next entry that it computes too, keyword arguments for that).

    A delivery between the two entries is allowed, unless the second writes to its gradient's
    memory.

    Args:
        plan: the plan.
        arrays: value → array.
        observable: values that must exist after the call that writes them.
    """
    fused: dict[int, tuple[int, dict[str, Any]]] = {}
    entries = plan.entries
    kept = {plan.root(n) for n in (*plan.read_after_forward, *plan.gradients.values())}
    calls = [(k, s) for k, s in enumerate(entries) if isinstance(s, Call)]
    taken: set[int] = set()
    for (k, call), (after, following) in pairwise(calls):
        epilogue = following.kernel.epilogue
        if k in taken or call.compiled is None or epilogue is None:
            continue
        if observable and any(name in observable for name in call.values(call.writes)):
            continue
        if epilogue is ADDITION:
            continues = _is_addition(plan, call, following, after, arrays, kept)
        else:
            takes = epilogue.kind in call.compiled.takes
            continues = takes and _is_epilogue(call, following, epilogue.kind, arrays)
        if not continues:
            continue
        between = [s.gradient for s in entries[k + 1 : after] if isinstance(s, Delivery)]
        if _is_free(following, between, arrays):
            fused[k] = after, _arguments(call, following, arrays)
            taken.add(after)
    return fused


def _is_epilogue(call: Call, after: Call, kind: str, arrays: Mapping[str, Array]) -> bool:
    """Whether the second call only continues with the results, or operands, of the first."""
    if kind == "bias_gradient":
        if call.arrays["dy"] != after.arrays["dy"]:
            return False
        db = arrays[after.arrays["db"]]
        return not any(np.may_share_memory(db, arrays[v]) for v in call.arrays.values())
    (result,) = call.writes
    names = ("x", "y") if kind == "clamp" else ("dy", "dx")
    read, written = (after.arrays[n] for n in names)
    return call.arrays[result] == read and address(arrays[written]) == address(arrays[read])


def _is_addition(
    plan: Plan,
    call: Call,
    addition: Call,
    after: int,
    arrays: Mapping[str, Array],
    kept: Collection[str],
) -> bool:
    """Whether a call can add to its result what the next call adds, which alone reads it.

    Args:
        plan: the plan.
        call: the first call.
        addition: the next one.
        after: entry of the next one.
        arrays: value → array.
        kept: values that are read after the calls.
    """
    compiled = call.compiled
    if compiled is None or addition.compiled is None or len(call.writes) != 1:
        return False
    (result,) = call.values(call.writes)
    operands = addition.values("ab")
    root, total = plan.root(result), plan.root(addition.arrays["y"])
    last = plan.last_touched[root] == after and operands.count(result) == 1
    alike = len({addition.specs[n] for n in "aby"}) == 1
    if not (last and alike) or root in kept or total in kept:
        return False
    y, addend = arrays[addition.arrays["y"]], arrays[_other(operands, result)]
    others = (arrays[v] for n, v in call.arrays.items() if n not in call.writes)
    apart = not np.may_share_memory(y, addend) or address(y) == address(addend)
    free = apart and not any(np.may_share_memory(y, a) for a in others)
    return free and compiled.takes_addend(call.attrs, call.specs)


def _other(operands: Sequence[str], result: str) -> str:
    """Returns the one of two operands that is not a result."""
    (other,) = (operand for operand in operands if operand != result)
    return other


def _is_free(call: Call, values: Sequence[str], arrays: Mapping[str, Array]) -> bool:
    """Whether the call does not write to the memory of any of these values."""
    (written,) = (arrays[call.arrays[n]] for n in call.writes)
    return not any(np.may_share_memory(written, arrays[v]) for v in values)


def _arguments(call: Call, after: Call, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Returns the keyword arguments with which a call computes the epilogue, too.

    With an addend, its own result exists in registers alone.
    """
    epilogue = after.kernel.epilogue
    assert epilogue is not None
    if epilogue is ADDITION:
        return {name: arrays[value] for name, value in with_addend(call, after).items()}
    if epilogue.kind == "bias_gradient":
        return {"db": arrays[after.arrays["db"]]}
    if epilogue.kind == "clamp":
        return {"clamp": (epilogue.lo, epilogue.hi)}
    return {"relu_mask": (arrays[after.arrays["y"]], epilogue.lo, epilogue.hi)}


def with_addend(call: Call, after: Call) -> dict[str, str]:
    """Returns the values of a call that computes the ADD after it, too: its result, the addend."""
    (name,) = call.writes
    return {name: after.arrays["y"], "addend": _other(after.values("ab"), call.arrays[name])}
