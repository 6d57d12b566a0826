"""Weights that are packed once in a step, for the micro-batches of all workers.

Kernels read weights in a layout of their own. To pack them takes 14 % of the time of a product with
200 results, as last layers of images have, and 1 % of one with 3,000.
"""

from odt.core.planning.plan import Call, Plan, Region
from odt.kernels.rows.opdef import TensorSpec

RESULTS = 1024  # of a product in a micro-batch, up to which it pays
MAX_VALUES = 2**22  # values of all packed weights


def packed_spec(plan: Plan, call: Call) -> TensorSpec | None:
    """Returns the spec of the packed weights that a call can read, if it can."""
    if call.compiled is None or "w" not in call.arrays:
        return None
    w, whole = plan.values[call.arrays["w"]], plan.values[plan.root(call.arrays["w"])]
    if whole.region not in (Region.PARAMETER, Region.CONSTANT):  # computed in each run
        return None
    if w.spec.size != whole.spec.size:  # a part, beside others of the same weight
        return None
    return call.compiled.packed(call.attrs, call.specs)


def packed_weights(plan: Plan) -> dict[str, TensorSpec]:
    """Returns the specs of the packed weights by name, those of the fewest results first.

    A weight that calls read in several layouts is left out: a filter of an ordinary and of a
    grouped convolution, say, or of two sizes of images of which one is rounded to bfloat16.
    """
    results: dict[str, int] = {}
    layouts: dict[str, tuple[TensorSpec, *tuple[object, ...]]] = {}
    several: set[str] = set()
    forward = plan.entries[: plan.forward_entries]
    for call in (entry for entry in forward if isinstance(entry, Call)):
        spec = packed_spec(plan, call)
        if spec is not None:
            name, y = plan.root(call.arrays["w"]), call.specs["y"]
            results[name] = y.size // y.shape[-1] + results.get(name, 0)
            layout = spec, call.compiled, call.attrs, call.specs["x"].shape[1:]
            if layouts.setdefault(name, layout) != layout:
                several.add(name)
    packed, values = {}, 0
    for name in sorted((n for n in layouts if n not in several), key=lambda n: results[n]):
        spec = layouts[name][0]
        values += spec.size
        if results[name] > RESULTS or values > MAX_VALUES:
            break
        packed[name] = spec
    return packed
