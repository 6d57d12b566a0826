"""The last layer of a classifier: FULLY_CONNECTED and SOFTMAX, with a row for each class."""

from dataclasses import replace

import numpy as np

from odt.core.lowering.final_activation import before_rounding, producer
from odt.core.lowering.low_rank import model_hash
from odt.core.model.graph import ABSENT, Graph
from odt.dataclass import dataclass
from odt.errors import UnsupportedError

FLOAT32 = np.dtype(np.float32)
OTHER_FORMS = ("fused_activation_function", "weights_format")  # options of FULLY_CONNECTED


@dataclass(frozen=True, slots=True)
class ClassHead:
    """The last layer of a classifier.

    Attributes:
        operator: position of the FULLY_CONNECTED in the file.
        features: tensor that the layer reads.
        weights: tensor of the weights (K, F).
        bias: tensor of the bias (K,); ABSENT without one.
        outputs: tensors with K values for each sample: logits, and probabilities after SOFTMAX.
        classes: K, the number of classes.
        width: F, the number of features.
    """

    operator: int
    features: int
    weights: int
    bias: int
    outputs: tuple[int, ...]
    classes: int
    width: int


def class_head(graph: Graph) -> ClassHead:
    """Finds the last layer of a classifier.

    Args:
        graph: as in the file, with float32 weights.

    Raises:
        UnsupportedError: if the model has another end than FULLY_CONNECTED and SOFTMAX, several
            outputs, or weights that other operators read too.
    """
    y = graph.outputs[0]
    softmax = producer(graph, y)
    if softmax is None or softmax.op != "SOFTMAX" or len(graph.outputs) != 1:
        raise _unsupported(graph, softmax.op if softmax else "an input")
    logits = before_rounding(graph, softmax.inputs[0])
    layer = producer(graph, logits)
    if layer is None or layer.op != "FULLY_CONNECTED":
        raise _unsupported(graph, f"{layer.op if layer else 'an input'} before SOFTMAX")
    features, weights, bias = (*layer.inputs, ABSENT)[:3]
    constants = [i for i in (weights, bias) if i != ABSENT]
    uses = [i for node in graph.nodes for i in node.inputs if i in (*constants, logits)]
    plain = all(
        graph.tensors[i].data is not None and graph.tensors[i].spec.dtype == FLOAT32
        for i in constants
    )
    if (
        not plain
        or len(uses) != len(constants) + 1
        or any(layer.options.get(n) for n in OTHER_FORMS)
    ):
        raise _unsupported(graph, "a FULLY_CONNECTED with other weights or an activation")
    classes, width = graph.tensors[weights].spec.shape
    outputs = tuple(dict.fromkeys((logits, softmax.inputs[0], y)))
    return ClassHead(layer.origin, features, weights, bias, outputs, classes, width)


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
    return model_hash(replace(graph, tensors=tensors, nodes=nodes, outputs=(head.features,)))


def _unsupported(graph: Graph, actual: str) -> UnsupportedError:
    return UnsupportedError(
        f"{graph.name}: must be a classifier that ends in FULLY_CONNECTED and SOFTMAX, with "
        f"weights of its own, but got {actual}. `replace_head` gives a model such an end; it loses "
        "its classes, which must be trained again with the new ones."
    )
