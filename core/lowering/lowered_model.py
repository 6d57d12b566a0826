"""A model file with float32 weights, and its graph lowered for batch sizes."""

from collections.abc import Callable
from dataclasses import replace

from odt.core.lowering.fake_quantize import real_graph
from odt.core.lowering.inline import inline
from odt.core.lowering.low_rank import AdaptedGraph, Adapters, adapt
from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.streaming.unroll import unroll
from odt.core.model.dequantize import Dequantized
from odt.core.model.graph import Graph
from odt.core.model.reader import Model
from odt.dataclass import dataclass
from odt.errors import OdtError


@dataclass(frozen=True, slots=True)
class LoweredModel:
    """A model file, its graph with float32 weights, and that graph lowered.

    Attributes:
        file: the model file.
        unrolled: the file with its subgraphs inlined, and the graph of all time steps if it keeps
            state; `file` if it has neither.
        dequantized: the graph of `unrolled` with all weights in float32.
        graphs: that graph, lowered once for each requested batch size.
        adapted: that graph with low-rank adapters; None without adapters.
    """

    file: Model
    unrolled: Model
    dequantized: Dequantized
    graphs: LoweredGraphs
    adapted: AdaptedGraph | None = None

    @property
    def graph(self) -> Graph:
        """The graph of `unrolled` with all weights in float32."""
        return self.dequantized.graph


def lower_if_supported(make: Callable[[], Model]) -> LoweredModel | None:
    """Lowers the model that `make` returns; None if odt cannot make it or compute all of it."""
    try:
        lowered = lower_model(make())
        return None if lowered.graphs.unsupported else lowered
    except OdtError:
        return None


def lower_model(file: Model, adapters: Adapters | None = None) -> LoweredModel:
    """Dequantizes the weights of a model file; graphs are lowered when they are requested.

    Args:
        file: the model file.
        adapters: low-rank adapters to add; None for none.

    Raises:
        ModelError: if the adapters were made for another model.
        UnsupportedError: if the state that the model keeps cannot be unrolled.
    """
    unrolled = unroll(inline(file))
    dequantized = real_graph(unrolled)
    if adapters is None:
        return LoweredModel(file, unrolled, dequantized, LoweredGraphs(dequantized.graph))
    adapted = adapt(dequantized.graph, adapters)
    dequantized = replace(dequantized, graph=adapted.graph)
    return LoweredModel(file, unrolled, dequantized, LoweredGraphs(adapted.graph), adapted)
