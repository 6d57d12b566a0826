"""Fuses neighboring calls when they are bound to memory.

Only calls are fused: the plan, its values and lifetimes do not change. Therefore a fused call must
not write to memory that it reads later.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from odt.core.planning.plan import Call, Delivery
from odt.kernels.native.regions import address
from odt.kernels.rows.opdef import Array


def merged(
    entries: Sequence[Call | Delivery],
    arrays: Mapping[str, Array],
    observable: Collection[str] = (),
) -> dict[int, tuple[int, dict[str, Any]]]:
    """Returns entry → (the next entry that it computes too, keyword arguments for that).

    A delivery between the two entries is allowed, unless the second writes to its gradient's
    memory.

    Args:
        entries: entries of a plan.
        arrays: value → array.
        observable: values that must exist after the call that writes them.
    """
    fused: dict[int, tuple[int, dict[str, Any]]] = {}
    calls = [(k, s) for k, s in enumerate(entries) if isinstance(s, Call)]
    taken: set[int] = set()
    for (k, call), (after, following) in pairwise(calls):
        epilogue = following.kernel.epilogue
        if k in taken or call.compiled is None or epilogue is None:
            continue
        if observable and any(name in observable for name in call.values(call.writes)):
            continue
        takes = epilogue.kind in call.compiled.takes
        if not (takes and _is_epilogue(call, following, epilogue.kind, arrays)):
            continue
        between = [s.gradient for s in entries[k + 1 : after] if isinstance(s, Delivery)]
        if _is_free(following, between, arrays):
            fused[k] = after, _arguments(following, arrays)
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


def _is_free(call: Call, values: Sequence[str], arrays: Mapping[str, Array]) -> bool:
    """Whether the call does not write to the memory of any of these values."""
    (written,) = (arrays[call.arrays[n]] for n in call.writes)
    return not any(np.may_share_memory(written, arrays[v]) for v in values)


def _arguments(after: Call, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Returns the keyword arguments with which a call computes the epilogue, too."""
    epilogue = after.kernel.epilogue
    assert epilogue is not None
    if epilogue.kind == "bias_gradient":
        return {"db": arrays[after.arrays["db"]]}
    if epilogue.kind == "clamp":
        return {"clamp": (epilogue.lo, epilogue.hi)}
    return {"relu_mask": (arrays[after.arrays["y"]], epilogue.lo, epilogue.hi)}
