"""Reads and writes checkpoints in the formats of odt and onert, as .npz and as .h5.

.npz and .h5 files hold each array under role/tensor, such as weight/dense_0/w, and the header as
JSON under `header`. In .h5 the name of a tensor is percent-encoded, because a slash separates
groups.
"""

import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.checkpoints import checkpoint, onert_checkpoint
from odt.core.checkpoints.checkpoint import Checkpoint, Entry, parse_header
from odt.core.checkpoints.onert_order import checkpoint_order
from odt.core.checkpoints.resume import Resume, progress_of
from odt.core.data.dataset import EpochOrder
from odt.core.formats.file_kinds import HDF5, ZIP
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.output_losses import ends_in_softmax
from odt.core.recipe.prepare import prepare
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.hdf5 import data_set, load_h5py, text_of
from odt.core.storage.reading import guard, printable, reading, without_warnings
from odt.core.training.trainer import Trainer
from odt.errors import ModelError, OptionError
from odt.kernels.rows.opdef import Array

HEADER = "header"
RULE = "must be a checkpoint as odt writes it"
FORMATS = {".odt": "odt", ".npz": "npz", ".h5": "h5", ".hdf5": "h5"}  # all other files are onert's
BEGINNINGS = {checkpoint.MAGIC: "odt", ZIP: "npz", HDF5: "h5"}


def format_of(data: bytes) -> str:
    """Detects the format by the first bytes: odt, npz, h5 or onert."""
    return next((name for begin, name in BEGINNINGS.items() if data.startswith(begin)), "onert")


def decode_any(data: bytes, where: str, model: Model | None = None) -> Checkpoint:
    """Decodes a checkpoint of any format.

    Args:
        data: bytes of the file.
        where: the file's name in messages.
        model: model of an onert checkpoint, which holds no tensor names.

    Raises:
        ModelError: if the checkpoint is damaged or belongs to another model.
        OptionError: if an onert checkpoint is given without a model.
    """
    kind = format_of(data)
    if kind == "odt":
        return checkpoint.decode(data, where)
    if kind == "onert":
        return _from_onert(data, where, model)
    return {"npz": _from_npz, "h5": _from_h5}[kind](data, where)


def write_any(
    path: str | os.PathLike[str], state: Checkpoint, where: str, model: Model | None = None
) -> None:
    """Writes a checkpoint in the format given by the suffix of the name.

    Args:
        path: the file to write.
        state: the checkpoint.
        where: name of the file that the checkpoint comes from.
        model: the model, all of whose constants an onert checkpoint holds.

    Raises:
        ModelError: if the format cannot hold the checkpoint, it belongs to another model, or the
            file cannot be written.
        OptionError: if an onert checkpoint is written without a model.
    """
    kind = FORMATS.get(os.path.splitext(path)[1].lower(), "onert")
    chunks: Iterable[Any]
    if kind == "onert":
        chunks = [_to_onert(state, where, model)]
    elif kind == "odt":
        chunks = checkpoint.encode(state)
    else:
        chunks = [{"npz": _to_npz, "h5": _to_h5}[kind](state, os.fspath(path))]
    write_atomically(path, chunks)


def _to_npz(state: Checkpoint, where: str) -> memoryview:
    out = io.BytesIO()
    arrays = {HEADER: np.array(checkpoint.header(state))}
    for entry, a in zip(state.entries, state.arrays, strict=False):  # no arrays if nominal
        arrays[_key(entry)] = a
    np.savez(out, allow_pickle=False, **arrays)
    return out.getbuffer()


def _from_npz(data: bytes, where: str) -> Checkpoint:
    with (
        reading(where, RULE, ModelError),
        without_warnings(),
        np.load(io.BytesIO(data), allow_pickle=False) as file,
    ):
        sizes = [member.file_size for member in file.zip.infolist()]
        guard(where, len(data), sum(sizes), ModelError)
        return _assemble(str(file[HEADER]), where, lambda e: file[_key(e)])


def _to_h5(state: Checkpoint, where: str) -> memoryview:
    h5py = load_h5py(where, ModelError)
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file[HEADER] = checkpoint.header(state)
        for entry, a in zip(state.entries, state.arrays, strict=False):  # no arrays if nominal
            file[_h5_key(entry)] = a
    return out.getbuffer()


def _from_h5(data: bytes, where: str) -> Checkpoint:
    h5py = load_h5py(where, ModelError)
    with reading(where, RULE, ModelError), h5py.File(io.BytesIO(data), "r") as file:
        text = text_of(data_set(file, HEADER, where, ModelError), data, where)
        return _assemble(text, where, lambda e: data_set(file, _h5_key(e), where, ModelError))


def _assemble(text: bytes | str, where: str, read: Callable[[Entry], Any]) -> Checkpoint:
    """Returns the checkpoint of a header, with arrays that `read` returns by their entries."""
    state, is_nominal = parse_header(text, where)
    if is_nominal:
        return state
    arrays: list[Array] = []
    for entry in state.entries:
        a = read(entry)
        if (a.shape, a.dtype.name) != (entry.shape, entry.dtype):
            raise ModelError(
                f"{where}: {printable(_key(entry))} must be {entry.shape} {entry.dtype} as the "
                f"header says, but got {a.shape} {a.dtype.name}"
            )
        arrays.append(np.asarray(a))
    return replace(state, arrays=tuple(arrays))


def _key(entry: Entry) -> str:
    return f"{entry.role}/{entry.tensor}"


def _h5_key(entry: Entry) -> str:
    from urllib.parse import quote

    name = quote(entry.tensor, safe=" :;,+()[]")
    if not name.strip("."):  # . and .. name groups too, and a name must not be empty
        name = name.replace(".", "%2E") or "%"
    return f"{entry.role}/{name}"


def _from_onert(data: bytes, where: str, model: Model | None) -> Checkpoint:
    """Decodes an onert checkpoint, with the training info of the model."""
    _, sizes = onert_checkpoint.contents(data, where)
    model = _required(model)
    info = stored_training_info(model)
    fields = info.as_dict() if info else {}
    optimizer = "adam" if "m" in sizes else "sgd"
    if fields.get("optimizer") != optimizer:  # the model's values belong to another optimizer
        default = TrainingInfo()
        fields |= {"hyper_parameters": {}, "learning_rate": default.learning_rate}
    fields |= {"optimizer": optimizer}
    if "m" in sizes:
        fields["trainable_ops"] = _trained_operators(model.graph, sizes["m"])
    with _trainer(model, lambda graph: fields) as trainer:
        onert_checkpoint.decode(data, where, trainer.graph, trainer.parameters)
        progress = replace(
            progress_of(trainer, EpochOrder(range(0))), loss=fields.get("loss") or ""
        )
        return checkpoint.capture(trainer.graph, trainer.parameters, progress)


def _trained_operators(graph: Graph, sizes: list[int]) -> tuple[int, ...] | None:
    """Returns the operators whose weights have moments; None for all.

    Args:
        graph: graph as in the file.
        sizes: bytes of the first moment of each tensor, in the order of the checkpoint.
    """
    order = checkpoint_order(graph)
    # The file may be of another model; reading it compares the numbers of tensors.
    trained = {i for i, size in zip(order, sizes, strict=False) if size}
    operators = {n.origin for n in graph.nodes if trained & set(n.inputs)}
    floats = {i for i in order if graph.tensors[i].spec.dtype.kind == "f"}
    return None if floats <= trained else tuple(sorted(operators))


def _to_onert(state: Checkpoint, where: str, model: Model | None) -> bytes:
    model, resume = _required(model), Resume(where, state)
    with _trainer(model, resume.training_info) as trainer:
        resume.restore(trainer.graph, trainer.parameters)
        return b"".join(onert_checkpoint.encode(trainer.graph, trainer.parameters))


def _required(model: Model | None) -> Model:
    """Returns the model; raises OptionError if there is none."""
    if model is None:
        raise OptionError(
            "model", "must be given, because onert's checkpoints hold no tensor names", "none"
        )
    return model


def _trainer(model: Model, fields: Callable[[Graph], Mapping[str, Any]]) -> Trainer:
    """Makes a trainer that holds the weights. No loss is computed, so an unknown one may be any.

    Args:
        model: model of the checkpoint.
        fields: returns the fields of TrainingInfo that the checkpoint stores.
    """
    recipe = prepare(lower_model(model), saved=fields)
    graph, info = recipe.graph, recipe.info
    has_loss = info.loss or all(ends_in_softmax(graph, o) for o in graph.outputs)
    return Trainer(recipe.graphs, info if has_loss else replace(info, loss="mean_squared_error"))
