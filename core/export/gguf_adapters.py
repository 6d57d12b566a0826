"""Low-rank adapters as llama.cpp reads them: GGUF files that are applied to a GGUF model.

The tensors NAME.lora_a (r, I) and NAME.lora_b (O, r) adapt the tensor NAME of that model. They
belong to the Circle file that was converted from it, whose weights keep its names. Rows of queries
and keys are in the order of the GGUF model, which may differ from that of the Circle file.
Source: src/llama-adapter.cpp of llama.cpp reads these names.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from odt.core.export.language_model import ARCHITECTURE
from odt.core.export.language_names import ROTATED, Language, language_of
from odt.core.export.stored_adapters import (
    StoredAdapters,
    base_name,
    stored_pairs,
)
from odt.core.formats.gguf.reader import Gguf, GgufTensor, entry_text, read_gguf
from odt.core.formats.gguf.writer import encode, float_tensor
from odt.core.lowering.low_rank import Adapters, adaptable, is_alpha
from odt.core.model.bfloat16 import from_bfloat16
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import listed, printable, reading
from odt.errors import DataError, ModelError
from odt.kernels.rows.opdef import Array

GGUF_ENDING = ".gguf"
FORM = "GGUF"
TYPE = "general.type"
KIND, ALPHA = "adapter.type", "adapter.lora.alpha"
BASE_COUNT, BASE = "general.base_model.count", "general.base_model.0.name"
HASH = "odt.model"
NAME = re.compile(r"(.+)\.lora_([ab])", re.DOTALL)
FLOATS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def holds_adapters(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a whole GGUF file of adapters."""
    with suppress(ModelError):
        return entry_text(read_gguf(path).metadata, TYPE, "model") == "adapter"
    return False


def check_language_model(path: str | os.PathLike[str], model: Model) -> None:
    """Refuses the name of a new file of adapters that only models from GGUF have.

    Raises:
        DataError: if it ends in .gguf and the model was not converted from GGUF.
    """
    if os.fspath(path).lower().endswith(GGUF_ENDING):
        _language(os.fspath(path), model)


def write_gguf_adapters(
    path: str | os.PathLike[str], adapters: Adapters, graph: Graph, model: Model
) -> None:
    """Writes adapters.

    Args:
        path: the file.
        adapters: the adapters.
        graph: graph of the model that the adapters adapt, for the names of the weights.
        model: the model, which must have been converted from GGUF.

    Raises:
        DataError: if the model was not, or the file cannot be written.
    """
    language = _language(os.fspath(path), model)
    names = {i: name for name, i in weight_names(graph).items()}
    tensors = {}
    for adapter in adapters.members:
        name = names[adapter.tensor]
        tensors[f"{name}.lora_a"] = float_tensor(adapter.a)
        tensors[f"{name}.lora_b"] = float_tensor(language.rows_of_gguf(name, adapter.b))
    metadata = {
        TYPE: "adapter",
        ARCHITECTURE: language.architecture,
        KIND: "lora",
        ALPHA: float(adapters.alpha),
        BASE_COUNT: 1,
        BASE: base_name(graph),
        HASH: adapters.model,
    }
    write_atomically(path, encode(metadata, tensors), DataError)


def read_gguf_adapters(path: str | os.PathLike[str]) -> StoredAdapters:
    """Reads adapters of llama.cpp or odt.

    Raises:
        DataError: if the file cannot be read or is damaged, or holds something else.
    """
    try:
        file = read_gguf(path)
    except ModelError as e:
        raise DataError(str(e)) from e
    name, metadata = file.path, file.metadata
    file_type, kind = entry_text(metadata, TYPE, "model"), entry_text(metadata, KIND, "lora")
    if (file_type, kind) != ("adapter", "lora"):
        actual = f"{TYPE} {file_type}, {KIND} {kind}"
        hint = " `odt convert` makes a Circle model of it." if file_type == "model" else ""
        raise DataError(f"{name}: must be low-rank adapters, but got {actual}.{hint}")
    with reading(name, "must be low-rank adapters in GGUF"):
        members = stored_pairs(_matrices(file))
        rank = len(members[0].a)
        alpha = metadata.get(ALPHA, 0.0) or rank  # llama.cpp then does not scale
        if not is_alpha(alpha):
            raise ValueError(f"{ALPHA} {printable(alpha)}")
    base = [metadata.get(key, "") for key in (BASE, ARCHITECTURE)]
    texts = [text for text in base if isinstance(text, str) and text]
    model = metadata.get(HASH, "")
    return StoredAdapters(
        name, FORM, float(alpha), members, model if isinstance(model, str) else "", ", ".join(texts)
    )


def with_rows_of_circle(stored: StoredAdapters, model: Model) -> StoredAdapters:
    """Returns adapters whose rows are in the order of the converted model.

    Raises:
        DataError: if the model was not converted from GGUF, or has heads of other size.
    """
    language = _language(stored.path, model)
    members = []
    for m in stored.members:
        if len(m.b) % language.head and ROTATED.fullmatch(m.name):
            raise DataError(
                f"{stored.path}: B of {listed([m.name])} must have rows of heads of "
                f"{language.head}, as in {model.path}, but got {len(m.b)} rows."
            )
        members.append(replace(m, b=language.rows_of_circle(m.name, m.b)))
    return replace(stored, members=tuple(members))


def weight_names(graph: Graph) -> dict[str, int]:
    """Returns the weights that can have adapters, by name."""
    names = {i: graph.tensors[i].name for i, _ in adaptable(graph)}
    counts = Counter(names.values())
    return {name: i for i, name in names.items() if name and counts[name] == 1}


def _matrices(file: Gguf) -> Iterator[tuple[str, str, Array]]:
    """Yields name of the weight, letter and matrix."""
    for name, tensor in file.tensors.items():
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"a tensor {listed([name])}")
        yield match[1], match[2].upper(), _floats(name, tensor)


def _floats(name: str, tensor: GgufTensor) -> Array:
    """Returns the values of a tensor as float32."""
    kind = tensor.kind.name
    if kind not in FLOATS:
        raise ValueError(f"{listed([name])} of {kind}, not {', '.join(FLOATS)}")
    stored = tensor.data.view(FLOATS[kind])
    if kind == "BF16":
        stored = from_bfloat16(stored)
    values = stored.astype(np.float32).reshape(tensor.shape)
    if not np.isfinite(values).all():
        raise ValueError(f"{listed([name])} with numbers that are not finite")
    return values


def _language(path: str, model: Model) -> Language:
    """Returns the language model from which a model was converted.

    Raises:
        DataError: if it was converted from none.
    """
    language = language_of(model)
    if language is None:
        raise DataError(
            f"{path}: adapters in GGUF must belong to a model that odt convert made of a GGUF "
            f"file, but got {model.path}. Give a name that ends in .npz or .safetensors."
        )
    return language
