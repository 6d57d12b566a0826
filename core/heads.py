"""Which loss an output gets, and what it reads."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from odt.core.graph import Graph, Node
from odt.core.lower import file_batch, lower
from odt.core.plans.autodiff import Loss
from odt.core.training_info import LOSSES, TrainingInfo
from odt.errors import OptionError

T = TypeVar("T")

CROSS_ENTROPIES = ("categorical_crossentropy", "sparse_categorical_crossentropy")
BINARY = "binary_crossentropy"
# A loss that is computed from the input of the operator that makes probabilities of it.
_TAKES_IN = {**dict.fromkeys(CROSS_ENTROPIES, "SOFTMAX"), BINARY: "LOGISTIC"}
_DEFAULTS = {"SOFTMAX": CROSS_ENTROPIES[0], "LOGISTIC": BINARY}

# Operators that leave a distribution a distribution.
_SHAPE_ONLY = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def producer(graph: Graph, tensor: int) -> Node | None:
    """The node that makes a tensor."""
    return next((n for n in graph.nodes if tensor in n.outputs), None)


def ending(graph: Graph, output: int) -> str:
    """The operator that an output's values come from, whatever shape they then got."""
    node = producer(graph, output)
    while node is not None and node.op in _SHAPE_ONLY:
        node = producer(graph, node.inputs[0])
    return node.op if node else ""


def ends_in_softmax(graph: Graph, output: int) -> bool:
    """Whether an output is a distribution: a SOFTMAX, perhaps in another shape."""
    return ending(graph, output) == "SOFTMAX"


def default_loss(graph: Graph, output: int) -> str | None:
    """The loss that an output asks for; None if it does not say."""
    return _DEFAULTS.get(ending(graph, output))


def head(graph: Graph, output: int, name: str | None, reduction: str) -> Loss:
    """The loss on an output of the file's graph.

    Cross-entropy on a final SOFTMAX reads the SOFTMAX's input, and binary cross-entropy that of a
    final LOGISTIC: one function of the logits, stable where the two apart are not. Outputs that
    are no probabilities are taken for logits.

    Args:
        graph: as in the file.
        output: tensor index.
        name: of the loss; None where neither the user nor the file named one.
        reduction: sum_over_batch_size or sum.

    Raises:
        OptionError: if no loss is named and the output does not say which one it wants.
    """
    name = name or default_loss(graph, output)
    if name is None:
        raise OptionError(
            f"--loss: must be given for {graph.label(output)}, which ends in neither SOFTMAX nor "
            f"LOGISTIC. Give one of {', '.join(n.replace('_', '-') for n in LOSSES)}."
        )
    if name not in _TAKES_IN:
        return Loss(name, output, {})
    mean = {"mean_over_positions": reduction == "sum_over_batch_size"}
    node = producer(graph, output)
    if node is not None and node.op == _TAKES_IN[name]:
        beta = {"beta": float(node.options.get("beta", 1.0))} if node.op == "SOFTMAX" else {}
        return Loss(name, node.inputs[0], {"from_logits": True, **beta, **mean})
    shares = ("SOFTMAX", "LOGISTIC") if name == BINARY else ("SOFTMAX",)
    probabilities = ending(graph, output) in shares
    return Loss(name, output, {"from_logits": not probabilities, **mean})


def heads(graph: Graph, info: TrainingInfo) -> tuple[Loss, ...]:
    """The losses, in the order of the outputs they are on.

    Outputs that are no floats have none, nor have those that info says so of.

    Raises:
        UnsupportedError: if the graph cannot be computed, whatever the loss.
        OptionError: if an output does not say which loss it wants, or none has one.
    """
    if not graph.outputs:
        lower(graph, file_batch(graph))  # says so
    try:
        return _heads(graph, info)
    except OptionError:
        lower(graph, file_batch(graph))
        raise


def _heads(graph: Graph, info: TrainingInfo) -> tuple[Loss, ...]:
    names = _by_output(graph, "--output-loss", info.output_losses)
    weights = _by_output(graph, "--loss-weight", info.loss_weights)
    found = []
    for k, output in enumerate(graph.outputs):
        spec = graph.tensors[output].spec
        fits = spec.dtype.kind == "f" and bool(spec.shape)
        name = names.get(k, info.loss if fits else "none")
        if name == "none":
            continue
        if not fits:
            raise OptionError(
                f"--output-loss: must be none for {graph.label(output)}, which is no tensor of "
                f"floats, but got {name}."
            )
        loss = head(graph, output, name, info.reduction)
        found.append(replace(loss, weight=weights.get(k, 1.0), output=k))
    if not any(loss.weight for loss in found):
        raise OptionError(
            f"{graph.name}: an output must have a loss and a weight above 0, but got none of "
            f"{', '.join(map(graph.label, graph.outputs))}"
        )
    return tuple(found)


def _by_output(graph: Graph, option: str, given: Iterable[tuple[str, T]]) -> dict[int, T]:
    """What was given for single outputs, by their position; the last counts.

    Raises:
        OptionError: if there is no such output.
    """
    names = [graph.tensors[i].name for i in graph.outputs]
    found = {}
    for output, value in given:
        numbers = [k for k, name in enumerate(names) if output in (name, str(k))]
        if len(numbers) != 1:
            raise OptionError(
                f"{option}: must be for one output, {', '.join(names)} or its number, "
                f"but got {output}."
            )
        found[numbers[0]] = value
    return found
