"""State of a federation after a round, in a file: a stopped server resumes from it."""

import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from odt.core.storage.atomic_files import AtomicFile
from odt.core.storage.reading import guard, printable, read_input, reading, without_warnings
from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.federated.checks import check_tensors
from odt.federated.privacy import SENSITIVITY
from odt.federated.update import Tensors

if TYPE_CHECKING:
    from flwr.serverapp.strategy import Strategy

TENSOR, STRATEGY = "tensor:", "strategy:"  # prefixes of members of the file
HEADER = "header"  # member with the other values, as JSON
MOMENTS = ("m_t", "v_t")  # of FedAdam, FedYogi and FedAdagrad: name → array
MOMENTUM = "momentum_vector"  # of FedAvgM: a list of arrays
NORM = "clipping_norm"  # changes in adaptive clipping
MAX_ROUNDS = 10**9


@dataclass(frozen=True, slots=True)
class SavedRound:
    """The state that a federation needs to resume.

    Attributes:
        round: number of the last round that is complete.
        tensors: the global model: what trains, by name.
        strategy: arrays and numbers of the strategy, by name.
        accountant: state of Flower's privacy accountant; None for none.
        noise: noise multipliers of all releases so far, for differential privacy.
        settings: settings of training, which should be the same when it resumes.
    """

    round: int
    tensors: Tensors
    strategy: Mapping[str, Any]
    accountant: Any = None
    noise: Sequence[float] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: str) -> None:
        """Writes the file; it appears complete or not at all.

        Raises:
            OdtError: if the file cannot be written.
        """
        header = {
            "round": self.round,
            "accountant": self.accountant,
            "noise": list(self.noise),
            "sensitivity": SENSITIVITY,
            "settings": dict(self.settings),
        }
        members: dict[str, Any] = {HEADER: np.array(json.dumps(header))}
        members |= {TENSOR + name: a for name, a in self.tensors.items()}
        members |= {STRATEGY + name: np.asarray(a) for name, a in self.strategy.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **members)
        with AtomicFile(path, OdtError) as file:
            file.write(buffer.getbuffer())

    @classmethod
    def read(cls, path: str, expected: Tensors) -> "SavedRound":
        """Reads and checks the file.

        Args:
            path: path of a file that `write` wrote.
            expected: tensors of the model, for names and shapes.

        Raises:
            OdtError: if the file is damaged or belongs to another model.
        """
        rule = "must be the state of a federation; delete it to begin with round 1"
        data = read_input(path, "the state of a federation", OdtError)
        with reading(path, rule, OdtError), without_warnings():
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                sizes = [member.file_size for member in file.zip.infolist()]
                guard(path, len(data), sum(sizes), OdtError)
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop(HEADER)))
            last = header["round"]
            accountant = header["accountant"]
            if type(last) is not int or not 0 <= last <= MAX_ROUNDS:
                raise ValueError(f"round {printable(last)}")
            # Files without a sensitivity have multipliers for half the change that a client makes.
            scale = 1.0 if header.get("sensitivity") == SENSITIVITY else 1 / SENSITIVITY
            noise = tuple(float(value) * scale for value in header["noise"])
            if not all(0 <= value < math.inf for value in noise):
                raise ValueError("noise that is no finite number from 0")
            settings = dict(header["settings"])
        tensors = _with_prefix(arrays, TENSOR)
        check_tensors(tensors, expected, path, "Delete the file to begin with round 1.")
        ordered = {name: tensors[name] for name in expected}
        return cls(last, ordered, _with_prefix(arrays, STRATEGY), accountant, noise, settings)


def saved_round(
    number: int,
    tensors: Tensors,
    strategy: "Strategy",
    noise: Sequence[float] = (),
    settings: Mapping[str, Any] | None = None,
) -> SavedRound:
    """Returns the state to save after a round.

    Args:
        number: number of the round.
        tensors: the global model.
        strategy: Flower's strategy, which can wrap another one.
        noise: noise multipliers of all releases so far.
        settings: settings of training.
    """
    values: dict[str, Any] = {}
    accountant = None
    for depth, link in enumerate(chain(strategy)):
        for moment in MOMENTS:
            for name, a in (getattr(link, moment, None) or {}).items():
                values[f"{depth}:{moment}:{name}"] = a
        for k, a in enumerate(getattr(link, MOMENTUM, None) or ()):
            values[f"{depth}:{MOMENTUM}:{k}"] = a
        if hasattr(link, NORM):
            values[f"{depth}:{NORM}:"] = float(getattr(link, NORM))
        if getattr(link, "accountant", None) is not None:
            accountant = link.accountant.state_dict()
    return SavedRound(number, tensors, values, accountant, noise, settings or {})


def restore(saved: SavedRound, strategy: "Strategy", path: str = "the saved round") -> None:
    """Sets the state of a strategy.

    Args:
        saved: the file's content.
        strategy: a strategy like the one that was saved.
        path: path of the file, for messages.

    Raises:
        OdtError: if the state is not that of such a strategy.
    """
    shapes = {name: a.shape for name, a in saved.tensors.items()}
    with reading(path, "must be the state of this strategy", OdtError):
        for depth, link in enumerate(chain(strategy)):
            for moment in MOMENTS:
                if arrays := _with_prefix(saved.strategy, f"{depth}:{moment}:"):
                    _check_moments(arrays, shapes)
                    setattr(link, moment, arrays)
            if arrays := _with_prefix(saved.strategy, f"{depth}:{MOMENTUM}:"):
                momenta = [arrays[str(k)] for k in range(len(arrays))]
                _check_moments(dict(zip(shapes, momenta, strict=True)), shapes)
                setattr(link, MOMENTUM, momenta)
            norm = saved.strategy.get(f"{depth}:{NORM}:")
            if norm is not None:
                if not 0 < float(norm) < math.inf:
                    raise ValueError(f"{NORM} {float(norm)}")
                setattr(link, NORM, float(norm))
            if saved.accountant is not None and getattr(link, "accountant", None) is not None:
                link.accountant.load_state_dict(saved.accountant)


def _check_moments(arrays: Mapping[str, Any], shapes: Mapping[str, Any]) -> None:
    if {name: a.shape for name, a in arrays.items()} != shapes:
        raise ValueError("arrays of other names or shapes")
    if not all(a.dtype.kind == "f" and np.isfinite(a).all() for a in arrays.values()):
        raise ValueError("values that are not finite")


def exists(path: str) -> bool:
    """Whether there is a file to resume from.

    Args:
        path: path of the file; empty for none.
    """
    return bool(path) and os.path.exists(path)


def chain(strategy: Any) -> Iterator[Any]:
    """Yields a strategy, then the strategies that it wraps."""
    while strategy is not None:
        yield strategy
        strategy = getattr(strategy, "strategy", None)


def _with_prefix(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
