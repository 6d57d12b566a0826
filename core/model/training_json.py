"""Training info as JSON, as circle_plus_gen reads and prints it.

{"optimizer": {"type": "adam", "args": {"learningRate": 0.001}},
 "loss": {"type": "cce", "args": {"fromLogits": true, "reduction": "sum over batch size"}},
 "batchSize": 32, "fineTuning": 0}

fineTuning is 0 if all operators train, -1 for none, N for the last N; trainableOps, which only odt
has, lists any other set of operators. Keys and words may be in any case, with spaces, hyphens or
underscores. Unlike in circle_plus_gen, reduction is used in either place, and unknown keys are
refused.
"""

import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odt.core.model.training_info import (
    LOSS_OPTIONS,
    OPTIMIZER_OPTIONS,
    STORABLE_LOSSES,
    STORABLE_OPTIMIZERS,
    StoredInfo,
    TrainingInfo,
)
from odt.core.options.training_options import REDUCTIONS
from odt.core.storage.json_text import without_repetition
from odt.core.storage.reading import read_input, reading, shortened_json
from odt.errors import OdtError
from odt.kernels.registry import LOSSES, OPTIMIZERS
from odt.schemas import circle_traininfo as schema

# The first spelling of each word is printed.
REDUCTION_WORDS = {name: (name.replace("_", " "),) for name in REDUCTIONS}
FLOAT32_MAX = 3.4e38  # rounded down
MISSPELLED = "fineFuning"  # fineTuning, in the example of circle_plus_gen


def _no_warning(line: str) -> None:
    """Ignores a warning."""


def read_training_json(
    path: str | os.PathLike[str], operators: int, warn: Callable[[str], None] = _no_warning
) -> TrainingInfo:
    """Reads training info from a JSON file.

    Args:
        path: the file.
        operators: number of operators of the model.
        warn: called with a warning about a misspelled word that is accepted.

    Raises:
        OdtError: if the file cannot be read or has invalid values.
    """
    data = read_input(path, "a JSON file", OdtError)
    with reading(str(path), "must be a JSON file", OdtError):
        text = data.decode()
    return parse_training_json(text, str(path), operators, warn)


def parse_training_json(
    text: str, where: str, operators: int, warn: Callable[[str], None] = _no_warning
) -> TrainingInfo:
    """Parses training info in JSON.

    Args:
        text: the JSON.
        where: its name in messages.
        operators, warn: as for `read_training_json`.

    Raises:
        OdtError: if it has invalid values.
    """
    try:
        content = json.loads(text, object_pairs_hook=without_repetition)
    except (ValueError, RecursionError) as e:
        raise OdtError(f"{where}: must be JSON, but got: {e}") from e
    legal = ("optimizer", "loss", "batchSize", "fineTuning", "trainableOps")
    if isinstance(content, dict) and MISSPELLED in content and "fineTuning" not in content:
        content["fineTuning"] = content.pop(MISSPELLED)
        warn(f"{where}: {MISSPELLED} is read as fineTuning")
    fields = _fields(content, where, legal, required=legal[:3])
    optimizer = _fields(fields["optimizer"], f"{where}: optimizer", ("type", "args"), ("type",))
    kind = _word(optimizer["type"], f"{where}: optimizer.type", _optimizer_words())
    numbers = {
        name: _number(value, f"{where}: optimizer.args.{name}", name)
        for name, value in _fields(
            optimizer.get("args", {}), f"{where}: optimizer.args", tuple(_args(kind))
        ).items()
    }
    arguments: dict[str, Any] = {}
    if "learningRate" in numbers:
        arguments["learning_rate"] = numbers.pop("learningRate")
    return TrainingInfo(
        optimizer=kind,
        hyper_parameters={_args(kind)[n]: value for n, value in numbers.items()},
        batch_size=_integer(fields["batchSize"], f"{where}: batchSize", 1, 2**31 - 1),
        trainable_ops=_trainable(fields, where, operators),
        **arguments,
        **_loss(fields["loss"], f"{where}: loss"),
    )


def _loss(value: Any, where: str) -> dict[str, Any]:
    """Returns the fields of TrainingInfo that the object of the loss sets."""
    loss = _fields(value, where, ("type", "args", "reduction"), ("type",))
    kind = _word(loss["type"], f"{where}.type", _loss_words())
    logits = "from_logits" in schema.SLOTS[LOSS_OPTIONS[kind]]
    legal = ("fromLogits", "reduction") if logits else ("reduction",)
    args = _fields(loss.get("args", {}), f"{where}.args", legal)
    arguments: dict[str, Any] = {"loss": kind}
    if "fromLogits" in args:
        arguments["from_logits"] = args["fromLogits"]
        if not isinstance(args["fromLogits"], bool):
            raise _wrong(f"{where}.args.fromLogits", "true or false", args["fromLogits"])
    places = {f"{where}.args.reduction": args, f"{where}.reduction": loss}
    reductions = {
        place: _word(at["reduction"], place, REDUCTION_WORDS)
        for place, at in places.items()
        if "reduction" in at
    }
    if len(set(reductions.values())) > 1:
        raise _wrong(f"{where}.reduction", "as in args", loss["reduction"])
    if reductions:
        arguments["reduction"] = next(iter(reductions.values()))
    return arguments


def _args(optimizer: str) -> dict[str, str]:
    """Returns name in JSON → hyper-parameter that a circle+ stores, learning rate first."""
    return {_camel(name): name for name in schema.SLOTS[OPTIMIZER_OPTIONS[optimizer]]}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _optimizer_words() -> dict[str, tuple[str, ...]]:
    """Returns the spellings of the optimizers that a circle+ stores, in the order of the schema."""
    return {name: (name, *OPTIMIZERS[name].words) for name in STORABLE_OPTIMIZERS}


def _loss_words() -> dict[str, tuple[str, ...]]:
    """Returns the spellings of the losses that a circle+ stores, in the order of the schema."""
    return {name: (name.replace("_", " "), *LOSSES[name].words) for name in STORABLE_LOSSES}


def _trainable(fields: Mapping[str, Any], where: str, operators: int) -> tuple[int, ...] | None:
    """Returns the positions of the operators that train; None for all."""
    if "trainableOps" in fields:
        listed = fields["trainableOps"]
        if "fineTuning" in fields or not isinstance(listed, list):
            raise _wrong(f"{where}: trainableOps", "a list, without fineTuning", listed)
        place = f"{where}: trainableOps"
        return tuple(_integer(n, place, 0, operators - 1) for n in listed)
    last = _integer(fields.get("fineTuning", 0), f"{where}: fineTuning", -1, operators)
    return None if last == 0 else tuple(range(operators - max(last, 0), operators))


def format_training_json(info: StoredInfo, operators: int) -> str:
    """Formats the training info of a circle+ as JSON, without absent fields."""
    args = {"learningRate": info.learning_rate}
    args |= {
        name: info.hyper_parameters.get(key)
        for name, key in _args(info.optimizer).items()
        if name not in args
    }
    loss_args = {"fromLogits": info.from_logits, "reduction": REDUCTION_WORDS[info.reduction][0]}
    content: dict[str, Any] = {
        "optimizer": {"type": _optimizer_words()[info.optimizer][0], "args": _without_absent(args)},
        "loss": {"type": _loss_words()[info.loss][0], "args": _without_absent(loss_args)},
        "batchSize": info.batch_size,
        "fineTuning": _fine_tuning(info.trainable_ops, operators),
    }
    if content["fineTuning"] is None:
        content["trainableOps"] = list(info.trainable_ops)
    return json.dumps(_without_absent(content), indent=4)


def _fine_tuning(trainable: tuple[int, ...], operators: int) -> int | None:
    """Returns the value of fineTuning; None for operators other than the last ones."""
    count = len(trainable)
    if trainable != tuple(range(operators - count, operators)):
        return None
    return {0: -1, operators: 0}.get(count, count)


def _without_absent(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _plain(word: str) -> str:
    """Returns a word in the spelling by which words are compared."""
    return re.sub(r"[-_ ]", "", word).lower()


def _fields(
    value: Any, where: str, legal: tuple[str, ...], required: Iterable[str] = ()
) -> dict[str, Any]:
    """Returns the fields of a JSON object by their names in `legal`, whose spelling may vary."""
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    names = {_plain(name): name for name in legal}
    values: dict[str, Any] = {}
    for key, field in value.items():
        name = names.get(_plain(key))
        if name is None or name in values:
            close = difflib.get_close_matches(_plain(key), names, n=1)
            hint = f" Did you mean {names[close[0]]}?" if close and name is None else ""
            twice = " twice" if name else ""
            rule = f"must have only {', '.join(legal)}, but got {shortened_json(key)}{twice}"
            raise OdtError(f"{where}: {rule}.{hint}")
        values[name] = field
    missing = [name for name in required if name not in values]
    if missing:
        actual = ", ".join(values) or "nothing"
        raise OdtError(f"{where}: must have {', '.join(missing)}, but got {actual}")
    return values


def _word(value: Any, where: str, words: Mapping[str, tuple[str, ...]]) -> str:
    """Returns the name of a word, by its spellings."""
    names = {_plain(word): name for name, spelled in words.items() for word in spelled}
    if isinstance(value, str) and _plain(value) in names:
        return names[_plain(value)]
    legal = ", ".join(word for spelled in words.values() for word in spelled)
    close = difflib.get_close_matches(_plain(str(value)), names, n=1)
    hint = f" Did you mean {words[names[close[0]]][0]}?" if close else ""
    raise OdtError(f"{where}: must be one of {legal}, but got {shortened_json(value)}.{hint}")


def _number(value: Any, where: str, name: str) -> float:
    most = 1 if name.startswith("beta") else FLOAT32_MAX
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(where, "a number", value)
    if not 0 <= value < most or (name == "learningRate" and not value):
        least = "above 0" if name == "learningRate" else "at least 0"
        raise _wrong(where, f"{least} and below {most:g}", value)
    return float(value)


def _integer(value: Any, where: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _wrong(where, f"a whole number from {low} to {high}", value)
    return value


def _wrong(where: str, rule: str, value: Any) -> OdtError:
    return OdtError(f"{where}: must be {rule}, but got {shortened_json(value)}")
