"""Outputs of training that differ from the file's, because training leaves out final operators."""

from dataclasses import replace

from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.lowered_model import LoweredModel
from odt.errors import MAX_MESSAGE, one_line

CLASS_NUMBERS = "sparse_categorical_crossentropy"


def describe_left_out(lowered: LoweredModel, what: str = "training") -> str:
    """Describes the operators that are left out, and the outputs instead; empty for none.

    Args:
        lowered: the model.
        what: training or prediction.

    Raises:
        UnsupportedError: if the graph has unsupported operators.
    """
    left_out = lowered.left_out
    if left_out is None:
        return ""
    graph, specs = lowered.graph, lowered.graphs.specs
    first = left_out.uncomputed or left_out.nodes
    names = list(dict.fromkeys(f"node {node.origin} ({node.op})" for node in first))
    verb = "have" if len(names) > 1 else "has"
    why = "which odt does not compute" if left_out.uncomputed else f"which {verb} no gradient"
    if not left_out.outputs:
        why = "which no output needs"
    others = len(left_out.nodes) - len(first)
    ending = f", and {others} that go with it" if others else ""
    outputs = ", ".join(f"{graph.label(i)} {specs[i].shape}" for i in graph.outputs)
    operators = one_line(", ".join(names), MAX_MESSAGE)
    return f"{graph.name}: {what} leaves out {operators}, {why}{ending}. Its outputs are {outputs}."


def with_class_numbers(lowered: LoweredModel, info: TrainingInfo) -> TrainingInfo:
    """Sets a loss on class numbers for outputs whose largest value the file's ARG_MAX selects.

    The ARG_MAX, which training leaves out, must be along the last axis of such an output. A loss
    that the user or the file gives is not changed.
    """
    axes = lowered.left_out.arg_max if lowered.left_out else {}
    if info.loss is not None or not axes:
        return info
    graph, specs = lowered.graph, lowered.graphs.specs
    classes = [
        k
        for k, i in enumerate(graph.outputs)
        if i in axes and len(specs[i].shape) > 1 and axes[i] in (-1, len(specs[i].shape) - 1)
    ]
    if len(classes) == len(graph.outputs):
        return replace(info, loss=CLASS_NUMBERS)
    losses = tuple((str(k), CLASS_NUMBERS) for k in classes)
    return replace(info, output_losses=(*losses, *info.output_losses))
