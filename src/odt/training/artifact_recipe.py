"""The recipe of an artifacts folder: the options that its checkpoint does not keep, in TOML.

`odt train` reads it, too. The parsers here raise ValueError for a value that odt does not write.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from odt.core.model.graph import FIXED
from odt.core.model.model import Model
from odt.core.storage.json_text import json_text
from odt.core.storage.reading import printable, read_input, reason
from odt.errors import ModelError
from odt.kernels.loss_text import stored_loss
from odt.training.artifact_files import MAX_BYTES, RECIPE
from odt.training.option_forms import Pairs, pairs_of


def _texts(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(v, str) for v in values):
        raise ValueError(f"{printable(value)} instead of strings")
    return tuple(values)


def _text(value: Any) -> str:
    (text,) = _texts(value)
    return text


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{printable(value)} instead of a whole number")
    return value


def _by_name(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = [text.rpartition("=") for text in _texts(value)]  # names may have an =
    return tuple((name, last) for name, _, last in pairs)


def _stored_losses(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, stored_loss(loss)) for name, loss in _by_name(value))


def _weights(value: Any) -> tuple[tuple[str, float], ...]:
    return tuple((name, float(weight)) for name, weight in _by_name(value))


def _shapes(value: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(map(int, shape.split("x"))) for name, shape in _by_name(value)}


def _input_values(value: Any) -> dict[str, list[float]]:
    return {name: [*map(_number, text.split(","))] for name, text in _by_name(value)}


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


# Key of the recipe, an option of odt train → argument of Trainer, and the parser of its value.
KEYS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "memory-budget": ("memory_budget", _whole),
    "micro-batch": ("micro_batch", _whole),
    "workers": ("workers", _whole),
    "metric": ("metrics", _texts),
    "cache-frozen": ("cache_frozen", _text),
    "cache-dtype": ("cache_dtype", _text),
    "output-loss": ("output_losses", _stored_losses),
    "loss-weight": ("loss_weights", _weights),
    "input-shape": ("input_shapes", _shapes),
    "input-value": ("input_values", _input_values),
}
INPUT_OPTIONS = ("input_shapes", "input_values")  # arguments of load_model
EQUATIONS = ("output_losses", "loss_weights", *INPUT_OPTIONS)  # written as NAME=VALUE
FILES = ("model", "adapters", "checkpoint")  # keys whose values the manifest determines


def interface_options(model: Model) -> dict[str, dict[str, str]]:
    """Returns shapes and values of inputs that a user has given, not the file, for a recipe.

    Args:
        model: the model.

    Returns:
        Argument of load_model → name of an input → text such as 1x16000 or 0.5,1.
    """
    tensors = model.graph.tensors
    shapes = {tensors[i].name: shape for i, shape in model.input_shapes.items()}
    values = {t.name: t.data for t in tensors if t.constant_reason == FIXED and t.data is not None}
    return {
        "input_shapes": {name: "x".join(map(str, shape)) for name, shape in shapes.items()},
        "input_values": {
            name: ",".join(map(str, data.reshape(-1).tolist())) for name, data in values.items()
        },
    }


def recipe_text(files: Mapping[str, str], options: Mapping[str, Any]) -> str:
    """Returns the recipe as TOML.

    Args:
        files: key → name of the file.
        options: argument of Trainer → value; None and empty values are left out.
    """
    values: dict[str, Any] = dict(files)
    for key, (name, _) in KEYS.items():
        value = options.get(name)
        if isinstance(value, tuple | dict) and name in EQUATIONS:
            value = _equations(key, value)
        if value not in (None, (), []):
            values[key] = list(value) if isinstance(value, tuple) else value
    # A value in JSON is one in TOML, except that TOML escapes the control character DEL.
    lines = [
        f"{key} = {json_text(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
        for key, value in values.items()
    ]
    return "\n".join(lines) + "\n"


def _equations(key: str, pairs: Pairs[Any]) -> list[str]:
    return [f"{name}={value}" for name, value in pairs_of(key, pairs)]


def read_recipe(folder: str) -> dict[str, Any]:
    """Reads the recipe of a folder; returns the arguments of Trainer.

    Raises:
        ModelError: if the file is damaged, or has an unknown key.
    """
    import tomllib

    path = os.path.join(folder, RECIPE)
    text = read_input(path, "a recipe of artifacts", ModelError, MAX_BYTES)
    try:
        values = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as e:
        raise ModelError(f"{path}: must be a recipe in TOML, but got: {reason(e)}.") from e
    options = {}
    for key, value in values.items():
        if key in FILES:
            continue
        if key not in KEYS:
            raise ModelError(
                f"{path}: keys must be {', '.join((*FILES, *KEYS))}, but got {printable(key)}."
            )
        name, parse = KEYS[key]
        try:
            options[name] = parse(value)
        except ValueError as e:
            raise ModelError(f"{path}: {key}: must be as odt writes it, but got: {e}.") from e
    return options
