"""The sample axis of a lowered graph: nodes that mix samples, and the spec of one sample."""

from collections.abc import Collection

from odt.core.lowering.binding import bind_operands, row_of
from odt.core.model.graph import LoweredGraph, Node
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import TensorSpec, always


def batched_tensors(graph: LoweredGraph, inputs: Collection[int] = ()) -> set[int]:
    """Returns the tensors with a part for each sample.

    They depend on the graph's inputs, or repeat a constant for each sample.

    Args:
        graph: the graph.
        inputs: further tensors that are filled for each batch.
    """
    batched = {*graph.inputs, *inputs}
    for node in graph.nodes:
        if not batched.isdisjoint(node.inputs) or _repeats(graph, node):
            batched.update(node.outputs)
    return batched


def _repeats(graph: LoweredGraph, node: Node) -> bool:
    """Whether a node repeats a constant for each sample (`batch_samples`)."""
    if node.op != "BROADCAST_TO" or graph.samples == 1:
        return False
    x, y = (graph.tensors[i].spec.shape for i in (node.inputs[0], node.outputs[0]))
    return y[:1] == (graph.samples,) and len(x) < len(y)


def mixing_nodes(graph: LoweredGraph) -> tuple[Node, ...]:
    """Returns the nodes in which the samples of a batch depend on each other."""
    batched = set(graph.inputs)
    mixing = []
    for node in graph.nodes:
        if not batched.intersection(node.inputs):
            continue
        row = row_of(node.op)
        bound = bind_operands(row, node)
        specs = {n: graph.tensors[i].spec for n, i in bound.items()}
        batched_names = frozenset(n for n, i in bound.items() if i in batched)
        batched.update(node.outputs)
        if row.forward.view is always:  # values keep their order, so samples stay intact
            shapes = [graph.tensors[i].spec.shape for i in node.outputs]
            mixes = any(not shape or shape[0] % graph.samples for shape in shapes)
        else:
            mixes = row.mixes_samples(node.attrs, specs, batched_names)
        if mixes:
            mixing.append(node)
    return tuple(mixing)


def nodes_mixing_batch(graph: LoweredGraph) -> tuple[Node, ...]:
    """Returns the nodes that mix the samples of this batch; none if it has a single sample."""
    return mixing_nodes(graph) if graph.samples > 1 else ()


def sample_spec(graph: LoweredGraph, name: str, spec: TensorSpec, batch: int) -> TensorSpec:
    """Returns the spec of one sample of an input, output or target.

    Raises:
        UnsupportedError: if the leading axis does not consist of whole samples.
    """
    if batch == 1 and not spec.shape:
        return spec
    if not spec.shape or spec.shape[0] % batch:
        raise UnsupportedError(
            f"{graph.name}: {name}: its leading axis must hold whole samples, "
            f"but got {spec} at batch {batch}"
        )
    lead = spec.shape[0] // batch
    rest = spec.shape[1:]
    return TensorSpec(rest if lead == 1 else (lead, *rest), spec.dtype)
