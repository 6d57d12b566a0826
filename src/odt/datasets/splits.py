"""Divides the samples of a source into splits.

A source that has parts keeps them as splits. Otherwise, or if fractions are given, all samples are
divided: no sample is in two splits, and each split gets its fraction of every class to within one
sample. Windows of a series, which overlap, are divided in their order, and those that share rows
with the split before are left out.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from odt.core.data.split import spread_classes
from odt.dataclass import dataclass
from odt.datasets.source import EndOfSamplesError, Part, Sample, Source
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array

VALUE_SERIES = 4  # series for each split that stay whole if targets are values
TEST = 0.2  # fraction of the samples for a test split without a fraction


@dataclass(frozen=True, slots=True)
class RequestedSplit:
    """A requested split.

    Attributes:
        name: name of the split.
        length: number of samples; None for all.
        fraction: fraction of the data set; an int is a number of samples.
    """

    name: str
    length: int | None = None
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Division:
    """Options for dividing and ordering samples.

    Attributes:
        shuffle: whether to shuffle; None to shuffle divided samples and samples sorted by class.
        seed: seed of the shuffle.
        stratify: whether to divide each class separately; None if targets are classes without
            groups.
        group_by: a column, or a regular expression for file names; samples of a group stay in one
            split.
        fold: (k, n) for n-fold cross-validation: the last split is fold k of n, counted from 1, and
            the first split is all other folds.
    """

    shuffle: bool | None = None
    seed: int = 0
    stratify: bool | None = None
    group_by: str = ""
    fold: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class SplitSamples:
    """A split: a part and the numbers of its samples in order; None for all of a stream."""

    name: str
    part: Part
    numbers: Sequence[int] | None
    request: RequestedSplit


class Pool(Part):
    """Several parts concatenated into one."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)
        self.sequential = any(part.sequential for part in self._parts)
        lengths = [length_of(part) for part in self._parts]
        self._starts = np.cumsum([0, *lengths])
        self.length = int(self._starts[-1])
        labels = [part.labels for part in self._parts if part.labels is not None]
        self.labels = np.concatenate(labels) if len(labels) == len(self._parts) else None

    def _find(self, k: int) -> tuple[Part, int]:
        """Returns the part that holds sample k, and the number of the sample there."""
        n = int(np.searchsorted(self._starts, k, side="right")) - 1
        return self._parts[n], k - int(self._starts[n])

    def read(self, k: int) -> Sample:
        part, number = self._find(k)
        return part.read(number)

    def label_of(self, k: int) -> str:
        part, number = self._find(k)
        return part.label_of(number)

    def file_of(self, k: int) -> str:
        part, number = self._find(k)
        return part.file_of(number)

    def groups(self, rule: str) -> Sequence[str]:
        return [group for part in self._parts for group in part.groups(rule)]


def length_of(part: Part) -> int:
    """Returns the number of samples, which may require reading all of them."""
    if part.length is not None:
        return part.length
    k = 0
    while True:
        try:
            part.read(k)
        except EndOfSamplesError:
            return k
        k += 1


def select(
    source: Source, requests: Sequence[RequestedSplit], division: Division
) -> list[SplitSamples]:
    """Selects the samples of each split.

    Raises:
        OptionError: if the source cannot be split in this way.
    """
    names = [r.name for r in requests]
    if len(set(names)) < len(names):
        raise OptionError("split", "names must differ", ", ".join(names))
    if _cuts_from_training(source, requests):
        splits = _cut_from_training(source, requests, division)
    elif list(source.parts) == ["all"] or divides_again(source, requests, division):
        splits = _divide(source, requests, division)
    else:
        if division.stratify:
            raise OptionError(
                "stratify",
                f"{source.name} has splits of its own ({', '.join(source.parts)}), which stay as "
                "they are",
                remedy='Leave it out, or give fractions: `split="train=0.8 test=0.2"`.',
            )
        splits = [_take(source, request, division) for request in requests]
    return [_shorten(source, split) for split in splits]


def divides_again(source: Source, requests: Sequence[RequestedSplit], division: Division) -> bool:
    """Whether samples of a source that has splits of its own are joined and divided again."""
    if list(source.parts) == ["all"] or _cuts_from_training(source, requests):
        return False
    return bool(division.fold) or any(r.fraction is not None for r in requests)


def _cuts_from_training(source: Source, requests: Sequence[RequestedSplit]) -> bool:
    """Whether splits of a source are kept, and others with fractions are cut from its train."""
    splits = [r.name for r in requests if r.fraction is None and r.name in source.parts]
    new = [r for r in requests if r.fraction is not None and r.name not in source.parts]
    return bool(new) and "train" in splits and len(splits) + len(new) == len(requests)


def _take(source: Source, request: RequestedSplit, division: Division) -> SplitSamples:
    """Takes a part of the source as a split."""
    part = source.parts.get(request.name)
    if part is None:
        raise OptionError(
            "split",
            f"{source.name} has {', '.join(source.parts)}",
            request.name,
            'Give fractions to split it: `split="train=0.8 test=0.2"`.',
        )
    shuffle = source.sorted_by_class if division.shuffle is None else division.shuffle
    if part.sequential:
        if division.shuffle:
            raise OptionError(
                "shuffle",
                f"{source.name} can only be read in order",
                remedy="Shuffle the samples in the source.",
            )
        return SplitSamples(request.name, part, None, request)
    assert part.length is not None, "only sequential parts have no length"
    numbers: Sequence[int] = range(part.length)
    if shuffle:
        random = np.random.default_rng(division.seed)
        numbers = random.permutation(part.length).tolist()
    return SplitSamples(request.name, part, numbers, request)


def _cut_from_training(
    source: Source, requests: Sequence[RequestedSplit], division: Division
) -> list[SplitSamples]:
    """Keeps the parts of a source, and cuts splits with fractions, such as validation, from train.

    Fractions are those of the training part.
    """
    training = [r for r in requests if r.fraction is not None or r.name == "train"]
    alone = replace(source, parts={"all": source.parts["train"]}, series=())
    splits = {split.name: split for split in _divide(alone, training, division)}
    return [splits.get(r.name) or _take(source, r, division) for r in requests]


def _divide(
    source: Source, requests: Sequence[RequestedSplit], division: Division
) -> list[SplitSamples]:
    """Divides all samples: by series, in the order of time, by group, or by class."""
    pool = Pool(list(source.parts.values()))
    assert pool.length is not None, "a pool counts its samples"
    counts = _counts(source, requests, division, pool.length)
    in_order = bool(source.overlap) and division.shuffle is None and not division.group_by
    shuffle = division.shuffle is not False and not in_order
    random = np.random.default_rng(division.seed)
    if in_order and not division.fold and _has_recordings(source, pool, len(counts)):
        pieces = _by_recording(source, pool, np.asarray(counts) / pool.length, random)
    elif in_order and not division.fold:
        if division.stratify:
            raise OptionError(
                "stratify",
                f"windows of {source.name} overlap, so they are divided in the order of time",
                remedy="Leave it out, or give `shuffle=True`.",
            )
        pieces = _in_order(source, np.asarray(counts) / pool.length, pool.length)
    elif division.group_by:
        if division.stratify:
            raise OptionError(
                "stratify", "does not go together with `group_by=`", remedy="Leave one out."
            )
        pieces = _by_group(pool.groups(division.group_by), counts, random if shuffle else None)
    else:
        order = _order(pool, division, random if shuffle else None)
        if division.fold:  # rotated so that the last split is fold k
            k, n = division.fold
            order = np.roll(order, -round((k - 1) * pool.length / n))
            counts = counts[::-1]
        pieces = np.split(order, np.cumsum(counts))[: len(counts)]
        if division.fold:
            pieces = pieces[::-1]
    if pool.sequential or not shuffle:
        pieces = [np.sort(piece) for piece in pieces]
    else:
        pieces = [random.permutation(piece) for piece in pieces]
    return [
        SplitSamples(request.name, pool, piece.tolist(), request)
        for request, piece in zip(requests, pieces, strict=True)
    ]


def _has_recordings(source: Source, pool: Pool, splits: int) -> bool:
    """Whether each class has a series for each split, or values have several: series stay whole."""
    least = splits if pool.labels is not None else VALUE_SERIES * splits
    return all(len(series) >= least for series in _series_by_class(source, pool).values())


def _series_by_class(source: Source, pool: Pool) -> dict[int, list[Array]]:
    """Returns class → the samples of each of its series; one class if targets are values."""
    series: dict[int, list[Array]] = {}
    first = 0
    for length in source.series or (pool.length or 0,):
        label = 0 if pool.labels is None else int(pool.labels[first])
        series.setdefault(label, []).append(np.arange(first, first + length))
        first += length
    return series


def _by_recording(
    source: Source, pool: Pool, fractions: Array, random: np.random.Generator
) -> list[Array]:
    """Gives each whole series of a class to the split that lacks most samples of it.

    The last series of a class fill the splits that have none.
    """
    pieces: list[list[Array]] = [[] for _ in fractions]
    for series in _series_by_class(source, pool).values():
        shortfall = fractions * sum(map(len, series))
        empty = {*range(len(fractions))}
        for n, k in enumerate(random.permutation(len(series))):
            choices = [*empty] if len(series) - n <= len(empty) else [*range(len(fractions))]
            split = max(choices, key=lambda s: shortfall[s])
            empty.discard(split)
            shortfall[split] -= len(series[k])
            pieces[split].append(series[k])
    return [np.sort(np.concatenate(piece)) for piece in pieces]


def _in_order(source: Source, fractions: Array, total: int) -> list[Array]:
    """Divides each series in the order of time, without samples that share values with others."""
    ends = np.cumsum(fractions)
    pieces: list[list[Array]] = [[] for _ in fractions]
    first = 0
    for length in source.series or (total,):
        cuts = [0, *np.rint(ends * length).astype(int).tolist()]
        for k, piece in enumerate(pieces):
            begin = cuts[k] + (source.overlap if k else 0)
            piece.append(np.arange(first + begin, first + max(begin, cuts[k + 1])))
        first += length
    return [np.concatenate(piece) for piece in pieces]


def _counts(
    source: Source, requests: Sequence[RequestedSplit], division: Division, total: int
) -> list[int]:
    """Returns the number of samples of each split; a split without a fraction gets the rest."""
    if division.fold:
        k, n = division.fold
        if len(requests) != 2 or not 1 <= k <= n or not 2 <= n <= total:
            raise OptionError(
                "fold",
                f"must be K/N with 1 ≤ K ≤ N ≤ {total} samples and two splits",
                f"{k}/{n} and {len(requests)} splits",
            )
        test = round(k * total / n) - round((k - 1) * total / n)
        return [total - test, test]
    fractions = [r.fraction for r in requests]
    if all(s is None for s in fractions):
        if len(requests) == 1:
            return [total]
        if [r.name for r in requests] != ["train", "test"]:
            shown = " ".join(f"{r.name}=…" for r in requests)
            raise OptionError(
                "split",
                f"{source.name} has no splits of its own",
                remedy=f"Give fractions: {shown}.",
            )
        fractions = [None, TEST]
    counts = []
    sum_of_fractions = 0.0
    for fraction in fractions:
        if isinstance(fraction, int):  # a number of samples
            counts.append(fraction)
            continue
        # Boundaries are rounded, so that two halves of 7 samples have 7 samples.
        before = round(sum_of_fractions * total)
        sum_of_fractions += fraction or 0
        counts.append(round(sum_of_fractions * total) - before)
    rest = total - sum(counts)
    open_fractions = fractions.count(None)
    if rest < 0 or open_fractions > 1:
        raise OptionError(
            "split",
            f"the splits must fit into {total} samples, with at most one split without a number",
            ", ".join(f"{r.name}={c}" for r, c in zip(requests, counts, strict=True)),
        )
    return [
        rest if fraction is None else count
        for fraction, count in zip(fractions, counts, strict=True)
    ]


def _order(pool: Pool, division: Division, random: np.random.Generator | None) -> Array:
    """Returns all samples in an order that spreads each class evenly."""
    assert pool.length is not None, "a pool counts its samples"
    order = np.arange(pool.length) if random is None else random.permutation(pool.length)
    if division.stratify and pool.labels is None:
        raise OptionError("stratify", "needs classes, but the targets are values")
    if pool.labels is None or division.stratify is False:
        return order
    return spread_classes(pool.labels, order)


def _by_group(
    groups: Sequence[str], counts: Sequence[int], random: np.random.Generator | None
) -> list[Array]:
    """Assigns whole groups to splits, each to the split that lacks most samples."""
    names, group_of = np.unique(np.asarray(groups), return_inverse=True)
    sizes = np.bincount(group_of)
    order = np.arange(len(names)) if random is None else random.permutation(len(names))
    shortfall = np.array(counts, np.float64)
    split_of = np.empty(len(names), np.int64)
    empty = {k for k, count in enumerate(counts) if count}
    for n, group in enumerate(order):
        # The last groups fill the splits that have none.
        choices = [*empty] if len(order) - n <= len(empty) else [*range(len(counts))]
        split = max(choices, key=lambda k: shortfall[k])
        empty.discard(split)
        split_of[group] = split
        shortfall[split] -= sizes[group]
    splits = split_of[group_of]
    pieces = [np.flatnonzero(splits == s) for s in range(len(counts))]
    for piece, count in zip(pieces, counts, strict=True):
        if count and not len(piece):
            raise OptionError(
                "group_by",
                f"the {len(names)} groups must be enough for {len(counts)} splits",
                "none for one of them",
            )
    return pieces


def _shorten(source: Source, split: SplitSamples) -> SplitSamples:
    """Returns a split with the requested number of samples."""
    length = split.request.length
    numbers = split.numbers
    if numbers is None or length is None:
        return split
    if length > len(numbers):
        raise OptionError(
            "length", f"{split.name} of {source.name} has {len(numbers)} samples", length
        )
    return replace(split, numbers=numbers[:length])
