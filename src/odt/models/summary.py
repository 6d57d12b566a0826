"""Summary of a model as text: operators with shapes, parameters, training info, metadata."""

from collections.abc import Mapping
from dataclasses import replace

from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.model.graph import MAX_NAME, Graph
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.tensor_arena import tensor_arena
from odt.core.recipe.inspection import Inspection, inspect_graph
from odt.core.recipe.lowered_model import LoweredModel
from odt.core.recipe.resolve import OTHERS, counted_operators, number_of_last
from odt.core.recipe.selection import Selection, select
from odt.core.recipe.training_outputs import describe_left_out
from odt.errors import MAX_MESSAGE, one_line
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.text import quantity, size, table

ALL = Selection()
MAX_NAMED = 3  # tensors that are named for each reason
MAX_SHOWN = 48  # characters of a tensor's name


def describe(lowered: LoweredModel, selection: Selection = ALL) -> str:
    """Returns the text of `odt inspect`."""
    model = lowered.file
    graph = lowered.file.graph
    inspection = inspect_selected(lowered, selection)
    inlined = lowered.graph.tensors[len(graph.tensors) :] if inspection.trained else ()
    constants: list[str] = []
    if inspection.constant_reasons:  # only they need the graph at the batch of the file
        graph_at_file_batch = lowered.graphs.at_file_batch
        constants = describe_constants(inspection.constant_reasons, graph_at_file_batch)
    sections = [
        describe_file(model),
        [*describe_interface(graph, inspection), *describe_ends(lowered)],
        describe_operators(graph, inspection, counted_operators(lowered.part.graph)),
        describe_parameters(replace(graph, tensors=(*graph.tensors, *inlined)), inspection),
        constants,
        describe_quantization(model),
        describe_training_info(model),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def inspect_selected(lowered: LoweredModel, selection: Selection = ALL) -> Inspection:
    """Inspects a model, with the parameters of a selection; types and constants are the file's."""
    graph = lowered.file.graph
    info = select(lowered.graphs, TrainingInfo(), selection)
    inspection = inspect_graph(lowered.graphs).among(info.trainable_ops, info.trainable_tensors)
    specs = dict(inspection.specs)
    for i, tensor in enumerate(graph.tensors):
        shape = specs[i].shape if i in specs and tensor.data is None else tensor.spec.shape
        specs[i] = replace(tensor.spec, shape=shape)  # training computes integers as float32
    return replace(inspection, specs=specs)


def describe_file(model: Model) -> list[str]:
    """Describes the file: size, format, metadata and signatures."""
    graph = model.graph
    lines = [
        f"{model.path}: {model.format}, {size(len(model.data))}, "
        f"{quantity(len(graph.nodes), 'operator')}, {quantity(len(graph.tensors), 'tensor')}, "
        f"{quantity(model.subgraphs, 'subgraph')}"
    ]
    if model.description:
        lines.append(f"description: {one_line(model.description, MAX_MESSAGE)}")
    for name, buffer in model.metadata.items():
        lines.append(f"metadata: {one_line(name, MAX_NAME)}, {size(len(model.buffer(buffer)))}")
    for signature in model.signatures:
        inputs, outputs = (
            one_line(", ".join(one_line(name, MAX_NAME) for name in names), MAX_MESSAGE)
            for names in (signature.inputs, signature.outputs)
        )
        key = one_line(signature.key, MAX_NAME)
        lines.append(f"signature: {key}({inputs}) -> {outputs}")
    if has_quantized_activations(model):
        arena = tensor_arena(graph)
        lines.append(f"tensor arena: {arena:,} bytes of activations, one sample at a time")
    return lines


def describe_training_info(model: Model) -> list[str]:
    """Describes the training info of a circle+ file, without fields that are not set."""
    info = stored_training_info(model)
    if info is None:
        return ["training info: none"]
    stored = info.as_dict()
    last = number_of_last(model.graph, stored.pop("trainable_ops"))
    stored["num_of_trainable_ops"] = list(info.trainable_ops) if last == OTHERS else last
    rates = stored.pop("hyper_parameters")
    rows = [(f"  {name}", str(value)) for name, value in {**stored, **rates}.items()]
    return ["training info:", *table(rows)]


def describe_interface(graph: Graph, inspection: Inspection) -> list[str]:
    """Describes inputs and outputs: names and shapes."""
    roles = [("input", i) for i in graph.inputs] + [("output", i) for i in graph.outputs]
    inputs = {i: graph.tensors[i] for i in graph.inputs}
    notes = {
        i: f", open: {tensor.open_text}"
        for i, tensor in inputs.items()
        if tensor.symbols and tensor.open_axes
    }
    return table(
        [
            (role, shape_and_dtype(inspection.specs[i]), f"{_label(graph, i)}{notes.get(i, '')}")
            for role, i in roles
        ]
    )


def describe_ends(lowered: LoweredModel) -> list[str]:
    """Describes the operators that training leaves out, and its outputs."""
    supported = lowered.left_out and not lowered.graphs.unsupported
    return [describe_left_out(lowered)] if supported else []


def describe_operators(graph: Graph, inspection: Inspection, counted: int) -> list[str]:
    """Describes the operators, one line each, with the parameters that each would train.

    For a model that cannot be trained, the reason follows. A DEQUANTIZE of constants is listed
    without parameters, because it is computed once when the file is read.

    Args:
        graph: the graph of the file.
        inspection: shapes, and the parameters that train.
        counted: number of operators that count for `last`.
    """
    rows = [("#", "OPERATOR", "TENSOR", "OUTPUT", "PARAMETERS", "LAST", "TRAINS")]
    from_each = inspection.from_each()
    for node in graph.nodes:
        outputs = ", ".join(shape_and_dtype(inspection.specs[i]) for i in node.outputs)
        row = str(node.origin), node.op, ", ".join(map(str, node.outputs)), outputs
        if node.origin in inspection.trained:
            parameters = inspection.values(inspection.trained[node.origin])
            last = str(max(counted - node.origin, 0) or "")
            rows.append((*row, f"{parameters:,}", last, f"{from_each[node.origin]:,}"))
        else:
            rows.append((*row, "", "", ""))
    if not inspection.refusal:
        return table(rows, right=(0, 4, 5, 6))
    return [
        *table([row[:4] for row in rows], right=(0,)),
        "",
        f"cannot be trained: {inspection.refusal}",
    ]


def describe_parameters(graph: Graph, inspection: Inspection) -> list[str]:
    """Describes the trainable tensors; if the model cannot be trained, all constants."""
    users: dict[int, list[str]] = {}
    for origin, trained in inspection.trained.items():
        for i in trained:
            users.setdefault(i, []).append(str(origin))
    tensors = sorted(users, key=lambda i: int(users[i][0])) or [
        i for i, t in enumerate(graph.tensors) if t.data is not None
    ]
    title = "parameters" if users else "constants"
    nbytes = size(sum(inspection.specs[i].nbytes for i in tensors))
    rows = [
        (
            one_line(f"  operator {', '.join(users[i])}", MAX_SHOWN) if i in users else " ",
            shape_and_dtype(inspection.specs[i]),
            _label(graph, i),
        )
        for i in tensors
    ]
    return [
        f"{title}: {inspection.values(tensors):,} values in "
        f"{quantity(len(tensors), 'tensor')}, {nbytes}",
        *table(rows),
    ]


def describe_constants(constant_reasons: Mapping[int, str], graph: Graph) -> list[str]:
    """Describes constants that do not train, one line for each reason."""
    if not constant_reasons:
        return []
    reasons: dict[str, list[int]] = {}
    for i, reason in constant_reasons.items():
        reasons.setdefault(reason, []).append(i)
    rows = [("  REASON", "TENSORS", "VALUES", "")]
    for reason, tensors in reasons.items():
        values = sum(graph.tensors[i].spec.size for i in tensors)
        labels = [_label(graph, i) for i in tensors[:MAX_NAMED]]
        ending = f" and {len(tensors) - MAX_NAMED} more" if len(tensors) > MAX_NAMED else ""
        rows.append((f"  {reason}", str(len(tensors)), f"{values:,}", ", ".join(labels) + ending))
    return [
        "constants that do not train; `patterns=` trains those that it names:",
        *table(rows, (1, 2)),
    ]


def describe_quantization(model: Model) -> list[str]:
    """Describes scales and zero points; per channel, the smallest and the largest."""
    rows = [("  ", "TENSOR", "SCALE", "ZERO POINT")]
    for i, quantization in sorted(model.quantization.items()):
        spec = shape_and_dtype(model.graph.tensors[i].spec)
        scales = _range(quantization.scale)
        if quantization.blocks:
            blocks = "×".join(map(str, quantization.blocks))
            scales += f" ({quantization.scale.size} blocks of {blocks})"
        elif quantization.scale.size > 1:
            scales += f" ({quantization.scale.size} along axis {quantization.axis})"
        rows.append(("  " + spec, _label(model.graph, i), scales, _range(quantization.zero_point)))
    return ["quantization:", *table(rows)] if model.quantization else []


def _range(values: Array) -> str:
    """Formats the only value of an array, or the smallest and the largest."""
    lo, hi = values.min(), values.max()
    return f"{lo:.6g}" if lo == hi else f"{lo:.6g} to {hi:.6g}"


def _label(graph: Graph, index: int) -> str:
    """Number and name of a tensor; the middle of a long name is left out."""
    name = one_line(graph.tensors[index].name, MAX_SHOWN)
    return f'tensor {index} ("{name}")' if name else f"tensor {index}"


def shape_and_dtype(spec: TensorSpec) -> str:
    """Formats shape and dtype; an opaque dtype holds the name of a type that NumPy lacks."""
    names = spec.dtype.names
    return f"{spec.shape} {names[0].lower()}" if names else str(spec)
