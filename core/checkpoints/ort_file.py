"""Checkpoints of ONNX Runtime's training: flatbuffers with the identifier ODTC, version 2.

A checkpoint holds all parameters, frozen ones too, in the layout of the ONNX file. A nominal
checkpoint has their names and types alone.
"""

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import chain
from typing import Any

import numpy as np

from odt.core.checkpoints.checkpoint import Property
from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer
from odt.core.formats.flatbuffer.schema_tables import pack, unpack
from odt.core.formats.onnx.tensors import NUMPY, TYPES
from odt.core.model.graph import MAX_AXES
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import printable, read_input
from odt.dataclass import dataclass
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array
from odt.schemas.ort_checkpoint import IDENTIFIER, VERSION

MAX_NBYTES = 2**31 - 1  # of a flatbuffer
GROUP = "group0"  # name of the only group of parameters
MOMENT = "momentum"  # begins the names of moments
RATE = 0.001  # initial learning rate without a group


@dataclass(frozen=True, slots=True)
class OrtCheckpoint:
    """Contents of a checkpoint.

    Attributes:
        trained, frozen: parameters by name, in the order of the file; empty if nominal.
        moments: parameter → its moments, in order; empty without the optimizer's state.
        step: number of updates made.
        learning_rate: the group's initial learning rate.
        properties: user metadata.
        is_nominal: whether there are names and types only.
    """

    trained: Mapping[str, Array]
    frozen: Mapping[str, Array] = field(default_factory=dict)
    moments: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)
    step: int = 0
    learning_rate: float = RATE
    properties: Mapping[str, Property] = field(default_factory=dict)
    is_nominal: bool = False


def is_ort_checkpoint(data: bytes) -> bool:
    """Whether bytes begin like a checkpoint of ONNX Runtime."""
    return data[4:8] == IDENTIFIER


def read_ort_checkpoint(path: str | os.PathLike[str]) -> OrtCheckpoint:
    """Reads a checkpoint.

    Raises:
        ModelError: if the file cannot be read or is damaged.
    """
    name = os.fspath(path)
    data = read_input(path, "a checkpoint", ModelError, MAX_NBYTES)
    if not is_ort_checkpoint(data):
        raise ModelError(f"{name}: must be a checkpoint of ONNX Runtime, but got another file.")
    tables = unpack(FlatBuffer(name, memoryview(data)).root(), "OrtCheckpoint")
    if tables.get("version") != VERSION:
        raise ModelError(
            f"{name}: the version of a checkpoint of ONNX Runtime must be {VERSION}, but got "
            f"{tables.get('version', 0)}. Write it with onnxruntime-training 1.17 or newer."
        )
    state = tables.get("module_state", {})
    if state.get("has_external_data"):
        raise ModelError(f"{name}: a checkpoint must be one file, but got external data.")
    nominal = bool(state.get("is_nominal_state"))
    trained, frozen = _parameters(name, state, is_nominal=nominal)
    groups = tables.get("optimizer_groups", [])
    if len(groups) > 1:
        raise ModelError(f"{name}: there must be one group of parameters, but got {len(groups)}.")
    group = groups[0] if groups else {}
    step = group.get("step", 0)
    if step < 0:
        raise ModelError(f"{name}: step must be 0 or more, but got {step}. The file is damaged.")
    return OrtCheckpoint(
        trained,
        frozen,
        _moments(name, group, trained),
        step=step,
        learning_rate=group.get("initial_learning_rate", 0.0) if groups else RATE,
        properties=_properties(tables.get("property_bag", {})),
        is_nominal=nominal,
    )


def _parameters(
    where: str, state: Mapping[str, Any], *, is_nominal: bool
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Reads the parameters that train, and the frozen ones, by name.

    Raises:
        ModelError: if one is damaged, or occurs twice.
    """
    pairs = [
        [_tensor(where, t, is_nominal=is_nominal) for t in state.get(key, [])]
        for key in ("requires_grad_params", "frozen_params")
    ]
    counts = Counter(name for name, _ in chain(*pairs))
    for name, count in counts.items():
        if count > 1:
            raise ModelError(
                f"{where}: each parameter must occur once, but got {printable(name)} twice."
            )
    trained, frozen = map(dict, pairs)
    return trained, frozen


def _moments(
    where: str, group: Mapping[str, Any], trained: Mapping[str, Array]
) -> dict[str, tuple[Array, ...]]:
    """Reads the moments of each parameter.

    Raises:
        ModelError: if they do not have the shape of a parameter that trains.
    """
    moments = {
        _text(s.get("param_name", b"")): tuple(_tensor(where, t)[1] for t in s.get("momentums", []))
        for s in group.get("optimizer_states", [])
    }
    for name, arrays in moments.items():
        shape = trained[name].shape if name in trained else None
        if any(a.shape != shape for a in arrays):
            raise ModelError(
                f"{where}: moments must have the shape of a trained parameter, but got "
                f"{printable(name)} {[a.shape for a in arrays]}."
            )
    return moments


def _properties(bag: Mapping[str, Any]) -> dict[str, Property]:
    """Reads the user's properties, of all types. A file leaves out the value 0."""
    properties: dict[str, Property] = {}
    zeros: Mapping[str, int | float | bytes] = {"ints": 0, "floats": 0.0, "strings": b""}
    for key, zero in zeros.items():
        for entry in bag.get(key, []):
            value = entry.get("value", zero)
            text = _text(value) if isinstance(value, bytes) else value
            properties[_text(entry.get("name", b""))] = text
    return properties


def write_ort_checkpoint(checkpoint: OrtCheckpoint, path: str | os.PathLike[str]) -> None:
    """Writes a checkpoint.

    Raises:
        ModelError: if it is too large for the format, or the file cannot be written.
    """
    import flatbuffers

    size = sum(a.nbytes for a in _arrays(checkpoint))
    if size > MAX_NBYTES // 2:
        raise ModelError(
            f"{os.fspath(path)}: a checkpoint of ONNX Runtime must have at most "
            f"{MAX_NBYTES // 2} bytes of arrays, but got {size}."
        )
    nominal = checkpoint.is_nominal
    groups = []
    if checkpoint.moments:
        states = [
            {
                "param_name": name,
                "momentums": [_packed(f"{MOMENT}{k}", a) for k, a in enumerate(arrays)],
            }
            for name, arrays in sorted(checkpoint.moments.items())
        ]
        groups.append(
            {
                "group_name": GROUP,
                "step": checkpoint.step,
                "initial_learning_rate": checkpoint.learning_rate,
                "optimizer_states": states,
            }
        )
    module = {
        key: [_packed(name, a, is_nominal=nominal) for name, a in arrays.items()]
        for key, arrays in (
            ("requires_grad_params", checkpoint.trained),
            ("frozen_params", checkpoint.frozen),
        )
    }
    tables = {
        "version": VERSION,
        "module_state": {**module, "is_nominal_state": nominal},
        "optimizer_groups": groups,
        "property_bag": _bag(checkpoint.properties),
    }
    builder = flatbuffers.Builder(1024)
    builder.Finish(pack(builder, "OrtCheckpoint", tables), IDENTIFIER)
    write_atomically(path, [builder.Output()])


def _arrays(checkpoint: OrtCheckpoint) -> Iterator[Array]:
    """Yields the parameters, frozen ones too, and the moments."""
    yield from checkpoint.trained.values()
    yield from checkpoint.frozen.values()
    for arrays in checkpoint.moments.values():
        yield from arrays


def _bag(properties: Mapping[str, Property]) -> dict[str, list[dict[str, Property]]] | None:
    """Returns the table of properties, by type of the values; None without any."""
    if not properties:
        return None
    kinds = {"ints": int, "floats": float, "strings": str}
    return {
        key: [{"name": n, "value": v} for n, v in properties.items() if isinstance(v, kind)]
        for key, kind in kinds.items()
    }


def _packed(name: str, values: Array, *, is_nominal: bool = False) -> dict[str, object]:
    """Returns the table of a tensor."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return {
        "name": name,
        "dims": () if is_nominal else values.shape,
        "data_type": TYPES.index(values.dtype.name) + 1,
        "raw_data": () if is_nominal else little.reshape(-1).view(np.uint8),
    }


def _tensor(
    where: str, table: Mapping[str, object], *, is_nominal: bool = False
) -> tuple[str, Array]:
    """Returns name and values of a tensor; those of a nominal state are empty."""
    name = _text(table.get("name", b""))
    code, dims = table.get("data_type", 0), table.get("dims", ())
    assert isinstance(code, int)
    assert isinstance(dims, np.ndarray | tuple)
    kind = TYPES[code - 1] if 1 <= code <= len(TYPES) else f"type {code}"
    shape = tuple(map(int, dims))
    if kind not in NUMPY:
        rule = f"must be numbers, but got {kind}"
    elif len(shape) > MAX_AXES or min(shape, default=0) < 0:
        rule = f"must have at most {MAX_AXES} axes, none below 0, but got {shape[:8]}"
    else:
        dtype = np.dtype(kind)
        if is_nominal:
            return name, np.empty(0, dtype)
        raw = table.get("raw_data", np.empty(0, np.uint8))
        assert isinstance(raw, np.ndarray)
        if len(raw) == math.prod(shape) * dtype.itemsize:
            values = np.frombuffer(raw.tobytes(), dtype.newbyteorder("<")).reshape(shape)
            return name, values.astype(dtype)
        rule = f"must have the bytes of {shape} {dtype}, but got {len(raw)}"
    raise ModelError(f"{where}: {printable(name)}: {rule}. The file is damaged.")


def _text(data: object) -> str:
    assert isinstance(data, bytes)
    return data.decode("utf-8", "replace")
