"""Which loss an output gets, and what it reads."""

from odt.core.autodiff import Loss
from odt.core.graph import Graph, Node
from odt.core.lower import file_batch, lower
from odt.errors import OptionError

CROSS_ENTROPIES = ("categorical_crossentropy", "sparse_categorical_crossentropy")
LOSSES = (*CROSS_ENTROPIES, "mean_squared_error")

# Operators that leave a distribution a distribution.
_SHAPE_ONLY = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def producer(graph: Graph, tensor: int) -> Node | None:
    """The node that makes a tensor."""
    return next((n for n in graph.nodes if tensor in n.outputs), None)


def ends_in_softmax(graph: Graph, output: int) -> bool:
    """Whether an output is probabilities: a SOFTMAX, perhaps in another shape."""
    node = producer(graph, output)
    while node is not None and node.op in _SHAPE_ONLY:
        node = producer(graph, node.inputs[0])
    return node is not None and node.op == "SOFTMAX"


def head(graph: Graph, output: int, name: str | None, reduction: str) -> Loss:
    """The loss on an output of the file's graph.

    Cross-entropy on a final SOFTMAX reads the SOFTMAX's input: one function of the logits, stable
    where the two apart are not. On other outputs it takes them for logits.

    Args:
        graph: as in the file.
        output: tensor index.
        name: of the loss; None where neither the user nor the file named one.
        reduction: sum_over_batch_size or sum.

    Raises:
        OptionError: if no loss is named and the output does not say which one it wants.
    """
    probabilities = ends_in_softmax(graph, output)
    if name is None:
        if not probabilities:
            raise OptionError(
                f"--loss: must be given for {graph.label(output)}, which does not end in SOFTMAX. "
                f"Give one of {', '.join(n.replace('_', '-') for n in LOSSES)}."
            )
        name = "categorical_crossentropy"
    if name not in CROSS_ENTROPIES:
        return Loss(name, output, {})
    mean = {"mean_over_positions": reduction == "sum_over_batch_size"}
    node = producer(graph, output)
    if node is not None and node.op == "SOFTMAX":
        beta = float(node.options.get("beta", 1.0))
        return Loss(name, node.inputs[0], {"from_logits": True, "beta": beta, **mean})
    return Loss(name, output, {"from_logits": not probabilities, **mean})


def heads(graph: Graph, name: str | None, reduction: str) -> tuple[Loss, ...]:
    """The loss on each output.

    Raises:
        UnsupportedError: if the graph cannot be computed, whatever the loss.
        OptionError: if an output does not say which loss it wants.
    """
    if not graph.outputs:
        lower(graph, file_batch(graph))  # says so
    try:
        return tuple(head(graph, output, name, reduction) for output in graph.outputs)
    except OptionError:
        lower(graph, file_batch(graph))
        raise
