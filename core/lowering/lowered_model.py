"""A model file with float32 weights, and its graph lowered for batch sizes."""

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.dequantize import Dequantized, dequantize_weights
from odt.core.model.graph import Graph
from odt.core.model.reader import Model
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LoweredModel:
    """A model file, its graph with float32 weights, and that graph lowered.

    Attributes:
        file: the model file.
        dequantized: its graph with all weights in float32.
        graphs: that graph, lowered once for each batch size that is asked for.
    """

    file: Model
    dequantized: Dequantized
    graphs: LoweredGraphs

    @property
    def graph(self) -> Graph:
        """The file's graph with all weights in float32."""
        return self.dequantized.graph


def lower_model(file: Model) -> LoweredModel:
    """Dequantizes the weights of a model file; graphs are lowered when they are asked for."""
    dequantized = dequantize_weights(file)
    return LoweredModel(file, dequantized, LoweredGraphs(dequantized.graph))
