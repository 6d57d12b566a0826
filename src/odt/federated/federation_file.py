"""Checkpoint of a federation: all that an exact resume needs, in the container of odt's format.

Arrays are stored by role: weight (the server's tensors), server (state of the strategy) and
residual K (error feedback of client K). Settings and results by round are properties, as JSON.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from odt.core.checkpoints import checkpoint
from odt.core.checkpoints.checkpoint import Checkpoint, Entry
from odt.core.checkpoints.progress import Progress
from odt.core.checkpoints.resume import OWN_SUFFIX
from odt.core.storage.atomic_files import AtomicFile, remove_leftovers, write_atomically
from odt.core.storage.reading import printable, read_input, reason
from odt.errors import ModelError, OptionError
from odt.federated.checks import check_tensors
from odt.federated.federation import Federation
from odt.federated.history import from_json, to_json
from odt.federated.update import Tensors

SETTINGS, ROUNDS = "federation", "rounds"  # properties
WEIGHT, SERVER, RESIDUAL = "weight", "server", "residual"  # roles


def check_path(path: str | os.PathLike[str]) -> None:
    """Checks that a checkpoint can be written.

    Args:
        path: path of the file.

    Raises:
        OptionError: if the name does not end in .odt.
        ModelError: if the file cannot be written.
    """
    if not os.fspath(path).endswith(OWN_SUFFIX):
        raise OptionError("save_to", f"must end in {OWN_SUFFIX}", os.fspath(path))
    AtomicFile(path).discard()
    remove_leftovers(os.path.dirname(os.path.realpath(path)))


def save(path: str | os.PathLike[str], federation: Federation) -> None:
    """Writes the state of a federation.

    Args:
        path: path of the file, which is replaced at once.
        federation: the federation, between two rounds.

    Raises:
        ModelError: if the file cannot be written.
    """
    groups = {WEIGHT: federation.tensors, SERVER: federation.strategy.state}
    groups |= {f"{RESIDUAL} {k}": r for k, r in enumerate(federation.residuals)}
    entries = []
    arrays = []
    for role, tensors in groups.items():
        for name, a in tensors.items():
            entries.append(Entry(name, role, a.shape, a.dtype.name))
            arrays.append(a)
    info = federation.trainer.session.build().info
    settings = json.dumps(fixed_settings(federation))
    state = Checkpoint(
        optimizer=info.optimizer,
        hyper_parameters={"learning_rate": info.learning_rate},
        progress=Progress(step=federation.number),
        entries=tuple(entries),
        arrays=tuple(arrays),
        properties={SETTINGS: settings, ROUNDS: to_json(federation.rounds)},
    )
    write_atomically(os.fspath(path), checkpoint.encode(state))


def resume(path: str | os.PathLike[str], federation: Federation) -> None:
    """Restores the state of a federation; nothing changes unless the whole checkpoint matches.

    Args:
        path: path of the file.
        federation: a federation that has run no round.

    Raises:
        ModelError: if the file is not a checkpoint of a federation, or of another model.
        OptionError: if it was written with other settings.
    """
    where = os.fspath(path)
    state = checkpoint.decode(read_input(where, "a checkpoint of a federation"), where)
    groups: dict[str, Tensors] = {}
    # A checkpoint of names and shapes has no arrays; the checks below refuse it.
    for entry, a in zip(state.entries, state.arrays, strict=False):
        groups.setdefault(entry.role, {})[entry.tensor] = a.astype(a.dtype.newbyteorder("="))
    try:
        before: Mapping[str, Any] = dict(json.loads(str(state.properties[SETTINGS])))
        rounds = from_json(str(state.properties[ROUNDS]))
        last = rounds[-1].round
    except Exception as e:  # JSON may hold values of any type
        raise ModelError(
            f"{where}: must be a checkpoint of a federation, but got: {reason(e)}."
        ) from e
    for name, value in fixed_settings(federation).items():
        if before.get(name) != value:
            raise OptionError(
                "checkpoint",
                f"must be resumed with {name} {printable(before.get(name))}",
                value,
                "Give the same settings, or begin a new federation.",
            )
    expected = federation.tensors
    remedy = "The federation is unchanged."
    roles = [f"{RESIDUAL} {k}" for k in range(federation.settings.clients)]
    if last < 1 or not groups.keys() <= {WEIGHT, SERVER, *roles}:
        raise ModelError(
            f"{where}: must hold arrays of {len(roles)} clients after a round. {remedy}"
        )
    check_tensors(groups.get(WEIGHT, {}), expected, where, remedy)
    moments = federation.strategy.moments
    server_arrays = {f"{moment}/{name}": a for name, a in expected.items() for moment in moments}
    check_tensors(groups.get(SERVER, {}), server_arrays, f"{where}: {SERVER}", remedy)
    for role in roles:
        check_tensors(groups.get(role, {}), expected if role in groups else {}, where, remedy)
    federation.strategy.state = groups.get(SERVER, {})
    federation.tensors = {name: groups[WEIGHT][name] for name in expected}
    federation.residuals = [groups.get(role, {}) for role in roles]
    federation.rounds = list(rounds)


def fixed_settings(federation: Federation) -> dict[str, Any]:
    """Returns the settings of federation and clients that must stay the same, as JSON values.

    Args:
        federation: a federation.
    """
    info = federation.trainer.session.build().info
    return federation.settings.json_values() | {
        "samples": sum(len(c.samples) for c in federation.clients),
        "optimizer": info.optimizer,
        "learning_rate": info.learning_rate,
        "batch_size": info.batch_size,
        "loss": info.loss,
    }
