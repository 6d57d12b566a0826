"""Resolves training info: options of the user override the model's, which override defaults."""

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from odt.core.formats.flatbuffer.subgraphs import CONTROL_FLOW
from odt.core.lowering.final_activation import moved_activation
from odt.core.model.graph import Graph
from odt.core.model.integer_operators import CONVERSIONS
from odt.core.model.training_info import STORABLE_LOSSES, TrainingInfo
from odt.core.model.variables import STATE, SVDF
from odt.core.recipe.option_values import check_values, check_word
from odt.core.recipe.output_losses import ends_in_softmax
from odt.errors import OptionError
from odt.kernels.loss_text import parse_loss
from odt.kernels.registry import LOSSES, OPTIMIZERS, find_operator
from odt.kernels.rows.lossdef import FRACTIONS

OTHERS = -2  # in place of a number of trainable operators, if they are not the last ones


def last_operators(graph: Graph, count: int) -> tuple[int, ...] | None:
    """Returns the positions of the last operators of a file; None (all) if count is −1.

    QUANTIZE, DEQUANTIZE and operators without gradient at the end of the file do not count.

    Args:
        graph: the graph of the file, without the operators that training leaves out.
        count: number of operators.

    Raises:
        OptionError: if the file has fewer operators.
    """
    total = counted_operators(graph)
    if count == -1:
        return None
    if count > total:
        raise OptionError(
            "last", f"must be at most {total}, the model's operators", count, "Give -1 for all."
        )
    return tuple(range(total - count, total))


def counted_operators(graph: Graph) -> int:
    """Returns the number of a file's operators without those at its end that never train.

    Args:
        graph: as for `last_operators`.
    """
    last = (n.origin for n in reversed(graph.nodes) if not _never_trains(n.op))
    return next(last, -1) + 1


def _never_trains(op: str) -> bool:
    """Whether an operator converts numbers, has no gradient or cannot be computed."""
    if op in (*CONTROL_FLOW, *STATE, SVDF):
        return False
    row = find_operator(op)
    return op in CONVERSIONS or row is None or not row.grads


def listed_operators(graph: Graph, text: str) -> tuple[int, ...]:
    """Parses positions of operators given as numbers and ranges: 0-3,7.

    Raises:
        OptionError: if the text is not such a list, or the file has no operator at a position.
    """
    total = len(graph.nodes)
    positions: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < total:
            raise OptionError(
                "operators",
                f"must be positions of the model's {total} operators such as 0-{total - 1}",
                text,
            )
        positions |= set(range(first, last + 1))
    return tuple(sorted(positions))


def number_of_last(graph: Graph, operators: tuple[int, ...] | None) -> int:
    """Returns N if a set is the last N operators; −1 for all operators, OTHERS for another set."""
    total = counted_operators(graph)
    if operators is None:
        return -1
    numbers = {k for k in operators if k < total}
    if numbers != set(range(total - len(numbers), total)):
        return OTHERS
    return -1 if len(numbers) == total else len(numbers)


def resolve(
    graph: Graph,
    stored: Mapping[str, Any],
    options: Mapping[str, Any],
    hyper_parameters: Mapping[str, Any],
    num_of_trainable_ops: int | None = None,
) -> TrainingInfo:
    """Resolves training info. Only the loss may stay None: then the output determines it.

    Args:
        graph: as for `last_operators`.
        stored: fields of TrainingInfo that the model holds.
        options: fields that the user set.
        hyper_parameters: hyper-parameters that the user gave; None for others.
        num_of_trainable_ops: number of last operators that train, if the user gave it.

    Raises:
        OptionError: for an invalid value.
    """
    new_fields = dict(options)
    if num_of_trainable_ops is not None:
        new_fields["trainable_ops"] = last_operators(graph, num_of_trainable_ops)
    values = {**stored, **new_fields}
    if "trainable_ops" in new_fields:
        values["trainable_tensors"] = None
    new_values = {name: value for name, value in hyper_parameters.items() if value is not None}
    is_same = values.get("optimizer") == stored.get("optimizer")
    before = stored.get("hyper_parameters", {}) if is_same else {}
    values["hyper_parameters"] = {**before, **new_values}
    optimizer = values.get("optimizer", TrainingInfo().optimizer)
    check_word("optimizer", optimizer, OPTIMIZERS)
    rule = OPTIMIZERS[optimizer]
    if rule.onert is None:  # others have the default of TrainingInfo, as in onert_train
        values.setdefault("learning_rate", rule.learning_rate)
    info = TrainingInfo(**values)
    check_values(info)
    names = [f.name for f in fields(rule.attrs)]
    for name in new_values:
        if name not in names:
            listed = ", ".join(f"`{n}=`" for n in names)
            raise OptionError(name, f"{info.optimizer} has no such value; it has {listed}")
    return info


def origins(stored: Collection[str], new: Collection[str]) -> dict[str, str]:
    """Returns field of TrainingInfo → origin of its value.

    Args:
        stored: fields that the model holds.
        new: fields that the user gave.
    """
    names = {field.name: "default" for field in fields(TrainingInfo)}
    names |= dict.fromkeys(names.keys() & stored, "circle+")
    return names | dict.fromkeys(names.keys() & new, "command line")


def contradiction(graph: Graph, info: TrainingInfo) -> str | None:
    """Returns a warning if the loss or the stored from_logits contradicts the graph, else None."""
    softmax = [i for i in graph.outputs if ends_in_softmax(graph, i)]
    if info.loss is not None and softmax and LOSSES[parse_loss(info.loss)[0]].targets == FRACTIONS:
        return (
            f"{graph.name}: {graph.label(softmax[0])} ends in SOFTMAX, whose values add up to 1, "
            f"but {info.loss.replace('_', '-')} treats each value independently. Use "
            "categorical-crossentropy, or a model that ends in LOGISTIC."
        )
    if info.loss is not None and LOSSES[parse_loss(info.loss)[0]].probabilities:
        for output in graph.outputs:
            node = moved_activation(graph, output)
            if node is not None:
                return (
                    f"{graph.name}: {graph.label(output)} holds values of {node.op} (node "
                    f"{node.origin}) that later operators move, but {info.loss.replace('_', '-')} "
                    "uses them as logits. Use a model that ends "
                    f"in {node.op}, or mean-squared-error."
                )
    if info.from_logits is None or not _of_softmax(info):
        return None
    for output in graph.outputs:
        probabilities = ends_in_softmax(graph, output)
        if probabilities == info.from_logits:
            end = "ends in SOFTMAX" if probabilities else "does not end in SOFTMAX"
            stored_value = str(info.from_logits).lower()
            return (
                f"{graph.name}: from_logits is {stored_value} in the training info, but "
                f"{graph.label(output)} {end}. Its {'probabilities' if probabilities else 'logits'}"
                " are used as such."
            )
    return None


def values_used(graph: Graph, info: TrainingInfo) -> TrainingInfo:
    """Returns training info with explicit defaults and from_logits, as a circle+ stores it."""
    rule = OPTIMIZERS[info.optimizer]
    logits = not all(ends_in_softmax(graph, output) for output in graph.outputs)
    return replace(
        info,
        hyper_parameters=rule.stored(rule.attrs(**info.hyper_parameters)),
        from_logits=logits if _of_softmax(info) else None,
    )


def _of_softmax(info: TrainingInfo) -> bool:
    """Whether a circle+ stores from_logits for the loss: it is fused with a SOFTMAX."""
    if info.loss is None:
        return False
    name, _ = parse_loss(info.loss)
    return name in STORABLE_LOSSES and LOSSES[name].fuses_with == "SOFTMAX"
