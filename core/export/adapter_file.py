"""Files of low-rank adapters: an .npz with matrices and a description, or those of others.

Array `adapters` holds JSON as bytes: format, version, hash and file name of the model, α, and index
and name of each adapted weight. Arrays `K.a` and `K.b` hold A (r, I) and B (O, r) of weight K of
this list.
"""

import io
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from odt.core.export.gguf_adapters import (
    GGUF_ENDING,
    read_gguf_adapters,
    weight_names,
    with_rows_of_circle,
    write_gguf_adapters,
)
from odt.core.export.peft_adapters import (
    ENDING,
    peft_names,
    read_peft_adapters,
    write_peft_adapters,
)
from odt.core.export.stored_adapters import StoredAdapter, StoredAdapters, base_name, check_ranks
from odt.core.lowering.low_rank import Adapter, Adapters, is_alpha
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import guard, open_input, reading
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

FORMAT = "odt-lora"
VERSION = 1
WHAT = "adapters written by odt"
RULE = f"must be {WHAT}"
ARRAY = "adapters"  # of the description
FORM = "odt"


def write_adapters(
    path: str | os.PathLike[str], adapters: Adapters, graph: Graph, model: Model
) -> None:
    """Writes adapters atomically.

    Args:
        path: the file; one that ends in .safetensors has the form of PEFT, one in .gguf that of
            llama.cpp.
        adapters: the adapters.
        graph: graph of the model that the adapters adapt, for the names of the weights.
        model: the model.

    Raises:
        DataError: if the file cannot be written, or adapters of this model have no such form.
    """
    form = _form(path)
    if form == "PEFT":
        write_peft_adapters(path, adapters, graph, model)
        return
    if form == "GGUF":
        write_gguf_adapters(path, adapters, graph, model)
        return
    weights = [
        {"tensor": adapter.tensor, "name": graph.tensors[adapter.tensor].name}
        for adapter in adapters.members
    ]
    description = {
        "format": FORMAT,
        "version": VERSION,
        "model": adapters.model,
        "base": base_name(graph),
        "alpha": adapters.alpha,
        "weights": weights,
    }
    arrays = {ARRAY: np.frombuffer(json.dumps(description).encode(), np.uint8)}
    for k, adapter in enumerate(adapters.members):
        arrays |= {f"{k}.a": adapter.a, f"{k}.b": adapter.b}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # the names are no other arguments
    write_atomically(path, [file.getvalue()], DataError)


def read_adapter_file(path: str | os.PathLike[str]) -> StoredAdapters:
    """Reads adapters as the file holds them.

    Args:
        path: an .npz of odt, the .safetensors of PEFT or their folder, or a .gguf.

    Raises:
        DataError: if the file cannot be read or is damaged.
    """
    form = "PEFT" if os.path.isdir(path) else _form(path)
    if form == "PEFT":
        return read_peft_adapters(path)
    if form == "GGUF":
        return read_gguf_adapters(path)
    import zipfile

    name = os.fspath(path)
    with (
        open_input(name, WHAT) as source,
        reading(name, RULE),
        zipfile.ZipFile(source) as archive,
    ):
        guard(name, os.path.getsize(name), sum(m.file_size for m in archive.infolist()))
        source.seek(0)
        file = np.load(source, allow_pickle=False)
        description: dict[str, Any] = json.loads(file[ARRAY].tobytes())
        if (description["format"], description["version"]) != (FORMAT, VERSION):
            raise ValueError(f"format {description['format']} {description['version']}")
        members = tuple(
            StoredAdapter(
                str(weight["name"]),
                _matrix(file[f"{k}.a"]),
                _matrix(file[f"{k}.b"]),
                int(weight["tensor"]),
            )
            for k, weight in enumerate(description["weights"])
        )
        check_ranks(members)
        alpha, model = description["alpha"], str(description["model"])
        if not is_alpha(alpha):
            raise ValueError(f"alpha {alpha}")
        base = str(description.get("base", ""))  # files of odt before November 2026 have none
    return StoredAdapters(name, FORM, float(alpha), members, model, base)


def read_adapters(
    path: str | os.PathLike[str], model: Model, graph: Callable[[], Graph]
) -> Adapters:
    """Reads adapters of a model, whose fit to it `adapt` checks.

    Args:
        path: as for `read_adapter_file`.
        model: the model.
        graph: returns its graph with float32 weights, for the names of weights.

    Raises:
        DataError: if the file cannot be read or is damaged, or has adapters of other weights.
    """
    stored = read_adapter_file(path)
    if stored.form == FORM:
        members = tuple(Adapter(m.tensor, m.a, m.b) for m in stored.members)
        return Adapters(stored.model, stored.alpha, members)
    if stored.form == "PEFT":
        return stored.matched(graph(), peft_names(graph(), model))
    return with_rows_of_circle(stored, model).matched(graph(), weight_names(graph()))


def _form(path: str | os.PathLike[str]) -> str:
    """Returns whose form a file of this name has."""
    name = os.fspath(path).lower()
    endings = {ENDING: "PEFT", GGUF_ENDING: "GGUF"}
    return next((form for ending, form in endings.items() if name.endswith(ending)), FORM)


def _matrix(values: Array) -> Array:
    """Returns an array; raises ValueError if it is no float32 matrix of finite numbers."""
    if values.dtype != np.float32 or values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(
            f"an array {values.shape} {values.dtype} that is no float32 matrix of finite numbers"
        )
    return values
