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
OTHER_FORMS = ("fused_activation_function", "weights_format")  # options that other layers have


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
        logits: whether SOFTMAX may be absent, as in ONNX files.

    Raises:
        UnsupportedError: if the model has several outputs, another end than FULLY_CONNECTED and
            SOFTMAX, an activation before SOFTMAX, weights that are no float32 constants, or
            weights or logits that other operators read too.
    """
    if len(graph.outputs) != 1:
        raise _unsupported(graph, f"{len(graph.outputs)} outputs", logits)
    (y,) = graph.outputs
    last = producer(graph, y)
    has_softmax = last is not None and last.op == "SOFTMAX"
    if not (has_softmax or logits):
        raise _unsupported(graph, last.op if last else "an input", logits)
    before = last.inputs[0] if last is not None and has_softmax else y
    total = before_rounding(graph, before)
    layer, bias = _layer(graph, total)
    if layer is None or layer.op != "FULLY_CONNECTED":
        where = "before SOFTMAX" if has_softmax else "at the end"
        raise _unsupported(graph, f"{layer.op if layer else 'an input'} {where}", logits)
    features, weights = layer.inputs[:2]
    constants = [i for i in (weights, bias) if i != ABSENT]
    results = {total, layer.outputs[0]}
    uses = [i for node in graph.nodes for i in node.inputs if i in (*constants, *results)]
    reads_of_head = len(constants) + len(results) - (not has_softmax)  # each is read once
    layers = [n for n in graph.nodes if results.intersection(n.outputs)]
    if any(n.options.get(name) for n in layers for name in OTHER_FORMS):
        raise _unsupported(graph, "an activation or shuffled weights in it", logits)
    if not all(
        graph.tensors[i].data is not None and graph.tensors[i].spec.dtype == FLOAT32
        for i in constants
    ):
        raise _unsupported(graph, "weights that are no float32 constants", logits)
    if len(uses) != reads_of_head:
        raise _unsupported(graph, "weights or logits that other operators read", logits)
    classes, width = graph.tensors[weights].spec.shape
    outputs = tuple(dict.fromkeys((total, before, *layer.outputs, y)))
    operators = sorted({n.origin for n in layers})
    return ClassHead(tuple(operators), features, weights, bias, outputs, classes, width)


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


def _unsupported(graph: Graph, actual: str, logits: bool) -> UnsupportedError:
    softmax, first = "SOFTMAX", ""
    if logits:
        softmax, first = "perhaps SOFTMAX", "Convert it first with `Model.save()`. "
    return UnsupportedError(
        f"{graph.name}: must be a classifier that ends in FULLY_CONNECTED and {softmax}, with "
        f"weights of its own, but got {actual}. {first}`replace_head` gives a model such an end; "
        "it loses its classes, which must be trained again with the new ones."
    )
