"""Infers the specs of a file's tensors for a batch size, node by node.

Integers that depend only on constants or shapes are computed here: shape arithmetic (SHAPE →
STRIDED_SLICE → PACK) becomes constants.
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odt.core.lowering.binding import bind_inputs, bind_operands, bind_outputs, expand
from odt.core.lowering.unsupported import (
    UnsupportedNode,
    check_outputs,
    check_tensors,
    is_waiting,
    unsupported_node,
)
from odt.core.model.graph import Graph, Node, TensorLabels
from odt.errors import ShapeError
from odt.kernels.registry import find_operator
from odt.kernels.rows.opdef import Array, OpDef, TensorSpec

# Limits of the bytes of folded integers, per node and in total: shapes, positions and masks are
# small.
MAX_FOLDED, MAX_FOLDED_IN_ALL = 16 << 20, 64 << 20
MAX_REALS = 256  # values of a float tensor in shape arithmetic


@dataclass(repr=False, eq=False)
class Inference:
    """State of shape inference at one batch size.

    Attributes:
        batch: the batch size.
        specs: specs of the tensors inferred so far.
        values: values of constants, and of integers computed from constants or shapes.
        batched: tensors whose leading axis grows with the batch.
        reals: floats of shape arithmetic, computed from integers in `values` and from scalars.
        attrs: attributes of the nodes inferred so far, by position.
        folded: bytes of folded constants.
    """

    batch: int
    specs: dict[int, TensorSpec]
    values: dict[int, Array]
    batched: set[int]
    reals: dict[int, Array] = field(default_factory=dict)
    attrs: dict[int, Any] = field(default_factory=dict)
    folded: int = 0


def start_inference(graph: Graph, batch: int, size: int) -> Inference:
    """Returns the state before the first node: specs of inputs and constants.

    Args:
        graph: graph as in the file.
        batch: number of samples.
        size: batch size in the file's shapes.
    """
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


def infer_nodes(
    graph: Graph, inference: Inference, at_file: Inference | None
) -> list[UnsupportedNode]:
    """Infers shapes node by node.

    Args:
        graph: graph as in the file.
        inference: the state after `start_inference`, to which shapes and attributes are added.
        at_file: the inference for the file's batch size; None if `inference` is for that size.

    Returns:
        The nodes that cannot be computed, also those after a node of unknown shape if their tensors
        show it.
    """
    unsupported: list[UnsupportedNode] = []
    unknown: set[int] = set()
    for k, node in enumerate(graph.nodes):
        row = find_operator(node.op)
        if row is None and is_waiting(node):
            continue  # the node that it waits for is named
        if row is None:
            unsupported.append(unsupported_node(graph, node))
        else:
            try:
                if unknown.intersection(node.inputs):
                    names = {**bind_operands(row, node), **bind_outputs(row, node)}
                    check_tensors(graph, row, names.values())
                else:
                    if row.zero_state:
                        _check_zero_state(graph, row, bind_inputs(row, node))
                    inference.attrs[k] = infer_node(graph, node, row, inference, at_file)
            except ShapeError as e:
                unsupported.append(unsupported_node(graph, node, e))
        if k not in inference.attrs:
            unknown.update(node.outputs)
    return unsupported


def infer_node(
    graph: TensorLabels, node: Node, row: OpDef, inference: Inference, at_file: Inference | None
) -> Any:
    """Infers a node's outputs, and folds them if they are integers that follow from constants.

    Returns:
        The node's attributes.

    Raises:
        ShapeError: if the node cannot be computed.
    """
    bound = bind_inputs(row, node)
    operands = bind_operands(row, node)
    statics = _statics(graph, row, bound, inference)
    types = tuple(graph.tensors[i].spec.dtype for i in node.outputs)
    if not types:
        raise ShapeError("must have outputs, but got none")
    attrs = row.attrs({**node.options, "output_types": types}, statics)
    outputs = bind_outputs(row, node)
    check_tensors(graph, row, (*operands.values(), *outputs.values()))
    for i in (*operands.values(), *outputs.values()):
        if graph.tensors[i].variable and graph.tensors[i].data is None:
            raise ShapeError(f"{graph.label(i)} is a variable, which odt does not keep")
    has_computed_statics = any(graph.tensors[bound[n]].data is None for n in statics)
    batched_inputs = inference.batched.intersection(bound.values())
    has_scale = batched_inputs and not has_computed_statics
    if at_file is not None and row.scale_batch is not None and has_scale:
        before = {n: at_file.specs[i] for n, i in operands.items()}
        if inference.batch % at_file.batch:
            raise ShapeError(
                f"the batch must be a multiple of the file's, {at_file.batch}, "
                f"but got {inference.batch}"
            )
        attrs = row.scale_batch(attrs, before, inference.batch // at_file.batch)
    specs = row.infer(attrs, {n: inference.specs[i] for n, i in operands.items()})
    check_outputs(graph, outputs, specs)
    for name, i in outputs.items():
        inference.specs[i] = specs[name]
    if batched_inputs:
        inference.batched.update(outputs.values())
    _fold(row, attrs, node.options, operands, outputs, inference)
    return attrs


def _statics(
    graph: TensorLabels, row: OpDef, bound: Mapping[str, int], inference: Inference
) -> dict[str, Array]:
    """Returns the values of the static inputs."""
    statics = {}
    for name in row.static:
        if name in bound:
            value = inference.values.get(bound[name], inference.reals.get(bound[name]))
            if value is None:
                raise ShapeError(
                    f"{name} must be a constant, but got {graph.label(bound[name])}, "
                    "which is computed from the data"
                )
            if value.dtype.kind not in "iubf" or not np.isfinite(value).all():
                raise ShapeError(f"{name} must hold finite numbers, but got {value.dtype} values")
            statics[name] = value
    return statics


def _check_zero_state(graph: Graph, row: OpDef, bound: Mapping[str, int]) -> None:
    """Checks that a recurrent operator's initial state is zero.

    It is a constant of zeros, or a variable that no other node uses.

    Raises:
        ShapeError: if it is neither.
    """
    for name in row.zero_state:
        if name in bound:
            i = bound[name]
            data = graph.tensors[i].data
            if data is not None and not data.any():
                continue
            readers = sum(i in node.inputs for node in graph.nodes)
            if not graph.tensors[i].variable or i in graph.inputs or readers > 1:
                raise ShapeError(
                    f"{name} must be a variable that only this operator uses, so that it is zero "
                    f"at first, but got {graph.label(i)}"
                )


def _fold(
    row: OpDef,
    attrs: Any,
    options: Mapping[str, Any],
    bound: Mapping[str, int],
    outputs: Mapping[str, int],
    inference: Inference,
) -> None:
    """Folds integers that depend only on constants.

    Floats of shape arithmetic are computed too, such as 2 · float(height), but their nodes stay:
    floats may train.

    Raises:
        ShapeError: if the integers exceed the limits.
    """
    reads = expand(row.forward.reads, bound)
    store = inference.values
    if any(inference.specs[i].dtype.kind not in "iub" for i in outputs.values()):
        if not _is_shape_arithmetic(options, [bound[n] for n in reads], outputs, inference):
            return
        store = inference.reals
    values = ChainMap(inference.values, inference.reals)
    if any(bound[n] not in values for n in reads):
        return
    specs = {n: inference.specs[i] for n, i in (*bound.items(), *outputs.items())}
    writes = {n: specs[n] for n in expand(row.forward.writes, outputs)}
    writes |= row.forward.workspace(attrs, specs)
    size = sum(spec.nbytes for spec in writes.values())
    inference.folded += size
    if size > MAX_FOLDED or inference.folded > MAX_FOLDED_IN_ALL:
        raise ShapeError(
            f"integers that follow from constants must fit into {MAX_FOLDED >> 20} MiB for a "
            f"node and {MAX_FOLDED_IN_ALL >> 20} MiB in all, "
            f"but got {size} bytes of {inference.folded}"
        )
    arrays = {n: np.empty(spec.shape, spec.dtype) for n, spec in writes.items()}
    row.forward.run(
        attrs,
        **{n: values[bound[n]] for n in reads},
        **arrays,
        **row.forward.prepare(attrs, specs),
    )
    for name, i in outputs.items():
        arrays[name].flags.writeable = False
        store[i] = arrays[name]
        inference.batched.discard(i)


def _is_shape_arithmetic(
    options: Mapping[str, Any],
    reads: Sequence[int],
    outputs: Mapping[str, int],
    inference: Inference,
) -> bool:
    """Whether a node computes few floats, from integers with values and from scalars."""
    small = all(inference.specs[i].size <= MAX_REALS for i in outputs.values())
    if not small or options.get("fused_activation_function"):
        return False
    integers = any(i in inference.reals or inference.specs[i].dtype.kind in "iub" for i in reads)
    scalars = all(
        i in inference.reals or inference.specs[i].size <= 1
        for i in reads
        if inference.specs[i].dtype.kind not in "iub"
    )
    return integers and scalars
