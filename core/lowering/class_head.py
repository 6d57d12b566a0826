"""The last layer of a classifier: FULLY_CONNECTED and SOFTMAX, with a row for each class.

ONNX files may end in logits, and add the bias by an operator of its own.
"""

from dataclasses import replace

import numpy as np

from odt.core.lowering.final_activation import before_rounding, producer
from odt.core.lowering.low_rank import whole_hash
from odt.core.model.graph import ABSENT, Graph, Node
from odt.dataclass import dataclass
from odt.errors import UnsupportedError

FLOAT32 = np.dtype(np.float32)
OTHER_FORMS = ("fused_activation_function", "weights_format")  # options of FULLY_CONNECTED


@dataclass(frozen=True, slots=True)
class ClassHead:
    """The last layer of a classifier.

    Attributes:
        operators: positions in the file of the FULLY_CONNECTED, and of an ADD of its bias.
        features: tensor that the layer reads.
        weights: tensor of the weights (K, F).
        bias: tensor of the bias (K,); ABSENT without one.
        outputs: tensors with K values for each sample: logits, and probabilities after SOFTMAX.
        classes: K, the number of classes.
        width: F, the number of features.
    """

    operators: tuple[int, ...]
    features: int
    weights: int
    bias: int
    outputs: tuple[int, ...]
    classes: int
    width: int


def class_head(graph: Graph, *, logits: bool = False) -> ClassHead:
    """Finds the last layer of a classifier.

    Args:
        graph: as in the file, with float32 weights; all operators are supported.
        logits: whether SOFTMAX may be absent.

    Raises:
        UnsupportedError: if the model has another end than FULLY_CONNECTED and SOFTMAX, several
            outputs, or weights that other operators read too.
    """
    if len(graph.outputs) != 1:
        raise _unsupported(graph, f"{len(graph.outputs)} outputs")
    (y,) = graph.outputs
    last = producer(graph, y)
    has_softmax = last is not None and last.op == "SOFTMAX"
    if not (has_softmax or logits):
        raise _unsupported(graph, last.op if last else "an input")
    before = last.inputs[0] if last is not None and has_softmax else y
    total = before_rounding(graph, before)
    layer, bias = _layer(graph, total)
    if layer is None or layer.op != "FULLY_CONNECTED":
        where = "before SOFTMAX" if has_softmax else "at the end"
        raise _unsupported(graph, f"{layer.op if layer else 'an input'} {where}")
    features, weights = layer.inputs[:2]
    constants = [i for i in (weights, bias) if i != ABSENT]
    results = {total, layer.outputs[0]}
    uses = [i for node in graph.nodes for i in node.inputs if i in (*constants, *results)]
    reads_of_head = len(constants) + len(results) - (not has_softmax)  # each is read once
    are_float = all(
        graph.tensors[i].data is not None and graph.tensors[i].spec.dtype == FLOAT32
        for i in constants
    )
    if (
        not are_float
        or len(uses) != reads_of_head
        or any(layer.options.get(n) for n in OTHER_FORMS)
    ):
        raise _unsupported(graph, "a FULLY_CONNECTED with other weights or an activation")
    classes, width = graph.tensors[weights].spec.shape
    outputs = tuple(dict.fromkeys((total, before, *layer.outputs, y)))
    operators = {n.origin for n in graph.nodes if results.intersection(n.outputs)}
    return ClassHead(tuple(sorted(operators)), features, weights, bias, outputs, classes, width)


def _layer(graph: Graph, total: int) -> tuple[Node | None, int]:
    """Returns the layer that computes logits, and its bias, which an ADD may add."""
    layer = producer(graph, total)
    if layer is not None and layer.op == "ADD":
        for x, bias in (layer.inputs, layer.inputs[::-1]):
            product = producer(graph, x)
            if product is None or product.op != "FULLY_CONNECTED":
                continue
            units = graph.tensors[product.inputs[1]].spec.shape[:1]
            if product.inputs[2:] in ((), (ABSENT,)) and graph.tensors[bias].spec.shape == units:
                return product, bias
    has_bias = layer is not None and len(layer.inputs) > 2
    return layer, layer.inputs[2] if layer is not None and has_bias else ABSENT


def frozen_hash(graph: Graph, head: ClassHead) -> str:
    """Computes the SHA-256 of all operators and constants before a classifier's last layer.

    It stays equal while only the last layer is trained or gets more classes.

    Args:
        graph: as in the file, with float32 weights.
        head: the last layer.
    """
    nodes = tuple(n for n in graph.nodes if not set(n.outputs) & set(head.outputs))
    read = {i for n in nodes for i in n.inputs}
    tensors = tuple(
        t if i in read or t.data is None else replace(t, data=None)
        for i, t in enumerate(graph.tensors)
    )
    return whole_hash(replace(graph, tensors=tensors, nodes=nodes, outputs=(head.features,)))


def _unsupported(graph: Graph, actual: str) -> UnsupportedError:
    return UnsupportedError(
        f"{graph.name}: must be a classifier that ends in FULLY_CONNECTED and SOFTMAX, with "
        f"weights of its own, but got {actual}. `replace_head` gives a model such an end; it loses "
        "its classes, which must be trained again with the new ones."
    )
