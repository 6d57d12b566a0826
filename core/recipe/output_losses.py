"""Chooses the loss of each output and the tensor that the loss reads."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TypeVar

from odt.core.lowering.final_activation import (
    SHAPE_ONLY,
    before_rounding,
    movable_activations,
    producer,
    producing_operator,
)
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.output_loss import Loss
from odt.errors import OptionError
from odt.kernels.loss_text import loss_choices, parse_loss
from odt.kernels.registry import LOSSES
from odt.kernels.rows.opdef import TensorSpec

T = TypeVar("T")


def ends_in_softmax(graph: Graph, output: int) -> bool:
    """Whether an output is the result of a SOFTMAX, possibly reshaped and rounded."""
    return _ending_op(graph, output) == "SOFTMAX"


def _ending_op(graph: Graph, output: int) -> str:
    node = producing_operator(graph, output)
    return node.op if node else ""


def default_loss(graph: Graph, output: int) -> str | None:
    """Returns the default loss for the final activation of an output; None without one."""
    last = _ending_op(graph, output)
    return next((name for name, row in LOSSES.items() if last and row.default_for == last), None)


def output_loss(
    graph: Graph, output: int, name: str | None, reduction: str, moved: Collection[int] = ()
) -> Loss:
    """Returns the loss of an output of the file's graph.

    Cross-entropy reads the input of a final SOFTMAX, and binary cross-entropy the input of a final
    LOGISTIC, even if operators that only change the shape or a FAKE_QUANT follow: activation and
    loss are one function of the logits, which is numerically stable. Outputs that are not
    probabilities are used as logits. A loss reads values before they are rounded by a FAKE_QUANT,
    which lets no gradient pass for values beyond its limits.

    Args:
        graph: as in the file.
        output: tensor index.
        name: loss in the form of parse_loss; None if neither the user nor the file gives one.
        reduction: sum_over_batch_size or sum.
        moved: outputs whose final activation lowering moves to the end.

    Raises:
        OptionError: if no loss is given and the output has no final activation.
    """
    name = name or default_loss(graph, output)
    if name is None:
        raise OptionError(
            "loss",
            f"must be given for {graph.label(output)}, which ends in neither SOFTMAX nor LOGISTIC",
            remedy=f"Give `mean_squared_error` for a regression; all losses: {loss_choices()}.",
        )
    name, values = parse_loss(name)
    row = LOSSES[name]
    read = before_rounding(graph, output)
    if not row.fuses_with:
        return Loss(name, read, values)
    options = {**values, "mean_over_positions": reduction == "sum_over_batch_size"}
    node, last = producing_operator(graph, output), producer(graph, read)
    if node and last and node.op == row.fuses_with and (node is last or output in moved):
        beta = {"beta": float(node.options.get("beta", 1.0))} if node.op == "SOFTMAX" else {}
        logits = before_rounding(graph, last.inputs[0])
        return Loss(name, logits, {"from_logits": True, **beta, **options})
    probabilities = _ending_op(graph, output) in row.probabilities
    return Loss(name, read, {"from_logits": not probabilities, **options})


def moved_outputs(graphs: LoweredGraphs) -> Collection[int]:
    """Returns outputs whose final activation is moved after operators that change the shape."""
    graph = graphs.graph
    nodes = (producer(graph, i) for i in graph.outputs)
    if not any(node and node.op in SHAPE_ONLY for node in nodes):
        return ()
    return movable_activations(graph, graphs.specs)


def output_losses(graphs: LoweredGraphs, info: TrainingInfo) -> tuple[Loss, ...]:
    """Returns the losses, in the order of their outputs.

    Outputs that are not float, and outputs with the loss `none`, have no loss.

    Raises:
        UnsupportedError: if the graph has unsupported operators.
        OptionError: if an output needs an explicit loss, or no output has a loss.
    """
    if not graphs.graph.outputs:
        graphs.check()  # raises, and names the operators that leave no output
    try:
        return _output_losses(graphs, info)
    except OptionError:
        graphs.check()
        raise


def _output_losses(graphs: LoweredGraphs, info: TrainingInfo) -> tuple[Loss, ...]:
    """Returns the losses of a graph all of whose operators are supported."""
    graph = graphs.graph
    names = by_output(graph, "output_losses", info.output_losses)
    weights = by_output(graph, "loss_weights", info.loss_weights)
    moved = moved_outputs(graphs)
    losses = []
    for k, output in enumerate(graph.outputs):
        spec = _spec(graphs, output)
        fits = spec.dtype.kind == "f" and bool(spec.shape)
        name = names.get(k, info.loss if fits else "none")
        if name == "none":
            continue
        if not fits:
            raise OptionError(
                "output_losses",
                f"must be none for {graph.label(output)} {spec}, which is not a float tensor with "
                "axes",
                f"`{name}`",
            )
        loss = output_loss(graph, output, name, info.reduction, moved)
        losses.append(replace(loss, weight=weights.get(k, 1.0), output=k))
    if not any(loss.weight for loss in losses):
        shown = (f"{graph.label(i)} {_spec(graphs, i)}" for i in graph.outputs)
        raise OptionError(
            "output_losses, loss_weights",
            "must give a float output a loss and a weight above 0",
            f"none among {', '.join(shown)}",
        )
    return tuple(losses)


def _spec(graphs: LoweredGraphs, output: int) -> TensorSpec:
    """Returns the spec of an output, inferred if the file gives no shape."""
    spec = graphs.graph.tensors[output].spec
    return spec if spec.shape else graphs.at_file_batch.tensors[output].spec


def by_output(graph: Graph, field: str, pairs: Iterable[tuple[str, T]]) -> dict[int, T]:
    """Returns output position → the last value given for this output.

    Raises:
        OptionError: if there is no such output, or several have the name.
    """
    names = [graph.tensors[i].names for i in graph.outputs]
    values = {}
    for output, value in pairs:
        numbers = [k for k, each in enumerate(names) if output in (*each, str(k))]
        if len(numbers) != 1:
            shown = ", ".join(each[-1] if each else str(k) for k, each in enumerate(names))
            raise OptionError(field, f"must be for one output, {shown} or its number", output)
        values[numbers[0]] = value
    return values
