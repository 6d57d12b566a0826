"""History of a federation: what happened in each round, and its files."""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from odt.arguments import checked_arguments
from odt.core.storage.reading import unwritable
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError
from odt.federated.update import Tensors
from odt.text import quantity

if TYPE_CHECKING:
    from odt.charts.plot import Plot


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a round.

    Attributes:
        round: number of the round, from 1; 0 is the model before training.
        sampled: number of clients that were sent the tensors.
        trained: number of clients whose updates were used; the others dropped out or were refused.
        refused: one line for each update that was refused.
        samples: number of samples in the updates that were used.
        bytes_up: bytes of the arrays that the clients sent.
        bytes_down: bytes of the arrays that the clients were sent.
        metrics: loss and metrics of the clients' training, as means weighted by samples. Names with
            the prefix val_ are values on the validation data. Names with the prefix client_ are
            means over the clients' own held-back samples; client_min_ marks the lowest metric of a
            client, and client_max_loss is the highest loss.
    """

    round: int
    sampled: int
    trained: int
    refused: tuple[str, ...]
    samples: int
    bytes_up: int
    bytes_down: int
    metrics: Mapping[str, float]

    def row(self) -> dict[str, Any]:
        """Returns the result as one flat row: counts, then metrics."""
        row = asdict(self)
        metrics = row.pop("metrics")
        return {**row, "refused": len(self.refused), **metrics}


@dataclass(frozen=True, slots=True)
class History:
    """The result of a federation.

    Attributes:
        rounds: results by round; the first is round 0, the model before training.
        tensors: what was trained, by name; the trainer holds the same values.
        clients: number of samples of each client.
    """

    rounds: tuple[Round, ...]
    tensors: Tensors
    clients: tuple[int, ...]

    @checked_arguments
    def of(self, name: str) -> list[float]:
        """Returns the values of a metric by round, without rounds that have none.

        Args:
            name: name of the metric, such as val_accuracy.
        """
        return [r.metrics[name] for r in self.rounds if name in r.metrics]

    @checked_arguments
    def plot(self, *names: str) -> "Plot":
        """Returns the plot of loss and metrics over the rounds, which a notebook shows.

        Args:
            *names: names of metrics, such as "val_accuracy"; all if left out.

        Raises:
            OptionError: if no round has a metric of a name.
        """
        from odt.training import history_html

        return history_html.plot(self._points, names, "round")

    def __repr__(self) -> str:
        rounds, clients = quantity(len(self.rounds), "round"), quantity(len(self.clients), "client")
        return f"History({rounds}, {clients})"

    def _repr_html_(self) -> str:
        from odt.training import history_html

        return history_html.html(self._points, "round")

    @property
    def _points(self) -> dict[str, list[tuple[float, float]]]:
        """Points (round, value) by name."""
        points: dict[str, list[tuple[float, float]]] = {}
        for result in self.rounds:
            for name, value in result.metrics.items():
                points.setdefault(name, []).append((float(result.round), value))
        return points


def write_log(rounds: Sequence[Round], path: str | os.PathLike[str]) -> None:
    """Writes results by round: a CSV file, or JSON lines if the name ends in .jsonl.

    Args:
        rounds: the results.
        path: path of the file, which is replaced.

    Raises:
        OptionError: if the name ends in neither .csv nor .jsonl.
        DataError: if the file cannot be written.
    """
    rows = [r.row() for r in rounds]
    if check_log(path) == ".jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        names = list(dict.fromkeys(name for row in rows for name in row))
        out = io.StringIO()
        writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = out.getvalue()
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as e:
        raise DataError(unwritable(os.fspath(path), e)) from e


def check_log(path: str | os.PathLike[str]) -> str:
    """Returns the extension of a log, .csv or .jsonl.

    Args:
        path: path of the file.

    Raises:
        OptionError: for another extension.
    """
    kind = os.path.splitext(os.fspath(path))[1].lower()
    if kind not in (".csv", ".jsonl"):
        raise OptionError("log", "must end in .csv or .jsonl", os.fspath(path))
    return kind


def to_json(rounds: Sequence[Round]) -> str:
    """Returns the rounds as JSON, for a checkpoint.

    Args:
        rounds: the results.
    """
    return json.dumps([asdict(r) for r in rounds], ensure_ascii=False)


def from_json(text: str) -> tuple[Round, ...]:
    """Reads the rounds of a checkpoint.

    Args:
        text: result of `to_json`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: if the text is something else.
    """
    rounds = []
    names = [field.name for field in fields(Round) if field.name not in ("refused", "metrics")]
    for value in json.loads(text):
        counts = [value[name] for name in names]
        if not all(type(n) is int and 0 <= n < 2**63 for n in counts):
            raise TypeError("counts must be whole numbers")
        metrics = {str(n): float(v) for n, v in value["metrics"].items()}
        refused = tuple(str(line) for line in value["refused"])
        rounds.append(Round(**{**value, "refused": refused, "metrics": metrics}))
    return tuple(rounds)
