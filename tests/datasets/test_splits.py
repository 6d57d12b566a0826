"""Which samples come to which split."""

from collections.abc import Sequence

import numpy as np
import pytest

from odt.datasets.source import ArrayPart, Part, Source
from odt.datasets.splits import Division, RequestedSplit, select
from odt.errors import OdtError, OptionError
from odt.kernels.rows.opdef import Array

TWO = (RequestedSplit("train"), RequestedSplit("test", fraction=0.2))


class GroupedPart(ArrayPart):
    def groups(self, rule: str) -> Sequence[str]:
        return [f"person {k % 7}" for k in range(len(self.inputs[0]))]


def source(labels: Array, **parts: int) -> Source:
    """Samples that are their own numbers; in one part, or in parts of the lengths given."""
    numbers = np.arange(len(labels))
    if not parts:
        part: Part = GroupedPart([numbers], [labels], True)
        return Source("s", "features", {"all": part}, ("a", "b", "c"))
    made: dict[str, Part] = {}
    at = 0
    for name, n in parts.items():
        made[name] = ArrayPart([numbers[at : at + n]], [labels[at : at + n]], True)
        at += n
    return Source("s", "features", made, ("a", "b", "c"))


def chosen(
    s: Source, requests: Sequence[RequestedSplit], division: Division | None = None
) -> list[list[int]]:
    """For each split the samples, by their own numbers."""
    picked = select(s, requests, division or Division())
    return [[int(p.part.read(k).inputs[0]) for k in p.numbers or ()] for p in picked]


def random_labels(n: int, seed: int) -> Array:
    return np.random.default_rng(seed).choice(3, n, p=[0.7, 0.2, 0.1])


@pytest.mark.parametrize("seed", range(20))
def test_no_sample_is_in_two_splits_and_each_class_is_shared_out(seed: int) -> None:
    labels = random_labels(50 + 13 * seed, seed)
    requests = (
        RequestedSplit("a", fraction=0.5),
        RequestedSplit("b", fraction=0.3),
        RequestedSplit("c"),
    )
    splits = chosen(source(labels), requests, Division(seed=seed))
    assert sorted(k for split in splits for k in split) == list(range(len(labels)))
    for split, share in zip(splits, (0.5, 0.3, 0.2), strict=True):
        assert abs(len(split) - share * len(labels)) <= 1
        for c in range(3):
            of_class = sum(labels == c)
            assert abs(sum(labels[k] == c for k in split) - share * of_class) <= 2


def test_a_seed_repeats_and_another_differs() -> None:
    s = source(random_labels(100, 0))
    first = chosen(s, TWO, Division(seed=1))
    assert chosen(s, TWO, Division(seed=1)) == first
    assert chosen(s, TWO, Division(seed=2)) != first


def test_counts_are_exact() -> None:
    s = source(random_labels(100, 0))
    requests = (RequestedSplit("train", fraction=31), RequestedSplit("test", fraction=17))
    splits = chosen(s, requests)
    assert [len(split) for split in splits] == [31, 17]


def test_fractions_of_an_odd_number_fit() -> None:
    s = source(random_labels(7, 0))
    splits = chosen(s, (RequestedSplit("a", fraction=0.5), RequestedSplit("b", fraction=0.5)))
    assert sorted(len(split) for split in splits) == [3, 4]


def test_without_shuffle_and_stratify_the_file_is_cut_as_it_is() -> None:
    s = source(random_labels(10, 0))
    splits = chosen(s, TWO, Division(shuffle=False, stratify=False))
    assert splits == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("n", [2, 3, 5])
def test_folds_are_a_partition(n: int) -> None:
    s = source(random_labels(47, 0))
    tests = []
    for k in range(1, n + 1):
        train, test = chosen(
            s, (RequestedSplit("train"), RequestedSplit("test")), Division(fold=(k, n))
        )
        assert sorted(train + test) == list(range(47))
        tests += test
    assert sorted(tests) == list(range(47))


def test_a_group_is_in_one_split() -> None:
    s = source(random_labels(70, 0))
    train, test = chosen(s, TWO, Division(group_by="person"))
    assert not {k % 7 for k in train} & {k % 7 for k in test}
    assert len(train) + len(test) == 70
    assert 10 <= len(test) <= 20


def test_parts_are_kept_in_file_order_unless_asked() -> None:
    s = source(random_labels(30, 0), train=20, test=10)
    requests = (RequestedSplit("train"), RequestedSplit("test", length=3))
    assert chosen(s, requests) == [list(range(20)), [20, 21, 22]]
    train, _ = chosen(s, requests, Division(shuffle=True))
    assert sorted(train) == list(range(20)) != train


def test_shares_divide_all_parts_together() -> None:
    s = source(random_labels(30, 0), train=20, test=10)
    splits = chosen(s, TWO)
    assert sorted(k for split in splits for k in split) == list(range(30))


@pytest.mark.parametrize(
    ("requests", "division", "words"),
    [
        ((RequestedSplit("a"), RequestedSplit("a")), Division(), "names must differ"),
        (
            (RequestedSplit("a", fraction=0.9), RequestedSplit("b", fraction=0.2)),
            Division(),
            "fit into 30",
        ),
        (
            (RequestedSplit("a", fraction=20), RequestedSplit("b", fraction=20)),
            Division(),
            "a=20, b=20",
        ),
        (
            (RequestedSplit("a"), RequestedSplit("b"), RequestedSplit("c", fraction=1)),
            Division(),
            "one split without a number",
        ),
        ((RequestedSplit("a"), RequestedSplit("b")), Division(fold=(6, 5)), "but got 6/5"),
        ((RequestedSplit("a"),), Division(fold=(1, 5)), "1 splits"),
        ((RequestedSplit("a"), RequestedSplit("b")), Division(), "has no splits of its own"),
        (TWO, Division(group_by="person", stratify=True), "does not go together"),
        (
            (RequestedSplit("train", length=29), RequestedSplit("test", fraction=0.2)),
            Division(),
            "24 samples",
        ),
    ],
)
def test_contradictions_are_refused(
    requests: tuple[RequestedSplit, ...], division: Division, words: str
) -> None:
    with pytest.raises(OdtError, match=words):
        select(source(random_labels(30, 0)), requests, division)


def test_data_without_classes_cannot_be_stratified() -> None:
    part = ArrayPart([np.arange(9)], [np.linspace(0, 1, 9)], False)
    s = Source("s", "features", {"all": part})
    with pytest.raises(OptionError, match="needs classes"):
        select(s, TWO, Division(stratify=True))
    assert [len(p.numbers or ()) for p in select(s, TWO, Division())] == [7, 2]


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(OptionError, match="has train, test, but got dev"):
        select(source(random_labels(9, 0), train=5, test=4), (RequestedSplit("dev"),), Division())
