"""Joins the products of attention and the softmax between them, if a mask hides many keys.

    y = softmax(β (q kᵀ + mask)) v

Scores and probabilities of a language model are larger than all other activations of a layer, and
its mask hides half of them: each position sees the positions before it. Joined, forward is one
compiled call and so is backward. They compute the scores of some rows at a time, up to the last key
that one of these sees, and backward computes them again, so that no plan saves probabilities.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from odt.core.planning.plan import Call, Phase, Plan, Region, Value
from odt.dataclass import dataclass
from odt.kernels.native.attention import (
    BACKWARD,
    FORWARD,
    HIDDEN,
    LEAST_BETA,
    AttentionAttrs,
    statistics,
)
from odt.kernels.native.library import compiled_of
from odt.kernels.ops.add import OP as ADD
from odt.kernels.ops.batch_matmul import OP as MATMUL
from odt.kernels.ops.softmax import OP as SOFTMAX
from odt.kernels.rows.opdef import Arithmetic, Array, Kernel, Specs

LEAST_HIDDEN = 0.25  # share of the scores that a mask hides, from which it pays


def _only_compiled(attrs: AttentionAttrs, **arrays: Array) -> None:
    raise AssertionError("plans use it as a compiled kernel alone")


ATTENTION = Kernel(
    _only_compiled, reads=("q", "k", "v", "mask"), writes=("y", "stats"), compiled=FORWARD
)
ATTENTION_BACK = Kernel(
    _only_compiled,
    reads=("q", "k", "v", "mask", "stats", "dy"),
    writes=("dq", "dk", "dv"),
    compiled=BACKWARD,
)


def with_attention(plan: Plan) -> Plan:
    """Returns the plan with the calls of each such attention joined; or the plan itself."""
    calls = [entry for entry in plan.entries if isinstance(entry, Call)]
    touching: dict[str, list[Call]] = {}
    for call in calls:
        for root in dict.fromkeys(map(plan.root, call.touched)):
            touching.setdefault(root, []).append(call)
    new_calls: dict[int, Call | None] = {}
    new_values, dropped = dict[str, Value](), set[str]()
    for softmax in calls:
        attention = _find(plan, softmax, touching) if softmax.kernel is SOFTMAX.forward else None
        joined = attention and attention.joined(plan)
        if joined:
            new_calls |= joined.calls
            new_values |= joined.values
            dropped |= joined.dropped
    if not new_calls:
        return plan
    values = {n: v for n, v in plan.values.items() if plan.root(n) not in dropped} | new_values
    entries = (new_calls.get(id(entry), entry) for entry in plan.entries)
    return replace(plan, entries=tuple(e for e in entries if e is not None), values=values)


@dataclass(frozen=True, slots=True)
class _Joined:
    """What replaces the calls of an attention.

    Attributes:
        calls: identity of a call → the call in its place, or None.
        values: new values by name.
        dropped: values that no longer exist.
    """

    calls: Mapping[int, Call | None]
    values: Mapping[str, Value]
    dropped: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Attention:
    """The calls of an attention; nothing else touches the values between them.

    Attributes:
        forward: product of q and k, ADD of the mask, SOFTMAX and product with v.
        backward: gradients by v, the probabilities, the sum of scores and mask, k and q; None
            without backward.
        mask: value of the mask.
        queries: rows of the mask.
        seen: share of the scores that it does not hide.
    """

    forward: tuple[Call, Call, Call, Call]
    backward: tuple[Call, Call, Call, Call, Call] | None
    mask: str
    queries: int
    seen: float

    def joined(self, plan: Plan) -> _Joined | None:
        """Returns what replaces the calls; None if no compiled kernel can."""
        scores, adds, softmax, product = self.forward
        attrs = AttentionAttrs(float(softmax.attrs.beta), self.queries)
        arrays = {"q": scores.arrays["a"], "k": scores.arrays["b"], "v": product.arrays["b"]}
        arrays |= {"mask": self.mask, "y": product.arrays["y"]}
        specs = {name: plan.values[value].spec for name, value in arrays.items()}
        stats = statistics(specs)
        arrays["stats"], specs["stats"] = f"{arrays['y']}.stats", stats
        label = f"{scores.label} with {softmax.label}, {product.label}"
        flops = round((scores.flops + product.flops) * self.seen)
        call = _call(label, Phase.FORWARD, ATTENTION, attrs, arrays, specs, flops)
        if call is None:
            return None
        removed: tuple[Call, ...] = self.forward
        calls: dict[int, Call | None] = {**dict.fromkeys(map(id, removed)), id(product): call}
        new = [call]
        held = [scores.arrays["y"], adds.arrays["y"], softmax.arrays["y"]]
        if self.backward is not None:
            by_v, by_p, by_sum, by_k, by_q = removed = self.backward
            held += [by_p.arrays["da"], by_sum.arrays["dx"]]
            results = {"dq": by_q.arrays["da"], "dk": by_k.arrays["db"], "dv": by_v.arrays["db"]}
            arrays |= {**results, "dy": by_v.arrays["dy"]}
            specs |= {name: plan.values[arrays[name]].spec for name in ("dy", *results)}
            flops += round(sum(c.flops for c in (by_v, by_p, by_k, by_q)) * self.seen)
            back = _call(
                f"{label} backward", Phase.BACKWARD, ATTENTION_BACK, attrs, arrays, specs, flops
            )
            if back is None:
                return None
            first = min(removed, key=plan.entries.index)
            calls |= {**dict.fromkeys(map(id, removed)), id(first): back}
            new.append(back)
            removed = self.forward + self.backward
        growth = stats.nbytes // plan.graph.samples
        values = [Value(arrays["stats"], stats, Region.ARENA, growth=growth)]
        for each in new:
            values += [Value(each.arrays[n], each.specs[n], Region.ARENA) for n in each.workspace]
        dropped = {v for each in removed for v in each.values(each.workspace)}
        dropped |= {plan.root(name) for name in held}
        return _Joined(calls, {value.name: value for value in values}, frozenset(dropped))


def _call(
    label: str,
    phase: Phase,
    kernel: Kernel,
    attrs: AttentionAttrs,
    arrays: Mapping[str, str],
    specs: Specs,
    flops: int,
) -> Call | None:
    """Returns a call of a compiled kernel; None if it does not support the specs."""
    names = (*kernel.reads, *kernel.writes)
    specs = {name: specs[name] for name in names}
    compiled = compiled_of(kernel, attrs, specs)
    if compiled is None:
        return None
    scratch = compiled.workspace(attrs, specs)
    bound = {name: arrays[name] for name in names}
    bound |= {name: f"{bound[kernel.writes[0]]}.{name}" for name in scratch}
    return Call(
        label,
        phase,
        kernel,
        attrs,
        bound,
        kernel.reads,
        kernel.writes,
        tuple(scratch),
        {**specs, **scratch},
        flops,
        Arithmetic.DENSE,
        compiled,
    )


def _find(plan: Plan, softmax: Call, touching: Mapping[str, list[Call]]) -> _Attention | None:
    """Finds the attention of a softmax that can be joined; None if there is none.

    Args:
        plan: the plan.
        softmax: the call.
        touching: value that is not a view → the calls that touch its memory, in order.
    """
    x, p = (plan.root(softmax.arrays[n]) for n in ("x", "y"))
    adds, product = touching[x][0], next((c for c in touching[p] if _multiplies(plan, c, p)), None)
    if adds.kernel is not ADD.forward or product is None or softmax.attrs.beta < LEAST_BETA:
        return None
    mask, z = _mask_and_other(plan, adds)
    hidden = None if mask is None else _hidden(plan, mask, softmax.specs["x"].shape)
    if mask is None or hidden is None or z not in touching:
        return None
    scores, queries = touching[z][0], plan.values[mask].spec.shape[-2]
    forward = scores, adds, softmax, product
    if not (_is_attention(plan, *forward) and scores.specs["y"].shape[-2] % queries == 0):
        return None
    held = {x, p, z}
    others = _others(touching, held, forward)
    backward = None
    if others:
        backward = _gradients(plan, others, touching, held, forward)
        if backward is None:
            return None
    kept = {plan.root(name) for name in (*plan.read_after_forward, *plan.gradients.values())}
    if held & kept:
        return None
    return _Attention(forward, backward, mask, queries, 1 - hidden)


def _multiplies(plan: Plan, call: Call, root: str) -> bool:
    """Whether a call multiplies a value by a matrix on its right."""
    return call.kernel is MATMUL.forward and plan.root(call.arrays["a"]) == root


def _mask_and_other(plan: Plan, adds: Call) -> tuple[str | None, str]:
    """Returns the constant that an ADD reads, or None, and the root of the other operand."""
    a, b = adds.arrays["a"], adds.arrays["b"]
    for mask, other in ((b, a), (a, b)):
        value = plan.values[mask]
        if value.region is Region.CONSTANT and value.base is None and value.tensor is not None:
            return mask, plan.root(other)
    return None, ""


def _hidden(plan: Plan, mask: str, shape: tuple[int, ...]) -> float | None:
    """Returns the share of scores that a mask hides; None if it is too small or no such mask.

    Args:
        plan: the plan.
        mask: value of the mask.
        shape: shape of the scores.
    """
    value = plan.values[mask]
    of_mask = value.spec.shape
    if len(of_mask) < 2 or of_mask[-2:] != shape[-2:] or prod(of_mask[:-2]) != 1:
        return None
    assert value.tensor is not None, "it is a constant"
    tensor = plan.graph.tensors[value.tensor]
    if tensor.decoder is not None or tensor.real is None:
        return None
    keys = shape[-1]
    sees = tensor.real.reshape(-1, keys) > HIDDEN
    ends = np.where(sees.any(axis=1), keys - sees[:, ::-1].argmax(axis=1), keys)
    hidden = 1 - float(ends.mean()) / keys
    return hidden if hidden >= LEAST_HIDDEN else None


def _is_attention(plan: Plan, scores: Call, adds: Call, softmax: Call, product: Call) -> bool:
    """Whether calls multiply matrix by matrix, and keys are along the last axis of all values."""
    if scores.kernel is not MATMUL.forward:
        return False
    q, k, z = (scores.specs[n].shape for n in "aby")
    p, v = (product.specs[n].shape for n in "ab")
    transposed = [(c.attrs.adj_x, c.attrs.adj_y) for c in (scores, product)]
    return (
        transposed == [(False, True), (False, False)]
        and not any(call.rounds for call in (scores, product))
        and q[:-2] == k[:-2] == v[:-2]
        and z == p
        and prod(z) == adds.specs["y"].size == softmax.specs["x"].size
        and z[-1] == softmax.specs["x"].shape[-1]
    )


def _others(
    touching: Mapping[str, list[Call]], held: Collection[str], known: Sequence[Call]
) -> list[Call]:
    """Returns the calls that touch some values, without those that are known."""
    ids = {id(call) for call in known}
    calls = {id(call): call for root in held for call in touching[root] if id(call) not in ids}
    return list(calls.values())


def _gradients(
    plan: Plan,
    others: Sequence[Call],
    touching: Mapping[str, list[Call]],
    held: set[str],
    forward: tuple[Call, Call, Call, Call],
) -> tuple[Call, Call, Call, Call, Call] | None:
    """Returns the gradients of an attention; None if other calls touch the values between them.

    Args:
        plan: the plan.
        others: calls of the backward phase that touch the values between those of `forward`.
        touching: as for `_find`.
        held: these values, to which their gradients are added.
        forward: the calls of the forward phase.
    """
    by_sum = next((c for c in others if c.kernel is SOFTMAX.grads["x"]), None)
    if by_sum is None or len(others) != 2:
        return None
    held |= {plan.root(by_sum.arrays[n]) for n in ("dy", "dx")}
    found = {}
    for call in _others(touching, held, forward):
        for name, kernel in MATMUL.grads.items():
            if call.kernel is kernel:
                of_product = plan.root(call.arrays["dy"]) == plan.root(by_sum.arrays["dx"])
                found["qk"[name == "b"] if of_product else "pv"[name == "b"]] = call
    calls = *(found.get(name) for name in "vp"), by_sum, *(found.get(name) for name in "kq")
    known = [call for call in calls if call is not None]
    if len(known) != len(calls) or _others(touching, held, (*forward, *known)):
        return None
    by_v, by_p, by_sum, by_k, by_q = known
    return None if any(call.rounds for call in known) else (by_v, by_p, by_sum, by_k, by_q)
