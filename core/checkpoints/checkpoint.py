"""Checkpoints in odt's format: all that an exact resume needs, with names and a checksum.

    8 bytes  magic
    u32      version, u32 length of the header
    header   JSON, padded with blanks so that the arrays begin at a multiple of 64
    arrays   one after the other, each at a multiple of 64
    u32      CRC-32 of all before it

A nominal checkpoint has the header alone: names and shapes, no values.
"""

import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np

from odt.core.checkpoints.progress import Progress, natural, parse_progress, string
from odt.core.model.graph import Graph, first_of_buffer
from odt.core.options.training_options import BATCH, FIXED
from odt.core.recipe.option_values import check_mapping
from odt.core.runtime.arena import overwrite
from odt.core.runtime.parameters import AVERAGE, STATISTIC, Groups, Parameters, by_name
from odt.core.storage.json_text import json_text, parse_json
from odt.core.storage.reading import MAX_LISTED, check_shape, printable, reason
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError
from odt.kernels.rows.opdef import Array

MAGIC = b"odt ckpt"
VERSION = 1
FRONT = struct.Struct("<8sII")
CRC = struct.Struct("<I")
ALIGNMENT = 64
# Roles besides those of the parameters. Roles of the state before the epoch begin with BEFORE.
FROZEN, BEST, BEFORE = "frozen", "best", "before-"
NO_WEIGHTS: Mapping[int, Array] = MappingProxyType({})
NO_GROUPS: Groups = MappingProxyType({})
DTYPES = ("float16", "float32", "float64", "int8", "uint8")  # of arrays
Property = str | int | float


@dataclass(frozen=True, slots=True)
class Entry:
    """Description of one array.

    Attributes:
        tensor: name of the tensor.
        role: weight, an optimizer slot, or another role of `Parameters.groups` and this module.
        shape, dtype: of the array.
    """

    tensor: str
    role: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def is_current(self) -> bool:
        """Whether the array belongs to the current state, not to the best or an earlier one."""
        return self.role != BEST and not self.role.startswith(BEFORE)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State of training.

    Attributes:
        optimizer: name of the optimizer.
        hyper_parameters: all hyper-parameters, learning_rate included.
        progress: position of training, and its options.
        entries: descriptions of the arrays.
        arrays: the arrays, in the order of the entries; none in a nominal checkpoint.
        properties: properties set by the user.
    """

    optimizer: str
    hyper_parameters: Mapping[str, Property]
    progress: Progress
    entries: tuple[Entry, ...]
    arrays: tuple[Array, ...] = ()
    properties: Mapping[str, Property] = field(default_factory=dict)

    @property
    def is_nominal(self) -> bool:
        """Whether it has names and shapes without values."""
        return len(self.arrays) < len(self.entries)


def capture(
    graph: Graph,
    parameters: Parameters,
    progress: Progress,
    properties: Mapping[str, Property] | None = None,
    best: Mapping[int, Array] = NO_WEIGHTS,
    before: Groups = NO_GROUPS,
) -> Checkpoint:
    """Captures the current state. The arrays are not copied: training changes them.

    Args:
        graph: graph of the parameters.
        parameters: weights and optimizer state.
        progress: position of training.
        properties: properties set by the user.
        best: weights of the best epoch.
        before: state before the current epoch, by role and tensor.

    Raises:
        OptionError: if the properties are not names with strings and finite numbers.
    """
    assert parameters.optimizer is not None, "parameters that train have an optimizer"
    check_properties(properties or {})
    attrs = parameters.optimizer.rule.stored(parameters.optimizer.attrs)
    groups = _groups(parameters, best, before)
    entries, arrays = [], []
    for role, group in groups.items():
        for name, a in by_name(graph, group).items():
            entries.append(Entry(name, role, a.shape, a.dtype.name))
            arrays.append(a)
    return Checkpoint(
        parameters.optimizer.rule.name,
        {"learning_rate": parameters.optimizer.learning_rate, **attrs},
        replace(progress, step=parameters.step),
        tuple(entries),
        tuple(arrays),
        dict(properties or {}),
    )


def restore(
    checkpoint: Checkpoint,
    where: str,
    graph: Graph,
    parameters: Parameters,
    best: Mapping[int, Array] = NO_WEIGHTS,
) -> None:
    """Restores parameters from a checkpoint; nothing changes unless the whole checkpoint matches.

    The weights of the best epoch are restored if the checkpoint has them and `best` takes them. The
    state before the epoch is left out.

    Raises:
        ModelError: if the checkpoint is nominal, or model or optimizer differ, with a table of the
            differences.
        OptionError: if batch normalization had other statistics.
    """
    if checkpoint.is_nominal:
        raise ModelError(
            f"{where}: must hold values to resume from, but is nominal: it holds "
            "only names and shapes"
        )
    targets = matching(checkpoint, where, graph, parameters, best)
    for entry, a in zip(checkpoint.entries, checkpoint.arrays, strict=True):
        for target in targets.get((entry.tensor, entry.role), ()):
            overwrite(target, a)
    roles = {e.role for e in checkpoint.entries}
    if AVERAGE not in roles:
        parameters.average.reset()
    for slot in parameters.slots.keys() - roles:
        for state in parameters.slots[slot].values():
            overwrite(state)
    parameters.step = checkpoint.progress.step


def matching(
    checkpoint: Checkpoint,
    where: str,
    graph: Graph,
    parameters: Parameters,
    best: Mapping[int, Array] = NO_WEIGHTS,
) -> dict[tuple[str, str], list[Array]]:
    """Returns the arrays of the parameters by tensor and role; arguments as for `restore`.

    Frozen weights are not parameters; core/checkpoints/frozen.py compares them. A checkpoint that
    was written before the first step may lack the optimizer's state, which then begins anew.

    Raises:
        ModelError: if model or optimizer differ, with a table of the differences.
        OptionError: if batch normalization had other statistics.
    """
    mine = _by_entry(graph, parameters, best, tied=checkpoint.progress.tied_by_buffer)
    roles = {e.role for e in checkpoint.entries}
    ignored = _ignored_roles(checkpoint, parameters, best)
    mine = {key: arrays for key, arrays in mine.items() if key[1] not in ignored}
    stored = {(e.tensor, e.role): e for e in checkpoint.entries if e.role not in ignored}
    rows: list[tuple[str, str, str]] = []
    differing: list[tuple[str, str]] = []
    for name, role in dict.fromkeys((*mine, *stored)):
        arrays, entry = mine.get((name, role), ()), stored.get((name, role))
        a = arrays[0] if arrays else None  # arrays of one entry have one shape
        if _kind(a) != _kind(entry):
            rows.append((f"{printable(name)} ({printable(role)})", _show(a), _show(entry)))
            differing.append((name, role))
    assert parameters.optimizer is not None, "parameters that train have an optimizer"
    optimizer = parameters.optimizer.rule.name
    if checkpoint.optimizer != optimizer:
        rows.insert(0, ("optimizer", optimizer, printable(checkpoint.optimizer)))
    elif differing and bool(parameters.statistics.arrays) != (STATISTIC in roles):
        _refuse_statistics(differing, where, in_checkpoint=STATISTIC in roles)
    if rows:
        raise _differences(where, rows)
    return mine


def _ignored_roles(
    checkpoint: Checkpoint, parameters: Parameters, best: Mapping[int, Array]
) -> set[str]:
    """Returns the roles that need not match, because a resume goes without them."""
    roles = {e.role for e in checkpoint.entries}
    ignored = {FROZEN, *(role for role in roles if role.startswith(BEFORE))}
    if AVERAGE not in roles:
        ignored.add(AVERAGE)
    if not best or BEST not in roles:
        ignored.add(BEST)
    if not checkpoint.progress.step and not parameters.slots.keys() & roles:
        ignored |= parameters.slots.keys()
    return ignored


def _refuse_statistics(
    differing: Sequence[tuple[str, str]], where: str, *, in_checkpoint: bool
) -> None:
    """Raises OptionError if only layers with running statistics differ.

    Args:
        differing: name and role of each array that differs.
        where: name of the checkpoint in messages.
        in_checkpoint: whether the checkpoint has running statistics, and not the parameters.
    """
    with_statistics = {name for name, role in differing if role == STATISTIC}
    if all(name in with_statistics for name, _ in differing):
        before, now = (BATCH, FIXED) if in_checkpoint else (FIXED, BATCH)
        rule = f"must be {before}, as {where} was trained"
        remedy = f"Give {before}, or train without the checkpoint."
        raise OptionError("batch_norm", rule, now, remedy)


def _groups(
    parameters: Parameters, best: Mapping[int, Array], before: Groups = NO_GROUPS
) -> dict[str, Mapping[int, Array]]:
    """Returns the arrays of a checkpoint by role and tensor."""
    best_group = {BEST: best} if best else {}
    return {
        **parameters.groups,
        **best_group,
        **{BEFORE + role: group for role, group in before.items()},
    }


def before_epoch(checkpoint: Checkpoint) -> Checkpoint | None:
    """Returns the state before the current epoch; None if the checkpoint does not hold it."""
    # A checkpoint of names and shapes has no arrays.
    pairs = zip(checkpoint.entries, checkpoint.arrays, strict=False)
    members = [(e, a) for e, a in pairs if e.role.startswith(BEFORE)]
    undo = checkpoint.progress.undo
    if not members or not undo:
        return None
    return replace(
        checkpoint,
        progress=replace(checkpoint.progress, step=int(undo.step)),
        entries=tuple(replace(e, role=e.role.removeprefix(BEFORE)) for e, _ in members),
        arrays=tuple(a for _, a in members),
    )


def _differences(where: str, rows: Sequence[tuple[str, str, str]]) -> ModelError:
    """Returns an error with the first difference on its line, and a table of all in its details."""
    name, mine, stored = rows[0]
    listed = "all" if len(rows) <= MAX_LISTED else f"the first {MAX_LISTED}"
    ending = f" `OdtError.details` lists {listed}." if len(rows) > 1 else ""
    table = _table([("", "in training", "in the checkpoint"), *rows[:MAX_LISTED]])
    return ModelError(
        f"{where}: must be of this model and optimizer, but got {len(rows)} differences: "
        f"{name} is {mine} in training and {stored} in the checkpoint.{ending}",
        "\n".join(table),
    )


def _by_entry(
    graph: Graph, parameters: Parameters, best: Mapping[int, Array], *, tied: bool
) -> dict[tuple[str, str], list[Array]]:
    """Returns the arrays of the parameters by name of the tensor and role."""
    arrays: dict[tuple[str, str], list[Array]] = {}
    first = first_of_buffer(graph) if tied else {}
    owners = {i: first.get(i, i) for i in parameters.tensors}  # the tensors that give the names
    for role, group in _groups(parameters, best).items():
        by_owner = {owners.get(i, i): a for i, a in group.items()}
        names = dict(zip(by_owner, by_name(graph, by_owner), strict=True))
        for i, a in group.items():
            arrays.setdefault((names[owners.get(i, i)], role), []).append(a)
    return arrays


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns lines with aligned columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _kind(a: Array | Entry | None) -> tuple[tuple[int, ...], str] | None:
    """Returns shape and dtype; None for an absent array."""
    if a is None:
        return None
    return a.shape, a.dtype if isinstance(a, Entry) else a.dtype.name


def _show(a: Array | Entry | None) -> str:
    kind = _kind(a)
    return "absent" if kind is None else printable(f"{kind[0]} {kind[1]}")


def encode(checkpoint: Checkpoint) -> Iterator[bytes | memoryview]:
    """Yields the bytes of the file, in pieces."""
    text = header(checkpoint).encode()
    text += b" " * (-(FRONT.size + len(text)) % ALIGNMENT)
    crc = 0
    for piece in (FRONT.pack(MAGIC, VERSION, len(text)), text, *_padded(checkpoint.arrays)):
        crc = zlib.crc32(piece, crc)
        yield piece
    yield CRC.pack(crc)


def header(checkpoint: Checkpoint) -> str:
    """The header as JSON: everything but the arrays."""
    head = {
        "optimizer": checkpoint.optimizer,
        "hyper_parameters": dict(checkpoint.hyper_parameters),
        "progress": checkpoint.progress.stored(),
        "entries": [asdict(e) for e in checkpoint.entries],
        "properties": dict(checkpoint.properties),
        "nominal": checkpoint.is_nominal,
    }
    return json_text(head, ensure_ascii=False, allow_nan=False)


def _padded(arrays: Sequence[Array]) -> Iterator[bytes | memoryview]:
    """Yields the arrays with padding, without copies: the state may be as large as memory."""
    for a in arrays:
        little = np.ascontiguousarray(a, a.dtype.newbyteorder("<"))
        yield little.reshape(-1).view(np.uint8).data
        yield bytes(-a.nbytes % ALIGNMENT)


def decode(data: bytes, where: str) -> Checkpoint:
    """Decodes and checks a checkpoint.

    Raises:
        ModelError: if the bytes are not a checkpoint, of another version, or damaged.
    """
    if len(data) < FRONT.size + CRC.size or data[: len(MAGIC)] != MAGIC:
        raise ModelError(
            f"{where}: must begin with {MAGIC!r}, but got {data[: len(MAGIC)]!r}. "
            "The file is not a checkpoint of odt."
        )
    _, version, length = FRONT.unpack_from(data)
    if version != VERSION:
        raise ModelError(
            f"{where}: the version must be {VERSION}, but got {version}. "
            "Convert it with the version of odt that wrote it: odt checkpoint convert."
        )
    body = memoryview(data)[: -CRC.size]
    (crc,) = CRC.unpack(data[-CRC.size :])
    if zlib.crc32(body) != crc:
        raise ModelError(
            f"{where}: its CRC-32 must be {crc:08x}, but got {zlib.crc32(body):08x}. "
            "The file is damaged or truncated."
        )
    begin = FRONT.size + length
    checkpoint, is_nominal = parse_header(bytes(body[FRONT.size : begin]), where)
    sizes = [0 if is_nominal else e.nbytes for e in checkpoint.entries]
    padded = [n + -n % ALIGNMENT for n in sizes]
    if begin + sum(padded) != len(body):
        raise ModelError(
            f"{where}: must hold {sum(padded)} bytes of arrays, but got {len(body) - begin}. "
            "The file is damaged or truncated."
        )
    if is_nominal:
        return checkpoint
    *starts, _ = accumulate(padded, initial=begin)
    arrays: list[Array] = []
    for entry, start in zip(checkpoint.entries, starts, strict=True):
        dtype = np.dtype(entry.dtype).newbyteorder("<")
        flat = np.frombuffer(body, dtype, math.prod(entry.shape), start)
        arrays.append(flat.reshape(entry.shape))
    return replace(checkpoint, arrays=tuple(arrays))


def parse_header(text: bytes | str, where: str) -> tuple[Checkpoint, bool]:
    """Parses a header; returns the checkpoint without arrays, and whether it is nominal.

    Raises:
        ModelError: if the text is not a header.
    """
    try:
        head = parse_json(text)
        return _checked(head), head["nominal"]
    except Exception as e:  # JSON may hold values of any type
        raise ModelError(
            f"{where}: its header must be as odt writes it, but got: {reason(e)}."
        ) from e


def _checked(head: Mapping[str, Any]) -> Checkpoint:
    """Returns the checkpoint of a header; raises any error if a value is invalid."""
    progress = parse_progress(head["progress"])
    entries = tuple(
        Entry(string(e["tensor"]), string(e["role"]), tuple(map(natural, e["shape"])), e["dtype"])
        for e in head["entries"]
    )
    for e in entries:
        if e.dtype not in DTYPES:
            raise ValueError(f"dtype {printable(e.dtype)}")
        check_shape(e.shape, np.dtype(e.dtype).itemsize)
    if len({(e.tensor, e.role) for e in entries}) < len(entries):
        raise ValueError("an array that occurs twice")
    values = {string(name): value for name, value in head["hyper_parameters"].items()}
    if type(values.get("learning_rate")) is not float:
        raise TypeError(f"learning_rate {values.get('learning_rate')!r}")
    if type(head["nominal"]) is not bool:
        raise TypeError(f"nominal {head['nominal']!r}")
    properties = {string(name): value for name, value in head["properties"].items()}
    for value in (*values.values(), *properties.values()):
        if isinstance(value, str):
            string(value)
    check_properties({k: v for k, v in values.items() if not isinstance(v, bool)} | properties)
    return Checkpoint(string(head["optimizer"]), values, progress, entries, (), properties)


def _check_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise OptionError("properties", f"{printable(name)} must be valid Unicode", e) from e


def nominal(checkpoint: Checkpoint) -> Checkpoint:
    """Returns the nominal checkpoint: names and shapes without values."""
    return replace(checkpoint, arrays=())


def check_properties(properties: Mapping[str, Any]) -> None:
    """Raises OptionError unless all names are strings, and all values strings or finite numbers."""
    check_mapping("properties", properties)
    for name, value in properties.items():
        if not isinstance(name, str):
            raise OptionError("properties", "names must be strings", repr(name))
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise OptionError(
                "properties", f"{name} must be a string, integer or float", type(value).__name__
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise OptionError("properties", f"{name} must be finite", value)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise OptionError("properties", f"{name} must be an integer of 64 bits", "a larger one")
        if not f"{name}{value}".isascii():
            _check_text(name, f"{name}{value}")
