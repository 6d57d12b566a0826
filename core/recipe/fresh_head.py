"""Recognizes new last layers that have not been trained yet; only they train by default.

With random last layers, the first gradients of the layers before them are noise. As in Keras' guide
to transfer learning, those layers are frozen until the new ones are trained.
"""

from odt.core.model.graph import Graph, Node

HEAD = "head/"  # begins the names of the tensors of new last layers
ORIGIN = "new head"  # of the trainable operators


def fresh_head(graph: Graph) -> tuple[int, ...]:
    """Positions in the file of the operators of a new head; empty without one, or a trained one.

    A new head has biases of zero.

    Args:
        graph: as in the file, with float32 weights.
    """
    constants = [t for t in graph.tensors if t.data is not None and t.name.startswith(HEAD)]
    biases = [t.data for t in constants if t.name.endswith("bias")]
    if not biases or any(data is not None and data.any() for data in biases):
        return ()
    names = {t.name for t in constants if t.name.endswith(("weights", "bias"))}
    layers = [n.origin for n in graph.nodes if names.intersection(_inputs(graph, n))]
    return tuple(n.origin for n in graph.nodes if n.origin >= min(layers)) if layers else ()


def _inputs(graph: Graph, node: Node) -> list[str]:
    return [graph.tensors[i].name for i in node.inputs if i >= 0]
