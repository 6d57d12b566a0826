"""Files of low-rank adapters: an .npz with matrices and a description.

Array `adapters` holds JSON as bytes: format, version, hash of the model, α, and index and name of
each adapted weight. Arrays `K.a` and `K.b` hold A (r, I) and B (O, r) of weight K of this list.
"""

import io
import json
import os
from typing import Any

import numpy as np

from odt.core.lowering.low_rank import Adapter, Adapters
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.recipe.lowered_model import LoweredModel, Outputs, lower_model
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
        path: the file.
        adapters: the adapters.
        graph: graph of the model that the adapters adapt, for the names of the weights.

    Raises:
        DataError: if the file cannot be written.
    """
    weights = [
        {"tensor": adapter.tensor, "name": graph.tensors[adapter.tensor].name}
        for adapter in adapters.each
    ]
    described = {
        "format": FORMAT,
        "version": VERSION,
        "model": adapters.model,
        "alpha": adapters.alpha,
        "weights": weights,
    }
    arrays = {"adapters": np.frombuffer(json.dumps(described).encode(), np.uint8)}
    for k, adapter in enumerate(adapters.each):
        arrays |= {f"{k}.a": adapter.a, f"{k}.b": adapter.b}
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]  # the names are no other arguments
    write_atomically(path, [file.getvalue()], DataError)


def read_adapters(path: str | os.PathLike[str]) -> Adapters:
    """Reads adapters.

    Raises:
        DataError: if the file cannot be read or is damaged.
    """
    import zipfile

    name = os.fspath(path)
    with reading(name, RULE), zipfile.ZipFile(name), np.load(name, allow_pickle=False) as file:
        guard(name, os.path.getsize(name), sum(m.file_size for m in file.zip.infolist()))
        described: dict[str, Any] = json.loads(file["adapters"].tobytes())
        if (described["format"], described["version"]) != (FORMAT, VERSION):
            raise ValueError(f"format {described['format']} {described['version']}")
        each = tuple(
            Adapter(int(weight["tensor"]), _matrix(file[f"{k}.a"]), _matrix(file[f"{k}.b"]))
            for k, weight in enumerate(described["weights"])
        )
        alpha, model = described["alpha"], str(described["model"])
        ranks = {n for adapter in each for n in (len(adapter.a), adapter.b.shape[1])}
        if len(ranks) != 1 or not is_number(alpha) or alpha <= 0:
            raise ValueError(f"ranks {sorted(ranks)}, alpha {alpha}")
    return Adapters(model, float(alpha), each)


def lower_adapted(file: Model, path: str | None, *, outputs: Outputs = "training") -> LoweredModel:
    """Lowers a model file, with the adapters in a file if there is one.

    Args:
        file: the model file.
        path: the file of adapters; None for none.
        outputs: as of `lower_model`; adapters are merged if they are not those of training.

    Raises:
        DataError: if the adapters cannot be read.
        ModelError: if they were made for another model.
    """
    if path is None:
        return lower_model(file, outputs=outputs)
    trained = lower_model(file, read_adapters(path))
    if outputs == "training" or trained.left_out is None or trained.adapted is None:
        return trained
    return lower_model(file, outputs=outputs).with_weights(trained.adapted.merged({}))


def _matrix(values: Array) -> Array:
    if values.dtype != np.float32 or values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(f"an array {values.shape} {values.dtype} that is not a float32 matrix")
    return values
