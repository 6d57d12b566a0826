"""Lowers a file's graph to the graph that is trained: shapes for a batch, one function per node.

Fused activations become nodes of their own, and shape arithmetic (SHAPE → STRIDED_SLICE → PACK) is
folded into constants. Unsupported nodes are reported here, all of them in one error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from odt.core.lowering.batch_samples import batch_samples
from odt.core.lowering.binding import bind_inputs, bind_operands, bind_outputs, expand, row_of
from odt.core.lowering.final_activation import final_logits, move_activations_last
from odt.core.lowering.merge_slices import split_slices
from odt.core.lowering.push_transposes import push_transposes
from odt.core.lowering.sample_axis import mixing_nodes
from odt.core.lowering.unsupported import (
    UnsupportedNode,
    check_ends,
    check_made,
    check_tensors,
    unsupported_error,
    unsupported_node,
)
from odt.core.model.graph import Graph, LoweredGraph, Node, Tensor
from odt.errors import ShapeError, UnsupportedError
from odt.kernels.opdef import Array, OpDef, TensorSpec
from odt.kernels.registry import find_operator

# Bytes of folded integers, for one node and in all: shapes, positions and masks are small.
MOST_FOLDED, MOST_FOLDED_IN_ALL = 16 << 20, 64 << 20
# ActivationFunctionType of the schema; SIGN_BIT (5) has no gradient and no row.
ACTIVATIONS = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}


@dataclass
class Inference:
    """State of shape inference at one batch size.

    Attributes:
        batch: the batch size.
        specs: specs of the tensors inferred so far.
        values: values of constants, and of integers computed from constants or shapes.
        attrs: attributes of the nodes inferred so far, by position.
        batched: tensors whose leading axis grows with the batch.
        folded: bytes of folded constants.
    """

    batch: int
    specs: dict[int, TensorSpec]
    values: dict[int, Array]
    batched: set[int]
    attrs: dict[int, Any] = field(default_factory=dict)
    folded: int = 0


def file_batch(graph: Graph) -> int:
    """The batch size of the file's shapes: the length of the inputs' leading axis, usually 1.

    It is also 1 for a model without a batch axis, whose inputs are weights or scalars: the file's
    shapes are then those of one sample. A vector counts as one sample too, unless the model can
    be computed for a longer vector.
    """
    leads = {max(t.spec.shape[0], 1) if t.spec.shape else 0 for t in _inputs(graph)}
    size = leads.pop() if len(leads) == 1 else 1
    if size < 2:
        return 1
    vectors = any(len(t.spec.shape) == 1 for t in _inputs(graph))
    if not vectors and all(graph.tensors[i].spec.shape[:1] == (size,) for i in graph.outputs):
        return size
    try:
        _lower(graph, size, size)
    except UnsupportedError:
        return size  # lowering for this batch raises the error
    try:
        _lower(graph, 2 * size, size)
    except UnsupportedError:
        return 1
    return size


def lower(graph: Graph, batch: int, *, uniform: bool = False) -> LoweredGraph:
    """Lowers a graph for a batch size, ready to be planned.

    Where the file's shapes hold for one sample only, the graph is batched
    (core/lowering/batch_samples.py).

    Args:
        graph: as in the file.
        batch: number of samples.
        uniform: use the same nodes for one sample as for several.

    Raises:
        UnsupportedError: if operators are unsupported, with a list of all of them; or if an input
            or an output does not grow with the batch.
    """
    lowered = split_slices(_for_samples(graph, batch, uniform))
    return push_transposes(lowered, final_logits(graph))


def _for_samples(graph: Graph, batch: int, uniform: bool) -> LoweredGraph:
    size = file_batch(graph)
    if size > 1:
        return _for_groups(graph, batch, size)
    one = _lower(graph, 1, 1)
    if batch > 1:
        return batch_samples(one, batch)
    if not uniform:
        return one
    try:
        return batch_samples(one, 1)
    except UnsupportedError:
        return one


def _for_groups(graph: Graph, batch: int, size: int) -> LoweredGraph:
    """Lowers a file whose shapes were written for a batch of `size` samples, 2 or more."""
    if batch == size:
        return _lower(graph, size, size)
    found = _lower(graph, batch, size)
    mixing = mixing_nodes(found)
    if not mixing:
        return found
    if batch % size == 0:
        return batch_samples(_lower(graph, size, size), batch // size)
    raise UnsupportedError(
        f"{graph.name}: node {mixing[0].origin} ({mixing[0].op}): the samples of a batch depend "
        f"on each other, so the batch must be a multiple of the file's, {size}, but got {batch}"
    )


def _inputs(graph: Graph) -> list[Tensor]:
    return [graph.tensors[i] for i in graph.inputs]


def _lower(graph: Graph, batch: int, size: int) -> LoweredGraph:
    """Lowers without batching a graph of one sample; `size` is the batch size of the file."""
    if not graph.inputs or not graph.outputs:
        raise UnsupportedError(
            f"{graph.name}: must have inputs and outputs, "
            f"but got {len(graph.inputs)} and {len(graph.outputs)}"
        )
    at_file = _infer_all(graph, _start(graph, size, size), None)
    check_ends(graph, at_file.specs)
    if batch == size:
        return move_activations_last(_rewrite(graph, at_file))
    inference = _infer_all(graph, _start(graph, batch, size), at_file)
    for i in (*graph.inputs, *graph.outputs):
        before, now = at_file.specs[i].shape, inference.specs[i].shape
        scaled = before and now[0] * size == before[0] * batch
        if not scaled or now[1:] != before[1:]:
            raise UnsupportedError(
                f"{graph.name}: {graph.label(i)}: its leading axis, and no other, must be the "
                f"batch to compute {batch} samples together, but got {now} for {batch}, "
                f"{before} for {size}"
            )
    return move_activations_last(_rewrite(graph, inference))


def _start(graph: Graph, batch: int, size: int) -> Inference:
    specs, batched = {}, set()
    for i in graph.inputs:
        spec = graph.tensors[i].spec
        if spec.shape and max(spec.shape[0], 1) == size:
            spec = TensorSpec((batch, *spec.shape[1:]), spec.dtype)
            batched.add(i)
        specs[i] = spec
    values = {i: t.data for i, t in enumerate(graph.tensors) if t.data is not None}
    specs.update((i, graph.tensors[i].spec) for i in values)
    return Inference(batch, specs, values, batched)


def computed_specs(graph: Graph) -> dict[int, TensorSpec]:
    """Infers the specs of a file's tensors from its inputs; the file may leave shapes open."""
    size = file_batch(graph)
    return _infer_all(graph, _start(graph, size, size), None).specs


def unsupported_nodes(graph: Graph) -> list[UnsupportedNode]:
    """All nodes of a file's graph that odt does not support."""
    size = file_batch(graph)
    return _infer_nodes(graph, _start(graph, size, size), None)


def _infer_all(graph: Graph, inference: Inference, at_file: Inference | None) -> Inference:
    """Infers all shapes.

    Raises:
        UnsupportedError: for all unsupported nodes together.
    """
    found = _infer_nodes(graph, inference, at_file)
    if found:
        raise unsupported_error(graph, found)
    return inference


def _infer_nodes(
    graph: Graph, inference: Inference, at_file: Inference | None
) -> list[UnsupportedNode]:
    """Infers shapes node by node.

    Returns:
        The nodes that cannot be computed, also those behind one of unknown shape, as far as
        their tensors show it.
    """
    found: list[UnsupportedNode] = []
    unknown: set[int] = set()
    for k, node in enumerate(graph.nodes):
        row = find_operator(node.op)
        if row is None:
            found.append(unsupported_node(graph, node))
        else:
            try:
                if unknown.intersection(node.inputs):
                    names = {**bind_operands(row, node), **bind_outputs(row, node)}
                    check_tensors(graph, names.values())
                else:
                    _infer_node(graph, k, row, inference, at_file)
            except ShapeError as e:
                found.append(unsupported_node(graph, node, e))
        if k not in inference.attrs:
            unknown.update(node.outputs)
    return found


def _infer_node(
    graph: Graph, k: int, row: OpDef, inference: Inference, at_file: Inference | None
) -> None:
    node = graph.nodes[k]
    bound = bind_inputs(row, node)
    operands = bind_operands(row, node)
    statics = _statics(graph, row, bound, inference)
    types = tuple(graph.tensors[i].spec.dtype for i in node.outputs)
    attrs = row.attrs({**node.options, "output_types": types}, statics)
    outputs = bind_outputs(row, node)
    _zero_state(graph, row, bound)
    check_tensors(graph, (*operands.values(), *outputs.values()))
    for i in (*operands.values(), *outputs.values()):
        if graph.tensors[i].variable:
            raise ShapeError(f"{graph.label(i)} is a variable, which odt does not keep")
    folded = any(graph.tensors[bound[n]].data is None for n in statics)
    grown = inference.batched.intersection(bound.values())
    if at_file is not None and row.scale_batch is not None and grown and not folded:
        before = {n: at_file.specs[i] for n, i in operands.items()}
        if inference.batch % at_file.batch:
            raise ShapeError(
                f"the batch must be a multiple of the file's, {at_file.batch}, "
                f"but got {inference.batch}"
            )
        attrs = row.scale_batch(attrs, before, inference.batch // at_file.batch)
    found = row.infer(attrs, {n: inference.specs[i] for n, i in operands.items()})
    check_made(graph, outputs, found)
    inference.attrs[k] = attrs
    for name, i in outputs.items():
        inference.specs[i] = found[name]
    if grown:
        inference.batched.update(outputs.values())
    _fold(row, attrs, operands, outputs, inference)


def _statics(
    graph: Graph, row: OpDef, bound: Mapping[str, int], inference: Inference
) -> dict[str, Array]:
    """Values of the static inputs."""
    statics = {}
    for name in row.static:
        if name in bound:
            value = inference.values.get(bound[name])
            if value is None:
                raise ShapeError(
                    f"{name} must be a constant, but got {graph.label(bound[name])}, "
                    "which is computed from the data"
                )
            if value.dtype.kind not in "iubf" or not np.isfinite(value).all():
                raise ShapeError(f"{name} must hold finite numbers, but got {value.dtype} values")
            statics[name] = value
    return statics


def _zero_state(graph: Graph, row: OpDef, bound: Mapping[str, int]) -> None:
    """Checks that a recurrent operator's initial state is zero: no other node may write it."""
    for name in row.zero_state:
        if name in bound:
            i = bound[name]
            readers = sum(i in node.inputs for node in graph.nodes)
            if not graph.tensors[i].variable or i in graph.inputs or readers > 1:
                raise ShapeError(
                    f"{name} must be a variable of this operator alone, so that it is zero at "
                    f"first, but got {graph.label(i)}"
                )


def _fold(
    row: OpDef,
    attrs: Any,
    bound: Mapping[str, int],
    outputs: Mapping[str, int],
    inference: Inference,
) -> None:
    """Folds integers that depend on constants alone. Floats stay nodes: constants may train."""
    if any(inference.specs[i].dtype.kind not in "iub" for i in outputs.values()):
        return
    reads = expand(row.forward.reads, bound)
    if any(bound[n] not in inference.values for n in reads):
        return
    specs = {n: inference.specs[i] for n, i in (*bound.items(), *outputs.items())}
    writes = {n: specs[n] for n in expand(row.forward.writes, outputs)}
    writes |= row.forward.workspace(attrs, specs)
    size = sum(spec.nbytes for spec in writes.values())
    inference.folded += size
    if size > MOST_FOLDED or inference.folded > MOST_FOLDED_IN_ALL:
        raise ShapeError(
            f"integers that follow from constants must fit into {MOST_FOLDED >> 20} MiB for a "
            f"node and {MOST_FOLDED_IN_ALL >> 20} MiB in all, "
            f"but got {size} bytes of {inference.folded}"
        )
    arrays = {n: np.empty(spec.shape, spec.dtype) for n, spec in writes.items()}
    row.forward.run(
        attrs,
        **{n: inference.values[bound[n]] for n in reads},
        **arrays,
        **row.forward.prepare(attrs, specs),
    )
    for name, i in outputs.items():
        arrays[name].flags.writeable = False
        inference.values[i] = arrays[name]
        inference.batched.discard(i)


def _rewrite(graph: Graph, inference: Inference) -> LoweredGraph:
    """The graph with inferred specs and attributes, without folded nodes and fused activations."""
    tensors: list[Tensor] = []
    for i, tensor in enumerate(graph.tensors):
        spec = inference.specs.get(i, tensor.spec)
        tensors.append(replace(tensor, spec=spec, data=inference.values.get(i)))
    nodes: list[Node] = []
    for k, inferred in enumerate(graph.nodes):
        if all(i in inference.values for i in inferred.outputs):
            continue
        node = replace(inferred, attrs=inference.attrs[k])
        code = node.options.get("fused_activation_function", 0)
        if not code or row_of(node.op).keeps_activation:
            nodes.append(node)
            continue
        if code not in ACTIVATIONS:
            raise UnsupportedError(
                f"{graph.name}: node {node.origin} ({node.op}): fused_activation_function must be "
                f"one of {', '.join(ACTIVATIONS.values())}, but got {code}"
            )
        (y,) = node.outputs
        tensors.append(Tensor(f"{graph.tensors[y].name}/before activation", tensors[y].spec))
        nodes.append(replace(node, outputs=(len(tensors) - 1,)))
        nodes.append(Node(ACTIVATIONS[code], (len(tensors) - 1,), (y,), {}, node.origin))
    return LoweredGraph(
        replace(graph, tensors=tuple(tensors), nodes=tuple(nodes), samples=inference.batch)
    )
