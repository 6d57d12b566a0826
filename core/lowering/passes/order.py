"""All passes, in the order in which they run: each rewrites the graph that the one before returns.

A pass is a function of the graph to rewrite and the file's graph, in a module of its name. It
returns the graph itself if there is nothing to rewrite.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from odt.core.model.graph import Graph, LoweredGraph
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass, which is imported for graphs that it may rewrite.

    Attributes:
        name: name of the function and its module.
        operators: a graph that has none of them stays as it is.
    """

    name: str
    operators: tuple[str, ...]

    def __call__(self, graph: LoweredGraph, file: Graph) -> LoweredGraph:
        """Rewrites a graph; `file` is the file's graph, of which it has all tensors."""
        rewrite = getattr(import_module(f"odt.core.lowering.passes.{self.name}"), self.name)
        return cast("LoweredGraph", rewrite(graph, file))


# On the graph for the file's batch size, before core/lowering/batch_samples.py reads it.
BEFORE_BATCHING = (
    Pass("replace_zeros_like", ("ZEROS_LIKE",)),
    Pass("merge_steps", ("TANH",)),
    Pass("merge_volumes", ("CONCATENATION",)),
    Pass("merge_groups", ("CONCATENATION",)),
    Pass("replace_single_channels", ("CONV_2D",)),
    Pass("move_activations_last", ("SOFTMAX", "LOGISTIC")),
)
# On the graph for a batch; the graph before has the nodes of the file, which commands show.
AFTER_BATCHING = (
    Pass("merge_slices", ("SLICE", "STRIDED_SLICE")),
    Pass("push_transposes", ("TRANSPOSE",)),
    Pass("merge_pads", ("PAD",)),
    Pass("replace_powers", ("POW",)),  # which makes the roots that merge_norms looks for
    Pass("merge_activations", ("TANH", "LOGISTIC", "RELU6", "CUSTOM:Erf")),
    Pass("merge_norms", ("RSQRT", "SQRT")),
)


def run_passes(passes: Sequence[Pass], graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Runs passes, one after the other.

    Args:
        passes: BEFORE_BATCHING or AFTER_BATCHING.
        graph: the graph to rewrite.
        file: the file's graph, of which the lowered one has all tensors.
    """
    for rewrite in passes:
        if any(node.op in rewrite.operators for node in graph.nodes):
            graph = rewrite(graph, file)
    return graph
