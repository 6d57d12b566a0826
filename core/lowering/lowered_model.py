"""A model file with float32 weights, and its graph lowered for batch sizes."""

from dataclasses import replace

from odt.core.lowering.fake_quantize import real_graph
from odt.core.lowering.integer_graph import has_int4, integer_graph
from odt.core.lowering.low_rank import AdaptedGraph, Adapters, adapt
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.dequantize import Dequantized
from odt.core.model.graph import Graph
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.model.reader import Model
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LoweredModel:
    """A model file, its graph with float32 weights, and that graph lowered.

    Attributes:
        file: the model file.
        dequantized: its graph with all weights in float32.
        graphs: that graph, lowered once for each requested batch size.
        adapted: that graph with low-rank adapters; None without adapters.
    """

    file: Model
    dequantized: Dequantized
    graphs: LoweredGraphs
    adapted: AdaptedGraph | None = None

    @property
    def graph(self) -> Graph:
        """The file's graph with all weights in float32."""
        return self.dequantized.graph


def lower_model(file: Model, adapters: Adapters | None = None) -> LoweredModel:
    """Dequantizes the weights of a model file; graphs are lowered when they are requested.

    Args:
        file: the model file.
        adapters: low-rank adapters to add; None for none.

    Raises:
        ModelError: if the adapters were made for another model.
    """
    dequantized = real_graph(file)
    if adapters is None:
        return LoweredModel(file, dequantized, LoweredGraphs(dequantized.graph))
    adapted = adapt(dequantized.graph, adapters)
    dequantized = replace(dequantized, graph=adapted.graph)
    return LoweredModel(file, dequantized, LoweredGraphs(adapted.graph), adapted)


def inference_graphs(lowered: LoweredModel) -> LoweredGraphs:
    """Returns the graphs that compute a model's outputs: of integers if the file is quantized.

    The graphs that are trained have no int4 weights.

    Raises:
        ModelError: if the quantization of a tensor does not fit its operator.
    """
    if has_quantized_activations(lowered.file) or has_int4(lowered.file.graph):
        return LoweredGraphs(integer_graph(lowered.file))
    return lowered.graphs
