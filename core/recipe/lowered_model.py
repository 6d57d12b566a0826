"""A model file with float32 weights, and its graph lowered for batch sizes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from odt.core.integers.real_graph import real_graph
from odt.core.lowering.constants.hold import hold_constants
from odt.core.lowering.lower import LoweredGraphs
from odt.core.lowering.normalize.inline import inline
from odt.core.lowering.normalize.left_out import LeftOut, leave_out
from odt.core.model.dequantize import DequantizedGraph
from odt.core.model.graph import FLEX, Graph
from odt.core.model.model import ONNX, Model
from odt.core.model.variables import keeps_state
from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.kernels.rows.opdef import Array

if TYPE_CHECKING:
    from odt.core.lowering.low_rank import AdaptedGraph, Adapters

Outputs: TypeAlias = Literal["training", "computed", "file"]


@dataclass(frozen=True, slots=True)
class LoweredModel:
    """A model file, its graph with float32 weights, and that graph lowered.

    Attributes:
        file: the model file.
        part: the file with its subgraphs inlined, without the operators that are left out.
        unrolled: `part` with the graph of all time steps if it keeps state.
        dequantized: the graph of `unrolled` with all weights in float32.
        graphs: that graph, lowered once for each requested batch size.
        adapted: that graph with low-rank adapters; None without adapters.
        left_out: the operators that are left out; None for none.
    """

    file: Model
    part: Model
    unrolled: Model
    dequantized: DequantizedGraph
    graphs: LoweredGraphs
    adapted: "AdaptedGraph | None" = None
    left_out: LeftOut | None = None

    @property
    def graph(self) -> Graph:
        """The graph of `unrolled` with all weights in float32."""
        return self.dequantized.graph

    def with_weights(self, weights: Mapping[int, Array]) -> "LoweredModel":
        """Returns the model with other values of constants of the graph, by tensor."""
        tensors = list(self.graph.tensors)
        for i, values in weights.items():
            tensors[i] = tensors[i].with_values(values)
        graph = replace(self.graph, tensors=tuple(tensors))
        dequantized = replace(self.dequantized, graph=graph)
        return replace(self, dequantized=dequantized, graphs=LoweredGraphs(graph))


def lower_if_supported(make: Callable[[], Model]) -> LoweredModel | None:
    """Lowers the model that `make` returns; None if odt cannot make it or compute all of it."""
    try:
        lowered = lower_model(make())
        return None if lowered.graphs.unsupported else lowered
    except OdtError:
        return None


def lower_model(
    file: Model, adapters: "Adapters | None" = None, *, outputs: Outputs = "training"
) -> LoweredModel:
    """Dequantizes the weights of a model file; graphs are lowered when they are requested.

    Args:
        file: the model file.
        adapters: low-rank adapters to add; None for none.
        outputs: those of training; those of the file as far as odt computes them; or those of the
            file.

    Raises:
        ModelError: if the adapters were made for another model.
        UnsupportedError: if the state that the model keeps cannot be unrolled.
    """
    plain = file
    if file.format == ONNX:
        from odt.core.lowering.onnx.lower import lower_onnx

        plain = lower_onnx(file)
    part = inline(plain)
    if any(node.op.startswith(FLEX) for node in part.graph.nodes):
        from odt.core.lowering.normalize.flex import with_builtins

        part = with_builtins(part)
    left_out = None
    if outputs != "file":
        part, left_out = leave_out(part, computed=outputs == "training")
    unrolled = part
    if keeps_state(part.graph):
        from odt.core.lowering.streaming.unroll import unroll

        unrolled = unroll(part)
    dequantized = real_graph(unrolled)
    dequantized = replace(dequantized, graph=hold_constants(dequantized.graph))
    adapted = None
    if adapters is not None:
        from odt.core.lowering.low_rank import adapt

        adapted = adapt(dequantized.graph, adapters)
        dequantized = replace(dequantized, graph=adapted.graph)
    graphs = LoweredGraphs(dequantized.graph)
    return LoweredModel(file, part, unrolled, dequantized, graphs, adapted, left_out)
