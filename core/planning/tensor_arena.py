"""Memory that an interpreter needs for a model's activations, such as a microcontroller's arena.

Each activation lives from the operator that computes it to the last one that reads it. Activations
that live at the same time get different memory: the largest is placed first, at the lowest free
offset, as TensorFlow Lite Micro and LiteRT do.
"""

from odt.core.model.graph import Graph
from odt.core.planning.lifetimes import BEFORE, Lifetime
from odt.core.planning.memory import Block, place


def tensor_arena(graph: Graph) -> int:
    """Returns the bytes of the activations of one run, in an arena that reuses memory.

    Args:
        graph: graph as in the file.
    """
    touched: dict[int, list[int]] = {i: [BEFORE] for i in graph.inputs}
    for k, node in enumerate(graph.nodes):
        for i in (*node.inputs, *node.outputs):
            touched.setdefault(i, []).append(k)
    for i in graph.outputs:  # `odt check` names outputs that no operator computes
        touched.setdefault(i, []).append(len(graph.nodes))
    blocks = [
        Block((str(i),), graph.tensors[i].spec.nbytes, Lifetime(min(at), max(at)))
        for i, at in touched.items()
        if i >= 0 and graph.tensors[i].data is None
    ]
    return place(sorted(blocks, key=lambda b: (-b.nbytes, b.lifetime.first))).nbytes
