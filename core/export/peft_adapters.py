"""Low-rank adapters as PEFT stores them: a folder with two files.

adapter_model.safetensors holds A and B of each adapted weight under the name of its module, and
adapter_config.json the rank r and α. A weight `fc1.weight` belongs to the module `fc1`; one with
another name, such as `dense/MatMul`, to a module of that name. Weights of language models from GGUF
belong to their modules in transformers. Files that odt writes also hold the hash and the file name
of the model, which PEFT ignores.
Source: *Checkpoint format* in the documentation of PEFT.
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

from odt.core.export.language_names import language_of, module_of
from odt.core.export.safetensors_file import Entry, encode, read_header
from odt.core.export.stored_adapters import StoredAdapters, base_name, stored_pairs
from odt.core.lowering.low_rank import Adapters, adaptable, is_alpha
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.storage.atomic_files import AtomicFile
from odt.core.storage.reading import listed, open_input, read_input, reading
from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.scalars import is_number

ENDING = ".safetensors"
ARRAYS, CONFIG = "adapter_model.safetensors", "adapter_config.json"  # names that PEFT expects
PREFIX = "base_model.model."  # of the modules in PEFT's wrapper of a model
NAME = re.compile(re.escape(PREFIX) + r"(.+)\.lora_([AB])\.weight", re.DOTALL)
NUMBERED = "tensor_"  # begins the module of a weight without a name of its own
HASH, BASE = "odt.model", "odt.base"  # keys of the metadata
FORM = "PEFT"
MAX_CONFIG = 1 << 20
# Fields of adapter_config.json that change what adapters compute; odt does not support them.
VARIANTS = (
    *("alora_invocation_tokens", "alpha_pattern", "arrow_config", "kasa_config"),
    *("layer_replication", "lora_bias", "modules_to_save", "monteclora_config", "rank_pattern"),
    *("trainable_token_indices", "use_bdlora", "use_dora", "use_qalora"),
)
# Beginnings of `init_lora_weights` with which PEFT subtracts the first product of B and A from the
# weights of the model, so that the adapters fit only the weights that result.
SUBTRACTED = "pissa", "corda", "olora", "loftq", "lora_ga"


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuses the name of a new file that PEFT would not find.

    Raises:
        DataError: if it ends in .safetensors and is not the name that PEFT expects.
    """
    folder, name = os.path.split(os.fspath(path))
    if name.lower().endswith(ENDING) and name != ARRAYS:
        raise DataError(
            f"{os.fspath(path)}: must be named {ARRAYS}, as PEFT expects, in a folder of its own, "
            f"but got {name}. Give {os.path.join(folder, name[: -len(ENDING)], ARRAYS)}, or a name "
            "that ends in .npz."
        )


def write_peft_adapters(
    path: str | os.PathLike[str], adapters: Adapters, graph: Graph, model: Model
) -> None:
    """Writes adapters, and the file with their rank and α beside them.

    Args:
        path: the file of the arrays, named ARRAYS.
        adapters: the adapters.
        graph: graph of the model that the adapters adapt, for the names of the weights.
        model: the model.

    Raises:
        DataError: if a file cannot be written. If there is no room for both, existing ones stay.
    """
    check_name(path)
    names = {i: name for name, i in peft_names(graph, model).items()}
    convolved = {n.inputs[1] for n in graph.nodes if n.op == "CONV_2D"}
    arrays = {}
    for adapter in adapters.members:
        axes = (1, 1) if adapter.tensor in convolved else ()  # of a filter
        for letter, matrix in (("A", adapter.a), ("B", adapter.b)):
            name = f"{PREFIX}{names[adapter.tensor]}.lora_{letter}.weight"
            arrays[name] = matrix.reshape(*matrix.shape, *axes)
    alpha = adapters.alpha
    config = {
        "peft_type": "LORA",
        "r": adapters.rank,
        "lora_alpha": int(alpha) if alpha.is_integer() else alpha,
        "target_modules": [names[adapter.tensor] for adapter in adapters.members],
        "bias": "none",
        "inference_mode": True,
    }
    beside = os.path.join(os.path.dirname(os.fspath(path)), CONFIG)
    with AtomicFile(path, DataError) as file, AtomicFile(beside, DataError) as config_file:
        for chunk in encode(arrays, {"format": "pt", HASH: adapters.model, BASE: base_name(graph)}):
            file.write(chunk)
        config_file.write(json.dumps(config, indent=2).encode())
        for each in (file, config_file):  # neither replaces a file before both are complete
            each.flush()


def read_peft_adapters(path: str | os.PathLike[str]) -> StoredAdapters:
    """Reads adapters of PEFT or odt.

    Args:
        path: the file of the arrays, or its folder.

    Raises:
        DataError: if a file cannot be read or is damaged, or the adapters are of another kind.
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        name = os.path.join(name, ARRAYS)
    config = _read_config(os.path.join(os.path.dirname(name), CONFIG))
    with open_input(name) as file, reading(name, "must be adapters of PEFT in safetensors"):
        entries, metadata = read_header(file)
        members = stored_pairs(_matrices(file, entries, config.rank))
    base = metadata.get(BASE, config.base)
    return StoredAdapters(name, FORM, config.alpha, members, metadata.get(HASH, ""), base)


def peft_names(graph: Graph, model: Model) -> dict[str, int]:
    """Returns the weights that can have adapters, by name of their module."""
    language = language_of(model)
    names = {i: module_of(graph.tensors[i].name, language) for i, _ in adaptable(graph)}
    counts = Counter(names.values())
    modules = {}
    for i, name in names.items():
        is_unique = name and counts[name] == 1 and not name.startswith(NUMBERED)
        modules[name if is_unique else f"{NUMBERED}{i}"] = i
    return modules


@dataclass(frozen=True, slots=True)
class _Config:
    """What adapter_config.json says.

    Attributes:
        rank: r.
        alpha: α, for the scale α / r.
        base: name of the model; may be empty.
    """

    rank: int
    alpha: float
    base: str


def _read_config(path: str) -> _Config:
    """Reads adapter_config.json."""
    content = read_input(path, "the file that PEFT writes beside adapters", most=MAX_CONFIG)
    with reading(path, "must be a configuration of LoRA by PEFT"):
        config: dict[str, Any] = json.loads(content)
        kind, rank, alpha = config["peft_type"], config["r"], config["lora_alpha"]
        if kind != "LORA":
            raise ValueError(f"peft_type {listed([kind])}")
        if type(rank) is not int or rank < 1 or not is_number(alpha):
            raise ValueError(f"r {listed([rank])}, lora_alpha {listed([alpha])}")
        variants = [field for field in VARIANTS if config.get(field)]
        if config.get("bias", "none") != "none":
            variants.append("bias")
        if variants:
            raise DataError(
                f"{path}: adapters must be matrices A and B alone, but got {', '.join(variants)}. "
                "Train them in PEFT without these options."
            )
        start = config.get("init_lora_weights")
        if isinstance(start, str) and start.lower().startswith(SUBTRACTED):
            raise DataError(
                f"{path}: adapters must fit the weights of the model as it is, but got "
                f"init_lora_weights {listed([start])}, which changed them. Convert the adapters in "
                "PEFT: save_pretrained(…, path_initial_model_for_weight_conversion=…)."
            )
        scale = math.sqrt(rank) if config.get("use_rslora") else 1.0  # α / √r instead of α / r
        if not is_alpha(alpha * scale):
            raise ValueError(f"r {listed([rank])}, lora_alpha {listed([alpha])}")
        base = config.get("base_model_name_or_path")
        return _Config(rank, float(alpha) * scale, base if isinstance(base, str) else "")


def _matrices(
    file: BufferedReader, entries: dict[str, Entry], rank: int
) -> Iterator[tuple[str, str, Array]]:
    """Yields module, letter and matrix; convolutions have axes of the filter's height and width."""
    for name, entry in entries.items():
        match = NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"an array {listed([name])}")
        shape, axis = entry.shape[:2], 0 if match[2] == "A" else 1
        if entry.shape not in (shape, (*shape, 1, 1)) or shape[axis : axis + 1] != (rank,):
            raise ValueError(
                f"{match[2]} of {listed([match[1]])} of shape {entry.shape}, and r {rank}"
            )
        yield match[1], match[2], entry.read(file).reshape(shape)
