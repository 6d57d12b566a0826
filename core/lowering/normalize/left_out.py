"""Final operators that training leaves out, and the tensors that are its outputs in their place.

An output may depend on the weights only through operators without a gradient, such as ARG_MAX, or
through operators that odt cannot compute, such as the post-processing of a detector. Training then
ends before them, at the real numbers that they read, as if `odt cut` had cut the model there. The
exported file keeps them, and operators that odt cannot compute and no output needs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from odt.core.lowering.binding import bind_inputs, gradient_of
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import Model
from odt.core.model.onnx import OnnxNode
from odt.core.model.variables import READ, STATE, SVDF, keeps_state
from odt.dataclass import dataclass
from odt.errors import ShapeError
from odt.kernels.registry import find_operator
from odt.kernels.rows.opdef import TensorSpec

PASSING = ("QUANTIZE", "DEQUANTIZE", "DENSIFY")  # have no row; the gradient passes them


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The final operators of a model that training leaves out.

    Attributes:
        nodes: the operators, in the order of the file.
        uncomputed: those among them that odt cannot compute at all.
        outputs: output of the file → tensors that are outputs of training instead.
        arg_max: tensors among these of which an ARG_MAX finds the largest value → its axis.
    """

    nodes: tuple[Node, ...]
    uncomputed: tuple[Node, ...]
    outputs: Mapping[int, tuple[int, ...]]
    arg_max: Mapping[int, int]


def leave_out(model: Model, *, computed: bool = True) -> tuple[Model, LeftOut | None]:
    """Returns the part of a model that trains; the model itself if training leaves nothing out.

    A model stays whole if layers with weights are among the operators to leave out, or if nothing
    before them could train.

    Args:
        model: a model without control flow.
        computed: whether to leave out operators that odt computes too, since they have no gradient.
    """
    graph = model.graph
    ends = _Ends(graph, keeps_state(graph))
    outputs = ends.outputs(computed)
    new_outputs = tuple(dict.fromkeys(i for tensors in outputs.values() for i in tensors))
    replaced = {y: tensors for y, tensors in outputs.items() if tensors != (y,)}
    if not replaced or not ends.trained.intersection(new_outputs):
        return _without_unneeded(model, ends)
    needed, used = _needed(graph, new_outputs), _needed(graph, graph.outputs)
    unneeded = tuple(graph.nodes[k] for k in sorted(used - needed))
    if any(_is_layer(graph, node) for node in unneeded):
        return model, None
    tensors = list(graph.tensors)
    # The shapes in the file are those of other inputs, if inputs have new shapes.
    for i in new_outputs if model.input_shapes else ():
        spec = TensorSpec((), tensors[i].spec.dtype)
        tensors[i] = replace(tensors[i], spec=spec, signature=())
    nodes = tuple(graph.nodes[k] for k in sorted(needed))
    part = replace(graph, tensors=tuple(tensors), nodes=nodes, outputs=new_outputs)
    uncomputed = tuple(node for node in unneeded if not ends.is_computed(node))
    arg_max = dict(_arg_max(graph, unneeded, new_outputs))
    return replace(model, graph=part), LeftOut(unneeded, uncomputed, replaced, arg_max)


def _without_unneeded(model: Model, ends: "_Ends") -> tuple[Model, LeftOut | None]:
    """Leaves out operators that odt cannot compute and no output needs, and those behind them."""
    graph = model.graph
    needed = _needed(graph, graph.outputs)
    unneeded = tuple(
        node
        for k, node in enumerate(graph.nodes)
        if k not in needed and not ends.unknown.isdisjoint(node.outputs)
    )
    if not unneeded:
        return model, None
    new_graph = replace(graph, nodes=tuple(node for node in graph.nodes if node not in unneeded))
    uncomputed = tuple(node for node in unneeded if not ends.is_computed(node))
    return replace(model, graph=new_graph), LeftOut(unneeded, uncomputed, {}, {})


class _Ends:
    """Finds where training ends.

    Attributes:
        unknown: tensors that odt cannot compute.
        from_inputs: tensors that depend on an input of the model.
        trained: real numbers from which gradients reach weights.
    """

    def __init__(self, graph: Graph, has_state: bool) -> None:
        self.graph, self.has_state = graph, has_state
        self.makers = {i: node for node in graph.nodes for i in node.outputs}
        self.unknown: set[int] = set()
        self.from_inputs = set(graph.inputs)
        for node in graph.nodes:
            if not self.is_computed(node) or not self.unknown.isdisjoint(node.inputs):
                self.unknown.update(node.outputs)
            if not self.from_inputs.isdisjoint(node.inputs) or node.op == READ:
                self.from_inputs.update(node.outputs)
        self.trained = self._reaching_weights(())

    def is_computed(self, node: Node) -> bool:
        """Whether odt has the operator of a node."""
        if node.op in (*STATE, SVDF):
            return self.has_state
        return node.op in PASSING or find_operator(node.op) is not None

    def outputs(self, computed: bool) -> dict[int, tuple[int, ...]]:
        """Returns output of the file → outputs of training: itself, or tensors before it."""
        outputs = self.graph.outputs
        trainable = [y for y in outputs if y in self.trained]
        with_gradients = self._with_gradients(trainable)
        ends: dict[int, tuple[int, ...]] = {}
        for y in outputs:
            before = tuple(i for i in self._before(y) if i not in with_gradients)
            stays = y not in self.unknown and bool(trainable or not before or not computed)
            ends[y] = (y,) if stays else before
        new = {i for y, tensors in ends.items() for i in tensors if tensors != (y,)}
        first = self._reaching_weights(new) & new if new else new
        return {
            y: tensors if tensors == (y,) else tuple(i for i in tensors if i in first)
            for y, tensors in ends.items()
        }

    def _reaching_weights(self, ends: Collection[int]) -> set[int]:
        """Returns real tensors from which gradients reach weights on a way without `ends`."""
        tensors: set[int] = set()
        for node in self.graph.nodes:
            if self.unknown.intersection(node.outputs):
                continue
            for i in _differentiable(node):
                if _is_weight(self.graph, i) or (i in tensors and i not in ends):
                    tensors.update(o for o in node.outputs if _is_real(self.graph, o))
                    break
        return tensors

    def _with_gradients(self, outputs: Iterable[int]) -> set[int]:
        """Returns outputs and the tensors that get a gradient from them."""
        tensors, rest = set(outputs), list(outputs)
        while rest:
            node = self.makers.get(rest.pop())
            new = [] if node is None else [i for i in _differentiable(node) if i not in tensors]
            tensors.update(new)
            rest += new
        return tensors

    def _before(self, output: int) -> Iterator[int]:
        """Yields the last tensors before an output that train and depend on an input."""
        seen, rest = {output}, [output]
        while rest:
            node = self.makers.get(rest.pop(0))
            for i in node.inputs if node is not None else ():
                if i in seen or i == ABSENT:
                    continue
                seen.add(i)
                if i in self.trained and i in self.from_inputs:
                    yield i
                else:
                    rest.append(i)


def _differentiable(node: Node) -> list[int]:
    """The inputs of a node to which a gradient passes."""
    if node.op in (*PASSING, SVDF):
        return [i for i in node.inputs if i != ABSENT]
    row = find_operator(node.op)
    try:
        bound = {} if row is None else bind_inputs(row, node)
    except ShapeError:
        return []
    return [i for name, i in bound.items() if row is not None and gradient_of(row, name)]


def _is_real(graph: Graph, i: int) -> bool:
    """Whether a tensor holds real numbers, which may be quantized."""
    return graph.tensors[i].spec.has_gradient or graph.tensors[i].quantized


def _is_weight(graph: Graph, i: int) -> bool:
    tensor = graph.tensors[i]
    return tensor.data is not None and bool(tensor.spec.shape) and _is_real(graph, i)


def _is_layer(graph: Graph, node: Node) -> bool:
    """Whether a node has a matrix or a filter that could train.

    A node of an ONNX file that waits for an unsupported one has no row, but it is a layer.
    """
    source: OnnxNode | None = node.options.get("onnx")
    inputs = node.inputs if source is not None and source.waits else _differentiable(node)
    weights = (graph.tensors[i].spec.shape for i in inputs if i != ABSENT and _is_weight(graph, i))
    return any(sum(n > 1 for n in shape) > 1 for shape in weights)


def _needed(graph: Graph, outputs: Iterable[int]) -> set[int]:
    """Numbers of the nodes on which outputs and the values of variables depend."""
    needed: set[int] = set()
    tensors = set(outputs)
    for k, node in reversed(tuple(enumerate(graph.nodes))):
        if node.op in STATE or not tensors.isdisjoint(node.outputs):
            needed.add(k)
            tensors.update(node.inputs)
    return needed


def _arg_max(
    graph: Graph, nodes: Iterable[Node], outputs: Collection[int]
) -> Iterator[tuple[int, int]]:
    """Yields the outputs of training of which an ARG_MAX finds the largest value, with its axis."""
    for node in nodes:
        if node.op != "ARG_MAX" or len(node.inputs) != 2 or ABSENT in node.inputs:
            continue
        axis = graph.tensors[node.inputs[1]].data
        if axis is not None and axis.size == 1 and node.inputs[0] in outputs:
            yield node.inputs[0], int(axis.reshape(-1)[0])
