"""Remedies for a model that odt cannot compute: shapes, a signature, or a part that can train."""

import shlex
from collections.abc import Mapping, Sequence

from odt.core.export.cut import cut
from odt.core.lowering.constants.decoders import DECODER
from odt.core.lowering.unsupported import UnsupportedNode, unsupported_error
from odt.core.model.graph import Graph
from odt.core.model.model import FLATBUFFERS, Model
from odt.core.planning.trainable import trainable_by_operator
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
    command = _cut_command(model, part.after, part.before)
    text = f"{part.parameters:,} parameters, in the part made by {command}"
    if part is not supported:
        left_open = ", ".join(map(model.graph.label, _without_shape(model, part)))
        text += f", if `input_shapes=` gives the shape of {left_open}"
    return text


def before_decoder(lowered: LoweredModel) -> str:
    """Describes the decoder in which a model ends, with the command that cuts it off.

    Returns:
        A line; empty if the model ends in no decoder, or odt cuts no part out of its format.
    """
    model, graph = lowered.file, lowered.graph
    decodes = any(tensor.constant_reason == DECODER for tensor in graph.tensors)
    if not decodes or model.format not in FLATBUFFERS:
        return ""
    before = _last_layers(graph)
    if max(before, default=0) >= len(model.graph.tensors):
        return ""  # they are inside a subgraph
    return (
        f"{graph.name}: ends in decoded values, such as boxes. A loss on the values before the "
        f"decoder needs the part made by {_cut_command(model, (), before)}."
    )


def _last_layers(graph: Graph) -> list[int]:
    """Returns the outputs of the layers with weights that no other such layer follows."""
    layers = {origin for origin, _ in trainable_by_operator(graph)}
    makers = {i: node for node in graph.nodes for i in node.outputs}
    rest, seen, outputs = list(graph.outputs), set[int](), set[int]()
    while rest:
        node = makers.get(i := rest.pop())
        if node is None or i in seen:
            continue
        seen.add(i)
        if node.origin in layers:
            outputs.add(i)
        else:
            rest += node.inputs
    return sorted(outputs)


def _cut_command(model: Model, after: Sequence[int], before: Sequence[int]) -> str:
    ends = [("after", i) for i in after] + [("before", i) for i in before]
    options = " ".join(f"`{name}={_tensor_argument(model.graph, i)}`" for name, i in ends)
    return f"odt cut {shlex.quote(model.path)} {options} `out=part.{model.format}`"


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
