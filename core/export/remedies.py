"""Remedies for a model that odt cannot compute: shapes, a signature, or a part that can train."""

import shlex
from collections.abc import Mapping, Sequence

from odt.core.export.cut import cut
from odt.core.lowering.unsupported import UnsupportedNode, unsupported_error
from odt.core.model.graph import Graph
from odt.core.model.model import FLATBUFFERS, Model
from odt.core.recipe.lowered_model import LoweredModel, lower_if_supported
from odt.core.recipe.open_shapes import fitting_shapes
from odt.core.recipe.other_signatures import fitting_signature
from odt.core.recipe.trainable_parts import TrainablePart, trainable_parts
from odt.errors import MAX_MESSAGE, UnsupportedError

MAX_NAME = 40  # characters of a tensor's name in a command


def what_trains(lowered: LoweredModel, refused: Sequence[UnsupportedNode]) -> str:
    """Describes how a model could train in part or as a whole, with the options or the command.

    Args:
        lowered: the model.
        refused: nodes that odt cannot compute.

    Returns:
        Text that follows "could train:"; empty if nothing could.
    """
    model = lowered.file
    if shapes := fitting_shapes(model):
        return _with_shapes(model, shapes)
    if other := fitting_signature(model):
        return f"with `signature={shlex.quote(other)}`"
    return largest_part(lowered, refused)


def with_remedy(error: UnsupportedError, lowered: LoweredModel) -> UnsupportedError:
    """Returns an error about operators that odt cannot compute, with a remedy if there is one."""
    refused = lowered.graphs.unsupported
    trains = what_trains(lowered, refused) if refused else ""
    if not trains:
        return error
    remedy = f"Could train: {trains}."
    if len(f"{error} {remedy}") > MAX_MESSAGE and str(refused[-1]) not in str(error):
        # The line names some nodes only, and would lose its middle: it names the first.
        error = unsupported_error(lowered.graph, refused, most=0)
    return UnsupportedError(f"{error} {remedy}", f"{error.details or error}\n{remedy}")


def _with_shapes(model: Model, shapes: Mapping[int, tuple[int, ...]]) -> str:
    """Describes options that give inputs shapes with which all operators are supported."""
    tensors = model.graph.tensors
    options = []
    for i, shape in shapes.items():
        argument = f"{tensors[i].name}={'x'.join(map(str, shape))}"
        options.append(f"`input_shapes={shlex.quote(argument)}`")
    shown = {i: f", {tensors[i].signature}" for i in shapes}
    shown |= {i: f": {tensors[i].open_text}" for i in shapes if tensors[i].symbols}
    inputs = ", ".join(f"{model.graph.label(i)}{text}" for i, text in shown.items())
    return f"with the shape that the file leaves open, of {inputs}; for example {' '.join(options)}"


def largest_part(lowered: LoweredModel, refused: Sequence[UnsupportedNode]) -> str:
    """Describes the command that cuts out the largest part without some nodes; empty if none.

    The part is the one with most parameters, also one whose input shapes the file leaves open. No
    part is cut out of an ONNX file.
    """
    model = lowered.file
    if model.format not in FLATBUFFERS:
        return ""
    parts = trainable_parts(lowered.graph, refused)
    supported = next((part for part in parts if _is_supported(model, part)), None)
    part = supported or next((part for part in parts if _without_shape(model, part)), None)
    if part is None:
        return ""
    ends = [("after", i) for i in part.after] + [("before", i) for i in part.before]
    options = " ".join(f"`{name}={_tensor_argument(model.graph, i)}`" for name, i in ends)
    text = (
        f"{part.parameters:,} parameters, in the part made by "
        f"odt cut {shlex.quote(model.path)} {options} `out=part.{model.format}`"
    )
    if part is not supported:
        left_open = ", ".join(map(model.graph.label, _without_shape(model, part)))
        text += f", if `input_shapes=` gives the shape of {left_open}"
    return text


def _without_shape(model: Model, part: TrainablePart) -> list[int]:
    """Returns the tensors that a part reads and that have no shape in the file."""
    tensors = model.graph.tensors
    return [i for i in part.after if i < len(tensors) and not tensors[i].spec.shape]


def _is_supported(model: Model, part: TrainablePart) -> bool:
    if max((*part.after, *part.before), default=0) >= len(model.graph.tensors):
        return False  # its ends are inside a subgraph
    return lower_if_supported(lambda: cut(model, part.after, part.before).model) is not None


def _tensor_argument(graph: Graph, tensor: int) -> str:
    """Returns a tensor's name for odt cut, or its number if the name is long or not unique."""
    name = graph.tensors[tensor].name
    unique = sum(other.name == name for other in graph.tensors) == 1
    return shlex.quote(name) if unique and len(name) <= MAX_NAME else str(tensor)
