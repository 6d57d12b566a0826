"""Partitions: every sample goes to one client, and how uneven the classes are."""

import numpy as np
import pytest

import odt
from odt.core.data.array_columns import array_columns
from odt.core.data.dataset import DataSet
from odt.core.model.record import Record
from odt.federated.partitions import partition
from odt.federated.update import Array
from odt.kernels.rows.opdef import TensorSpec

SAMPLES, CLIENTS = 1000, 10
LABELS = np.random.default_rng(0).integers(0, 10, SAMPLES)
TABLE = Record(
    "features",
    table={
        "columns": [
            {"name": "age", "role": "input"},
            {"name": "island", "role": "input", "words": ["a", "b", "c"]},
        ],
        "inputs": ["age", "island"],
    },
)


def data(x: Array | None = None) -> DataSet:
    x = np.zeros((SAMPLES, 2), np.float32) if x is None else x
    return DataSet(array_columns([x], [TensorSpec(x.shape[1:], x.dtype)], "x"))


def classes(parts: list[Array]) -> list[int]:
    return [len(np.unique(LABELS[part])) for part in parts]


def check(parts: list[Array], clients: int = CLIENTS) -> None:
    assert len(parts) == clients
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(SAMPLES))
    assert all((np.diff(part) > 0).all() for part in parts)


def test_iid_parts_are_equal_and_have_all_classes() -> None:
    parts = partition("iid", data(), None, CLIENTS, 1)
    check(parts)
    assert {len(p) for p in parts} == {100}
    assert min(classes(parts)) == 10
    again, other = (partition("iid", data(), None, CLIENTS, seed) for seed in (1, 2))
    np.testing.assert_array_equal(parts[3], again[3])
    assert (parts[3] != other[3]).any()


def test_dirichlet_parts_are_the_more_uneven_the_smaller_alpha_is() -> None:
    def unevenness(alpha: str) -> float:
        parts = partition(f"dirichlet:{alpha}", data(), LABELS, CLIENTS, 0)
        check(parts)
        assert min(map(len, parts)) >= 10
        counts = np.array([np.bincount(LABELS[p], minlength=10) for p in parts])
        shares = counts / counts.sum(axis=0)
        return float(shares.var())  # of Dir(α): (1/K) (1 − 1/K) / (K α + 1)

    unevenness("0.05")  # most draws leave a client with fewer than 10 samples
    assert unevenness("0.3") == pytest.approx(0.09 / 4, rel=0.4)
    assert unevenness("100") < 0.001


def test_by_label_gives_shards_of_sorted_classes() -> None:
    parts = partition("by-label", data(), LABELS, CLIENTS, 0)
    check(parts)
    assert max(classes(parts)) <= 4  # two shards, each within two classes
    single = partition("by-label:1", data(), LABELS, CLIENTS, 0)
    assert max(classes(single)) <= 3


@pytest.mark.parametrize("kind", ["dirichlet:1", "by-label"])
def test_samples_of_a_class_and_shards_are_dealt_at_random(kind: str) -> None:
    parts = partition(kind, data(), LABELS, CLIENTS, 0)
    clients = np.empty(SAMPLES, int)
    for k, part in enumerate(parts):
        clients[part] = k
    assert np.count_nonzero(np.diff(clients[LABELS == 0])) > 10
    means = [LABELS[part].mean() for part in parts]
    assert means != sorted(means)


def test_by_column_gives_a_value_or_a_range_each() -> None:
    rng = np.random.default_rng(2)
    island = rng.integers(0, 3, SAMPLES)
    x = np.c_[rng.normal(size=SAMPLES), np.eye(3)[island]].astype(np.float32)
    parts = partition("by-column:island", data(x), None, 3, 0, TABLE)
    check(parts, 3)
    for k, part in enumerate(parts):
        np.testing.assert_array_equal(part, np.flatnonzero(island == k))
    for name in (":age", ":0", ""):
        ranges = partition(f"by-column{name}", data(x), None, 4, 0, TABLE)
        check(ranges, 4)
        tops = [x[p, 0].max() for p in ranges]
        assert tops == sorted(tops)
        assert all(x[p, 0].min() > top for p, top in zip(ranges[1:], tops, strict=False))


def test_an_array_says_which_client_has_a_sample() -> None:
    clients = np.arange(SAMPLES) % 3
    parts = partition(clients, data(), None, 3, 0)
    check(parts, 3)
    np.testing.assert_array_equal(parts[1], np.arange(1, SAMPLES, 3))


@pytest.mark.parametrize(
    ("kind", "clients", "message"),
    [
        ("random", 10, "must be `iid`, `dirichlet:ALPHA`, `by-label` or `by-column:NAME`"),
        ("iid:3", 10, "must be `iid`"),
        ("dirichlet", 10, "must be `dirichlet:ALPHA` with a number from 0.001 .*, but got none"),
        ("dirichlet:-1", 10, "must be `dirichlet:ALPHA` with a number from 0.001 .*, but got -1"),
        ("dirichlet:1e9", 10, "must be `dirichlet:ALPHA` with .* to 1,000,000, but got 1e9"),
        ("by-label:0", 10, "must be `by-label:SHARDS` with a number from 1 to .*, but got 0"),
        ("by-label:1.7", 10, "must be `by-label:SHARDS` with a whole number, but got 1.7"),
        ("by-column:weight", 10, "must name one of the columns age, island, but got weight"),
        ("by-column:2", 10, "must name one of the columns age, island, but got 2"),
        ("by-column:island", 10, "must name .*, but got island"),  # the inputs are another table's
        ("iid", 2000, "must give every client a sample, but got none for client"),
        (np.full(SAMPLES, 3), 3, "must have a client's number from 0 to 2 for each of 1000"),
        (np.zeros(5, int), 3, ".* for each of 1000 samples"),
        ([[0], [1, 2]], 3, ".* for each of 1000 samples, but got rows of different lengths"),
    ],
)
def test_wrong_partitions_are_refused(kind: str | Array, clients: int, message: str) -> None:
    with pytest.raises(odt.OptionError, match=f"`partition=`: {message}"):
        partition(kind, data(), LABELS, clients, 0, TABLE)


def test_classes_are_needed_for_partitions_by_class() -> None:
    with pytest.raises(odt.OptionError, match="`dirichlet` needs targets that are classes"):
        partition("dirichlet:1", data(), None, CLIENTS, 0)
