"""Inlines the subgraphs that operators run, so that the graph has no control flow.

- CALL and STABLEHLO_COMPOSITE are replaced by the operators of their subgraph. Constants of a
  composite that runtimes compute with kernels of their own do not train.
- WHILE is unrolled if its condition follows from constants and shapes in each step.
- DENSIFY of a sparse constant of integers is a dense constant where activations are integers.
- READ_VARIABLE of a variable that no operator assigns is the constant that CALL_ONCE assigns, and
  trains like any other.
- Lists of tensors, in which a loop collects its steps, become PACK (tensor_lists.py).
- IF becomes its branch if its condition does so. Otherwise both branches are computed, and
  SELECT_V2 takes the values of one: as both are computed, all their weights train.

Tensors of the file keep their indices. Each tensor of a subgraph gets a new index each time the
subgraph runs; a constant gets one, so that the steps of a loop share their weights.
"""

from dataclasses import replace

from odt.core.formats.flatbuffer.subgraphs import CONTROL_FLOW
from odt.core.model.graph import ABSENT, Node
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.model.variables import (
    READ,
    Variable,
    handles,
    keeps_state,
    without_masks,
    without_unneeded,
)
from odt.kernels.rows.opdef import TensorSpec


def inline(model: Model) -> Model:
    """Returns a model whose graph runs no subgraphs; the model itself if it has none.

    An operator whose subgraphs cannot be inlined stays as it is. Variables on which no output
    depends are left out.
    """
    model = _with_dense_constants(apply_masks(model))
    graph = without_unneeded(model.graph)
    model = model if graph is model.graph else replace(model, graph=graph)
    inlined = CONTROL_FLOW if keeps_state(model.graph) else CONTROL_FLOW | {READ}
    if not any(node.op in inlined for node in model.graph.nodes):
        return model
    from odt.core.lowering.normalize.inliner import Inliner

    return Inliner(model, constant_variables(model)).inline()


def apply_masks(model: Model) -> Model:
    """Multiplies initial values of variables by the masks that a graph multiplies them by.

    Returns:
        A model that multiplies no variable by a mask; the model itself if it does not.
    """
    graph, variables = without_masks(model.graph, model.variables, model.quantization)
    return model if graph is model.graph else replace(model, graph=graph, variables=variables)


def _with_dense_constants(model: Model) -> Model:
    """Returns a model of integers whose sparse weights are dense constants, without DENSIFY.

    Where activations are real numbers, such weights become float32 (core/model/dequantize.py).
    """
    if not model.sparsity or not has_quantized_activations(model):
        return model
    graph = model.graph
    tensors = list(graph.tensors)
    nodes: list[Node] = []
    quantization = dict(model.quantization)
    sparse: dict[int, int] = {}
    for node in graph.nodes:
        x = node.inputs[0] if node.op == "DENSIFY" and len(node.inputs) == 1 else ABSENT
        sparsity, scales = model.sparsity.get(x), model.quantization.get(x)
        stored = tensors[x].data if x != ABSENT else None
        is_zero = scales is not None and not scales.zero_point.any()
        if sparsity is None or stored is None or scales is None or not is_zero:
            nodes.append(node)
            continue
        (y,) = node.outputs
        data = sparsity.dense(stored, tensors[x].spec.shape)
        data.flags.writeable = False
        spec = TensorSpec(data.shape, data.dtype)
        tensors[y] = replace(tensors[y], spec=spec, data=data, places=sparsity.places)
        sparse[y] = x
        quantization.setdefault(y, scales)
    dense = replace(graph, tensors=tuple(tensors), nodes=tuple(nodes))
    return replace(model, graph=dense, quantization=quantization, sparse=sparse)


def constant_variables(model: Model) -> dict[int, tuple[str, Variable]]:
    """Returns output of READ_VARIABLE → name and initial value of its variable.

    Empty if an operator assigns a variable, or an initial value is unknown or that of several, so
    that it cannot train.
    """
    nodes = model.graph.nodes
    if keeps_state(model.graph):
        return {}
    keys = handles(nodes)
    used = {keys.get(node.inputs[0]) for node in nodes if node.op == READ and node.inputs}
    values = [model.variables.get(key) for key in used if key is not None]
    places = {(v.subgraph, v.tensor) for v in values if v is not None and v.value is not None}
    if None in used or len(places) != len(used):
        return {}
    read = [(node.outputs[0], keys[node.inputs[0]]) for node in nodes if node.op == READ]
    return {y: (key[1], model.variables[key]) for y, key in read}
