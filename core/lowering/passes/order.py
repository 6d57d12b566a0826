"""All passes, in the order in which they run: each rewrites the graph that the one before returns.

A pass is a function of the graph to rewrite and the file's graph. It returns the graph itself if
there is nothing to rewrite, and is then quick: it looks at the operators first, for example.
"""

from collections.abc import Callable, Sequence

from odt.core.lowering.passes.merge_activations import merge_activations
from odt.core.lowering.passes.merge_groups import merge_groups
from odt.core.lowering.passes.merge_norms import merge_norms
from odt.core.lowering.passes.merge_pads import merge_pads
from odt.core.lowering.passes.merge_slices import merge_slices
from odt.core.lowering.passes.merge_steps import merge_steps
from odt.core.lowering.passes.merge_volumes import merge_volumes
from odt.core.lowering.passes.move_activations_last import move_activations_last
from odt.core.lowering.passes.push_transposes import push_transposes
from odt.core.lowering.passes.replace_powers import replace_powers
from odt.core.lowering.passes.replace_single_channels import replace_single_channels
from odt.core.lowering.passes.replace_zeros_like import replace_zeros_like
from odt.core.model.graph import Graph, LoweredGraph

Pass = Callable[[LoweredGraph, Graph], LoweredGraph]

# On the graph for the file's batch size, before core/lowering/batch_samples.py reads it.
BEFORE_BATCHING: tuple[Pass, ...] = (
    replace_zeros_like,
    merge_steps,
    merge_volumes,
    merge_groups,
    replace_single_channels,
    move_activations_last,
)
# On the graph for a batch; the graph before has the nodes of the file, which commands show.
AFTER_BATCHING: tuple[Pass, ...] = (
    merge_slices,
    push_transposes,
    merge_pads,
    replace_powers,  # which makes the roots that merge_norms looks for
    merge_activations,
    merge_norms,
)


def run_passes(passes: Sequence[Pass], graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Runs passes, one after the other.

    Args:
        passes: BEFORE_BATCHING or AFTER_BATCHING.
        graph: the graph to rewrite.
        file: the file's graph, of which the lowered one has all tensors.
    """
    for rewrite in passes:
        graph = rewrite(graph, file)
    return graph
