"""Partitions: how the samples of a data set are divided among simulated clients.

| text | clients get |
| --- | --- |
| iid | samples at random, in equal numbers |
| dirichlet:α | for each class k, fractions ~ Dir(α, …, α) of its samples; small α: few classes |
| by-label:S | S of the clients · S shards of the samples sorted by class; S is 2 if left out |
| by-column:NAME | one value of a column of a table each, or equal ranges of the sorted values; |
| | the first column if NAME is left out |

Sources: dirichlet: Hsu et al., Measuring the Effects of Non-Identical Data Distribution (2019);
by-label: McMahan et al., Communication-Efficient Learning of Deep Networks (2017).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.core.data.dataset import DataSet
from odt.core.model.record import Record
from odt.core.storage.reading import whole_number
from odt.errors import OptionError
from odt.federated.update import Array

KINDS = ("iid", "dirichlet", "by-label", "by-column")
DIVISION = 2**31  # in place of a client's number in the seed
FEWEST = 10  # samples of a client that a Dirichlet partition has, if there are enough
DRAWS = 1000  # of a Dirichlet partition, until every client has enough samples
MOST = 1e6  # of α and of shards: more make no difference, and would take memory


def partition(
    kind: str | Sequence[int] | Array,
    data: DataSet,
    labels: Array | None,
    clients: int,
    seed: int,
    record: Record | None = None,
) -> list[Array]:
    """Divides samples among clients.

    Args:
        kind: text as in the table of this module; or the number of the client of each sample (N,).
        data: the samples.
        labels: class of each sample; None if the targets are not classes.
        clients: number of clients.
        seed: random seed.
        record: preprocessing record of a table, which has the names of its columns.

    Returns:
        The numbers of the samples of each client, in ascending order.

    Raises:
        OptionError: if there is no such kind, its value is invalid, or a client gets no sample.
    """
    if not isinstance(kind, str):
        parts = _by_list(kind, data.length, clients)
    else:
        rng = np.random.default_rng((seed, 0, DIVISION))
        parts = _by_text(kind, data, labels, clients, rng, record)
    for k, part in enumerate(parts):
        if not len(part):
            raise OptionError(
                "partition",
                "must give every client a sample",
                f"none for client {k} of {clients}",
                "Give fewer clients.",
            )
    return [np.sort(part) for part in parts]


def _by_text(
    text: str,
    data: DataSet,
    labels: Array | None,
    clients: int,
    rng: np.random.Generator,
    record: Record | None,
) -> list[Array]:
    """Divides samples as a text in the table of this module says."""
    kind, _, value = text.strip().replace("_", "-").partition(":")
    if kind == "iid" and not value:
        return np.array_split(rng.permutation(data.length), clients)
    if kind == "by-column":
        return _by_value(column_of(data, text.partition(":")[2].strip(), record), clients, rng)
    if kind not in ("dirichlet", "by-label"):
        raise OptionError(
            "partition", "must be `iid`, `dirichlet:ALPHA`, `by-label` or `by-column:NAME`", text
        )
    if labels is None:
        raise OptionError("partition", f"`{kind}` needs targets that are classes", "other targets")
    if kind == "dirichlet":
        return _dirichlet(labels, _number(value, "dirichlet:ALPHA", 1e-3), clients, rng)
    shards = _number(value or "2", "by-label:SHARDS", 1)
    if shards % 1:
        raise OptionError("partition", "must be `by-label:SHARDS` with a whole number", value)
    return _shards(labels, int(shards), clients, rng)


def _number(text: str, form: str, least: float) -> float:
    """Parses the number of a partition; raises OptionError if it is out of range."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= MOST:
        rule = f"must be `{form}` with a number from {least:g} to {MOST:,.0f}"
        raise OptionError("partition", rule, text or "none")
    return value


def _by_list(kind: Sequence[int] | Array, samples: int, clients: int) -> list[Array]:
    """Divides samples by the number of each sample's client."""
    rule = f"must have a client's number from 0 to {clients - 1} for each of {samples} samples"
    try:
        numbers = np.asarray(kind)
    except ValueError as e:  # rows of different lengths
        raise OptionError("partition", rule, "rows of different lengths") from e
    if numbers.dtype.kind not in "iu" or numbers.shape != (samples,):
        raise OptionError("partition", rule, f"{numbers.shape} {numbers.dtype}")
    if numbers.min() < 0 or numbers.max() >= clients:
        raise OptionError("partition", rule, f"{numbers.min()} to {numbers.max()}")
    return [np.flatnonzero(numbers == k) for k in range(clients)]


def _dirichlet(labels: Array, alpha: float, clients: int, rng: np.random.Generator) -> list[Array]:
    """Draws until every client has FEWEST samples, or half of the mean number if that is less."""
    fewest = max(1, min(FEWEST, len(labels) // (2 * clients)))
    for _ in range(DRAWS):
        parts: list[list[Array]] = [[] for _ in range(clients)]
        for label in np.unique(labels):
            samples = rng.permutation(np.flatnonzero(labels == label))
            ends = np.cumsum(rng.dirichlet(np.full(clients, alpha))) * len(samples)
            pieces = np.split(samples, ends[:-1].round().astype(int))
            for part, piece in zip(parts, pieces, strict=True):
                part.append(piece)
        whole_parts = [np.concatenate(part) for part in parts]
        if min(map(len, whole_parts)) >= fewest:
            return whole_parts
    raise OptionError(
        "partition",
        f"must give every client {fewest} samples",
        f"dirichlet:{alpha:g} for {clients} clients and {len(labels)} samples",
        "Give a larger value or fewer clients.",
    )


def _shards(labels: Array, shards: int, clients: int, rng: np.random.Generator) -> list[Array]:
    """Sorts the samples by class, cuts them into shards, and deals these to the clients."""
    order = rng.permutation(len(labels))  # samples of a class stay in random order
    order = order[np.argsort(labels[order], kind="stable")]
    parts = np.array_split(order, clients * shards)
    hands = rng.permutation(len(parts)).reshape(clients, shards)
    return [np.concatenate([parts[k] for k in hand]) for hand in hands]


def _by_value(values: Array, clients: int, rng: np.random.Generator) -> list[Array]:
    """Gives each client one value, or equal ranges of the sorted values if there are more."""
    distinct = np.unique(values)
    if len(distinct) == clients:
        return [np.flatnonzero(values == v) for v in distinct]
    order = rng.permutation(len(values))
    return np.array_split(order[np.argsort(values[order], kind="stable")], clients)


def column_of(data: DataSet, name: str, record: Record | None) -> Array:
    """Returns a column of the inputs: a number for each sample, or the number of its word.

    Args:
        data: the samples; their first input has the columns.
        name: name of a column of the table, or its number among the values of a sample; empty for
            the first column.
        record: preprocessing record of a table.

    Raises:
        OptionError: if there is no such column.
    """
    columns = columns_of(record)
    size = data.inputs[0].spec.size
    name = name or next(iter(columns), "0")
    number = whole_number(name)
    if number is not None and number < size:
        first, count = number, 1
    elif name in columns and sum(columns.values()) == size:
        names = list(columns)
        first, count = sum(columns[n] for n in names[: names.index(name)]), columns[name]
    else:
        choices = ", ".join(columns) or f"0 to {size - 1}"
        raise OptionError("partition", f"must name one of the columns {choices}", name)
    values = np.empty(data.length, np.float64)
    for start, rows in data.inputs[0].blocks():
        cells = rows[:, first : first + count]
        numbers = cells[:, 0] if count == 1 else cells.argmax(axis=1)
        values[start : start + len(cells)] = numbers
    return values


def columns_of(record: Record | None) -> dict[str, int]:
    """Returns the columns of a table's inputs by name, with their number of values each.

    Args:
        record: preprocessing record; None for no table.
    """
    table: Any = record.table if record is not None else {}
    words = {c["name"]: len(c.get("words", ())) for c in table.get("columns", ())}
    return {name: words.get(name) or 1 for name in table.get("inputs", ())}
