"""Values that cost little to compute again, and much memory to save.

They are the results of calls that could work in place, and whose operands are saved anyway:
x · σ(x) beside x, or the normalized, scaled and shifted form of a value. Each costs one or two
passes over values that backward reads at this point in any case. An operand may also be the result
of a normalization of a saved value, which is repeated then: max(γ x̂ + β, 0) beside x.
"""

from odt.core.planning.cost import call_seconds, run_seconds
from odt.core.planning.plan import Call, Plan, Region

LEAST = 2**15  # bytes: smaller values are not recomputed
SHARE = 0.15  # of the bytes alive at the end of the forward phase: less is not worth a rewrite
SLOWER = 0.08  # fraction of a run's estimated time that recomputing all of them may add


def cheap_values(plan: Plan) -> frozenset[str]:
    """Returns the values of a training plan to recompute; none if they are a small part of it."""
    forward = plan.entries[: plan.forward_entries]
    calls = [e for e in forward if isinstance(e, Call) and _is_worthwhile(plan, e)]
    if not calls:
        return frozenset()
    uses = _Uses(plan)
    rates: dict[str, float] = {}  # value → seconds of its calls for each of its bytes
    for call in calls:
        if uses.is_cheap(call):
            name = call.arrays[call.writes[0]]
            seconds = sum(call_seconds(plan, each) for each in (call, *uses.before(call)))
            rates[name] = seconds / plan.values[name].spec.nbytes
    if not rates:
        return frozenset()
    cheapest: list[str] = []
    total = 0.0  # seconds
    most = SLOWER * run_seconds(plan)
    for name in sorted(rates, key=rates.__getitem__):
        total += rates[name] * plan.values[name].spec.nbytes
        if total > most:
            break
        cheapest.append(name)
    freed = sum(plan.values[name].spec.nbytes for name in cheapest)
    return frozenset(cheapest if freed > SHARE * uses.saved_nbytes else ())


class _Uses:
    """Where the backward phase reads values and delivers parameters.

    Attributes:
        plan: plan of a training step.
        first, last: root of a value → first and last entry of backward that reads it.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        for k in range(plan.forward_entries, len(plan.entries)):
            entry = plan.entries[k]
            names = entry.values(entry.reads) if isinstance(entry, Call) else (entry.parameter,)
            for root in map(plan.root, names):
                self.first.setdefault(root, k)
                self.last[root] = k
        self._read_later = {plan.root(name) for name in (*plan.read_after_forward, *plan.losses)}
        self._makers = {
            plan.root(name): entry
            for entry in plan.entries[: plan.forward_entries]
            if isinstance(entry, Call)
            for name in entry.values(entry.writes)
        }
        self._any_compiled = any(isinstance(e, Call) and e.compiled for e in plan.entries)

    @property
    def saved_nbytes(self) -> int:
        """Bytes of the values that the forward phase leaves to the backward phase."""
        values = {
            self.plan.root(name)
            for entry in self.plan.entries[: self.plan.forward_entries]
            if isinstance(entry, Call)
            for name in entry.values(entry.writes)
        }
        return sum(self.plan.values[name].spec.nbytes for name in values & self.first.keys())

    def is_cheap(self, call: Call) -> bool:
        """Whether the operands of a call that could work in place live when backward reads y.

        An operand that is the result of another cheap call lives too, because that is recomputed
        first. Beside compiled calls, a call in NumPy is not cheap, because it runs on one core.
        """
        if self._any_compiled and call.compiled is None:
            return False
        values = self.plan.values
        y = call.arrays[call.writes[0]]
        if any(values[n].region is not Region.ARENA for n in call.values(call.writes)):
            return False
        at = self.first.get(y, -1)
        if at < 0 or y in self._read_later:
            return False
        before = self.before(call)
        calls = (call, *before)
        return all(map(_could_work_in_place, before)) and all(
            self._lives(root, at) or self._makers.get(root) in calls
            for each in calls
            for root in self._roots(each)
        )

    def before(self, call: Call) -> list[Call]:
        """Returns the normalizations whose results a call reads, and backward does not.

        They are repeated with the call, from the values that they normalize.
        """
        calls = []
        for root in self._roots(call):
            maker = self._makers.get(root)
            if maker is not None and root not in self.last and len(maker.writes) > 1:
                calls.append(maker)
        return calls

    def _roots(self, call: Call) -> list[str]:
        return [self.plan.root(name) for name in call.values(call.reads)]

    def _lives(self, root: str, at: int) -> bool:
        """Whether a value is there when entry `at` of backward runs, in any case."""
        return self.plan.values[root].region is Region.CONSTANT or self.last.get(root, -1) > at


def _is_worthwhile(plan: Plan, call: Call) -> bool:
    """Whether a call could work in place, and its first result is large."""
    y = next(iter(call.values(call.writes)), None)
    return y is not None and plan.nbytes[y] >= LEAST and _could_work_in_place(call)


def _could_work_in_place(call: Call) -> bool:
    aliased = {read for written, read in call.kernel.may_alias if written in call.writes}
    return bool(aliased & {*call.reads})
