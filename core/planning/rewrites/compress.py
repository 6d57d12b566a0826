"""Replaces saved activations by digests: bits of a clamp, bytes of a pooling window.

If the second form of a gradient (`Digest`) reads fewer bytes than the activations that are saved
for this gradient alone, a call of the forward phase computes the digest, and the gradient reads it.
"""

from collections.abc import Collection
from dataclasses import replace

from odt.core.planning.plan import Call, Delivery, Phase, Plan, Region, Value
from odt.kernels.native.library import compiled_of
from odt.kernels.rows.opdef import Digest, Kernel, TensorSpec


def use_digests(plan: Plan, gradients: Collection[str]) -> Plan:
    """Replaces some gradients of a plan with their second form, which reads a digest.

    Args:
        plan: plan of a training step.
        gradients: names of the gradients.
    """
    if not gradients:
        return plan
    writers: dict[str, int] = {}
    before: dict[int, list[Call]] = {}
    values = dict(plan.values)
    entries: dict[int, Call | Delivery] = dict(enumerate(plan.entries))
    for k, entry in enumerate(plan.entries):
        if not isinstance(entry, Call):
            continue
        form = _form(entry)
        if form is None or entry.arrays["dx"] not in gradients:
            if k < plan.forward_entries:
                writers.update((name, k) for name in entry.values(entry.writes))
            continue
        for name in entry.values(entry.workspace):
            del values[name]
        digest = f"{entry.arrays['dx']}.digest"
        spec = form.spec(entry.attrs, entry.specs)
        values[digest] = Value(digest, spec, Region.ARENA)
        maker = _call(entry, form.make, Phase.FORWARD, digest, spec, values)
        last = max(writers.get(plan.root(name), 0) for name in maker.values(maker.reads))
        before.setdefault(last + 1, []).append(replace(maker, label=f"{entry.label} digest"))
        entries[k] = _call(entry, form.gradient, Phase.BACKWARD, digest, spec, values)
    order: list[Call | Delivery] = []
    for k, entry in entries.items():
        order += (*before.get(k, ()), entry)
    return replace(plan, entries=tuple(order), values=values)


def choose_digests(plan: Plan) -> frozenset[str]:
    """Returns the gradients whose second form frees more bytes than its digest takes."""
    calls = {
        entry.arrays["dx"]: entry
        for entry in plan.entries
        if isinstance(entry, Call) and _form(entry) is not None
    }
    forward = {
        plan.root(v)
        for entry in plan.entries[: plan.forward_entries]
        if isinstance(entry, Call)
        for v in entry.values(entry.writes)
    }
    worthwhile = set(calls)
    while True:  # a gradient without a digest reads activations that others then free no more
        others = (
            entry
            for entry in plan.entries[plan.forward_entries :]
            if isinstance(entry, Call) and entry.arrays.get("dx") not in worthwhile
        )
        operands = {plan.root(v) for entry in others for v in entry.values(entry.reads)}
        useless = {n for n in worthwhile if not _frees(plan, calls[n], forward - operands)}
        if not useless:
            return frozenset(worthwhile)
        worthwhile -= useless


def _frees(plan: Plan, call: Call, free: Collection[str]) -> bool:
    """Whether a digest takes fewer bytes than the operands that only its gradient reads."""
    form = _form(call)
    assert form is not None
    roots = {plan.root(v) for v in call.values(call.reads)}
    freed = sum(plan.values[r].spec.nbytes for r in roots if r in free)
    return freed > form.spec(call.attrs, call.specs).nbytes


def _form(call: Call) -> Digest | None:
    """Returns the second form of a gradient; None for a call without one that fits."""
    form = call.kernel.digest
    return form if form is not None and form.fits(call.attrs, call.specs) else None


def _call(
    call: Call,
    kernel: Kernel,
    phase: Phase,
    digest: str,
    spec: TensorSpec,
    values: dict[str, Value],
) -> Call:
    """Returns the call of one kernel of a second form, with values for its workspace."""
    specs = {n: s for n, s in call.specs.items() if n not in call.workspace}
    specs["digest"] = spec
    bound = {**call.arrays, "digest": digest}
    arrays = {n: bound[n] for n in (*kernel.reads, *kernel.writes)}
    compiled = compiled_of(kernel, call.attrs, specs)
    scratch = (compiled or kernel).workspace(call.attrs, specs)
    for name, scratch_spec in scratch.items():
        arrays[name] = f"{digest}.{phase.value}.{name}"
        values[arrays[name]] = Value(arrays[name], scratch_spec, Region.ARENA)
    return replace(
        call,
        phase=phase,
        kernel=kernel,
        arrays=arrays,
        reads=kernel.reads,
        writes=kernel.writes,
        workspace=tuple(scratch),
        specs={**specs, **scratch},
        compiled=compiled,
    )
