"""Chooses activations to recompute: as few as a number of bytes asks for, at low cost."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, MutableMapping, MutableSequence, Sequence
from math import ceil

import numpy as np

from odt.core.planning.plan import Plan
from odt.core.planning.rewrites.recompute import TouchedValues
from odt.kernels.rows.opdef import Array

# Fraction of the candidates that the search drops at once: to drop those of large models one by one
# would take hundreds of evaluations of the whole plan.
STEP = 1 / 128


def choose_dropped(
    plan: Plan, targets: Sequence[int], call_nbytes: int = 0
) -> Iterator[frozenset[str]]:
    """Chooses values to drop, so that at most `target` bytes are alive at once, at low cost.

    Repeatedly drops the values that free the most bytes at the peak per second of recomputation,
    until the peak fits or nothing helps. Then values that need not have been dropped are saved
    again.

    Args:
        plan: plan of a training step.
        targets: falling numbers of bytes; there is a choice for each, up to the first one that
            cannot be reached.
        call_nbytes: bytes that each repeated call takes beside its values.
    """
    search = _Search(plan, call_nbytes)
    for target in targets:
        search.drop_until(target)
        yield search.needed(target)
        if search.most > target:
            break


class _Search:
    """The search for values to drop; what it drops does not depend on the target, only how many."""

    def __init__(self, plan: Plan, call_nbytes: int) -> None:
        self._values = TouchedValues(plan)
        self._call_nbytes = call_nbytes
        self._rates = self._values.bytes_per_second()
        self._useless: set[int] = set()
        self._dropped: set[int] = set()
        self._replay = self._without(self._dropped)

    @property
    def most(self) -> int:
        """Most bytes alive at once, with those of repeated calls."""
        return self._replay.most

    def _without(self, dropped: Collection[int]) -> "Replay":
        return Replay(self._values, {self._values.maker[v] for v in dropped}, self._call_nbytes)

    def drop_until(self, target: int) -> None:
        """Drops values until at most `target` bytes are alive at once, or nothing helps."""
        most = len(self._rates)  # values to drop at once
        while self.most > target:
            values = self._best_at_peak()[:most]
            if not values:
                break
            replay = self._without(self._dropped.union(values))
            if replay.most_alive <= self._replay.most_alive:
                self._dropped.update(values)
                self._replay = replay
                most = len(self._rates)
            elif len(values) > 1:
                most = len(values) // 2
            else:
                self._useless.update(values)

    def _best_at_peak(self) -> list[int]:
        """Returns the candidates that free the most bytes per second of recomputation."""
        found = self._replay.saved_only_for_later() - self._useless - self._dropped
        candidates = [v for v in self._rates if v in found]
        return candidates[: ceil(STEP * len(candidates))]

    def needed(self, target: int) -> frozenset[str]:
        """Returns the dropped values without those that can be saved again."""
        limit = max(self.most, target)
        needed, replay, names = set(self._dropped), self._replay, self._values.names
        for v in sorted(self._dropped, key=lambda v: (self._rates[v], names[v])):
            if replay.least_with(v) <= limit:
                saved = self._without(needed - {v})
                if saved.most <= limit:
                    needed.remove(v)
                    replay = saved
        return frozenset(names[v] for v in needed)


class Replay:
    """The entries of a plan and repeated calls, and the bytes that are alive at each of them.

    Places are entries in the order with repeated calls.

    Attributes:
        most_alive: most bytes alive at once.
        most: these, and the bytes of repeated calls.
    """

    def __init__(
        self, values: TouchedValues, dropped: Collection[int], call_nbytes: int = 0
    ) -> None:
        """Finds the lifetimes of all values, and of the copies that repeated calls write.

        Args:
            values: values of the plan.
            dropped: calls whose results are dropped.
            call_nbytes: bytes that each repeated call takes beside its values.
        """
        self._values = values
        self._repeats = values.repeats(dropped)
        before = [repeat.before for repeat in self._repeats]
        self._repeated_at = [k + n for n, k in enumerate(before)]
        entries = np.arange(len(values.plan.entries))
        self._places_of = entries + np.searchsorted(before, entries, side="right")
        self._places = self._places_of.tolist()
        self._end = len(entries) + len(before)
        self._last = self._places_of[values.lasts].tolist()
        self._copied: dict[int, int] = {}  # value → place at which its copy is written
        self._last_of_copy: dict[int, int] = {}
        self._end_originals()
        self._extend_lives()
        self._alive = self._bytes_alive()
        self._at = int(self._alive.argmax())
        self.most_alive = int(self._alive[self._at])
        self._call_nbytes = call_nbytes
        self.most = self.most_alive + call_nbytes * len(before)

    def _end_originals(self) -> None:
        """Ends the lives of repeated values before the entries that read their copies."""
        values, places = self._values, self._places
        for place, (k, c) in zip(self._repeated_at, self._repeats, strict=True):
            for v in values.writes[c]:
                readers = values.readers[v]
                n = bisect_left(readers, k)
                self._last[v] = places[readers[n - 1]] if n else c
                self._copied[v] = place
                self._last_of_copy[v] = places[readers[-1]] if n < len(readers) else place

    def _extend_lives(self) -> None:
        """Keeps what repeated calls read, and what is read after the forward phase and the step."""
        values = self._values
        for place, (_, c) in zip(self._repeated_at, self._repeats, strict=True):
            for v in values.reads[c]:
                lasts = self._lasts(v, place)
                lasts[v] = max(lasts[v], place)
        for v in values.of(values.plan.losses):
            self._last[v] = self._end - 1
        for v in values.of(values.plan.read_after_forward):
            self._last[v] = max(self._last[v], values.forward)

    def _lasts(self, v: int, place: int) -> MutableSequence[int] | MutableMapping[int, int]:
        """Returns where the last place of a value is, or of its copy if it is read at a place."""
        return self._last_of_copy if self._copied.get(v, place) < place else self._last

    def _bytes_alive(self) -> Array:
        """Returns the bytes at each place; a value that another one overlays counts no more."""
        values, end = self._values, self._end
        copied = np.array([*self._copied], np.intp)
        copied_at = np.full(len(self._last), end)
        copied_at[copied] = [*self._copied.values()]
        last = np.array(self._last)
        last_of_copy = last.copy()
        last_of_copy[copied] = [self._last_of_copy[v] for v in self._copied]
        sizes = np.concatenate((values.nbytes, values.nbytes[copied]))
        first = np.concatenate((self._places_of[values.begins], copied_at[copied]))
        ends = np.concatenate((last, last_of_copy[copied])) + 1
        alive = np.cumsum(np.bincount(first, sizes, end) - np.bincount(ends, sizes, end + 1)[:end])
        at, written, read = self._overlays()
        in_place = np.where(copied_at[read] < at, last_of_copy[read], last[read]) == at
        return alive - np.bincount(at[in_place], values.nbytes[written[in_place]], end)

    def _overlays(self) -> Array:
        """Returns places, and results and operands there of which one may overlay the other."""
        values = self._values
        entries, *pairs = values.overlay_pairs
        again = [
            (place, *pair)
            for place, (_, c) in zip(self._repeated_at, self._repeats, strict=True)
            for pair in values.overlays.get(c, ())
        ]
        usual = np.array((self._places_of[entries], *pairs))
        return np.hstack((usual, np.array(again, np.intp).reshape(-1, 3).T))

    def saved_only_for_later(self) -> set[int]:
        """Returns values that are saved at the peak only for a later entry.

        To drop others would not help there: the entry at the peak touches them, a later forward
        call needs them, or an earlier backward call has read them already.
        """
        values, at = self._values, self._at
        n = bisect_left(self._repeated_at, at)  # repeated calls before it
        if n < len(self._repeats) and self._repeated_at[n] == at:
            following, entry = self._repeats[n]
        else:
            following = entry = at - n
        touched = {*values.reads[entry], *values.writes[entry]}
        found: set[int] = set()
        for v, later in values.first_later.items():
            readers = values.readers[v]
            n = bisect_left(readers, values.forward)
            last = readers[n - 1] if n else values.maker[v]  # of the forward phase
            if last < following <= later and v not in touched:
                found.add(v)
        return found

    def least_with(self, v: int) -> int:
        """Returns what `most` would be, or fewer bytes, if a dropped value were saved.

        It would be alive from its last use to the place where it is recomputed; what is kept only
        to recompute it would not.
        """
        values, again = self._values, self._copied[v]
        following = self._repeats[bisect_left(self._repeated_at, again)].before
        begin = self._places[following - 1] + 1  # of the calls that are repeated together
        between = self._alive[self._last[v] + 1 : begin]
        kept = set[int]()
        calls = pending = {values.maker[v]}  # it, and those whose results are only for it
        while pending:
            operands = {operand for c in pending for operand in values.reads[c]}
            together = {n for n in operands if begin <= self._copied.get(n, again) < again}
            pending = {values.maker[n] for n in together} - calls
            calls = calls | pending
            for operand in operands - together:
                lasts = self._lasts(operand, again)
                if begin <= lasts[operand] <= again:
                    kept.add(operand)
        alive = int(between.max(initial=0)) + values.sizes[v] - sum(values.sizes[r] for r in kept)
        return alive + self._call_nbytes * (len(self._repeats) - len(calls))
