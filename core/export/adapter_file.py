"""Files of low-rank adapters: an .npz with matrices and a description, or those of PEFT.

Array `adapters` holds JSON as bytes: format, version, hash of the model, α, and index and name of
each adapted weight. Arrays `K.a` and `K.b` hold A (r, I) and B (O, r) of weight K of this list.
"""

import io
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from odt.core.export.peft_adapters import ENDING, read_peft_adapters, write_peft_adapters
from odt.core.lowering.low_rank import Adapter, Adapters
from odt.core.model.graph import Graph
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import guard, reading
from odt.errors import DataError
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.updatedef import is_number

FORMAT = "odt-lora"
VERSION = 1
RULE = "must be adapters written by odt"


def write_adapters(path: str | os.PathLike[str], adapters: Adapters, graph: Graph) -> None:
    """Writes adapters atomically.

    Args:
        path: the file; one that ends in .safetensors has the form of PEFT.
        adapters: the adapters.
        graph: graph of the model that the adapters adapt, for the names of the weights.

    Raises:
        DataError: if the file cannot be written.
    """
    if _is_peft(path):
        write_peft_adapters(path, adapters, graph)
        return
    weights = [
        {"tensor": adapter.tensor, "name": graph.tensors[adapter.tensor].name}
        for adapter in adapters.members
    ]
    description = {
        "format": FORMAT,
        "version": VERSION,
        "model": adapters.model,
        "alpha": adapters.alpha,
        "weights": weights,
    }
    arrays = {"adapters": np.frombuffer(json.dumps(description).encode(), np.uint8)}
    for k, adapter in enumerate(adapters.members):
        arrays |= {f"{k}.a": adapter.a, f"{k}.b": adapter.b}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # the names are no other arguments
    write_atomically(path, [file.getvalue()], DataError)


def read_adapters(path: str | os.PathLike[str], graph: Callable[[], Graph]) -> Adapters:
    """Reads adapters, whose fit to a model `adapt` checks.

    Args:
        path: an .npz, or the .safetensors of PEFT or their folder.
        graph: returns the model's graph with float32 weights, for the names of PEFT's modules.

    Raises:
        DataError: if the file cannot be read or is damaged.
    """
    if _is_peft(path) or os.path.isdir(path):
        return read_peft_adapters(path, graph())
    import zipfile

    name = os.fspath(path)
    with reading(name, RULE), zipfile.ZipFile(name), np.load(name, allow_pickle=False) as file:
        guard(name, os.path.getsize(name), sum(m.file_size for m in file.zip.infolist()))
        description: dict[str, Any] = json.loads(file["adapters"].tobytes())
        if (description["format"], description["version"]) != (FORMAT, VERSION):
            raise ValueError(f"format {description['format']} {description['version']}")
        members = tuple(
            Adapter(int(weight["tensor"]), _matrix(file[f"{k}.a"]), _matrix(file[f"{k}.b"]))
            for k, weight in enumerate(description["weights"])
        )
        alpha, model = description["alpha"], str(description["model"])
        ranks = {n for adapter in members for n in (len(adapter.a), adapter.b.shape[1])}
        if len(ranks) != 1 or not is_number(alpha) or alpha <= 0:
            raise ValueError(f"ranks {sorted(ranks)}, alpha {alpha}")
    return Adapters(model, float(alpha), members)


def _is_peft(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).lower().endswith(ENDING)


def _matrix(values: Array) -> Array:
    """Returns an array; raises ValueError if it is no float32 matrix of finite numbers."""
    if values.dtype != np.float32 or values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(
            f"an array {values.shape} {values.dtype} that is no float32 matrix of finite numbers"
        )
    return values
