"""SVDF, a layer with memory, as other operators: a dense layer and a convolution over time.

Each unit has R filters: products of a filter w of features and a filter v of M time steps.

u = x wᵀ (1, F), with F = units · R       y = f(Σ_R Σ_k u_(t−k) v_(M−1−k) + b)

The last M − 1 values of u are a variable that is 0 at first. In the file, the state is a variable
tensor with M values of each filter.
Source: Nakkiran et al., *Compressing Deep Neural Networks using a Rank-Constrained Topology*
(2015); SVDFOptions in the TFLite schema.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.lowering.streaming.sequence_builder import TIME
from odt.core.model.graph import ABSENT, Node, Tensor
from odt.core.model.model import Model
from odt.core.model.variables import ASSIGN, HANDLE, READ, SVDF, Key, Variable
from odt.dataclass import dataclass
from odt.errors import UnsupportedError
from odt.kernels.geometry.quantize import Quantization
from odt.kernels.rows.opdef import TensorSpec

VALID = 1  # Padding of the schema
OTHER_AXES = 0b1111 - (1 << TIME)  # mask of the axes (N, time, 1, F) that a slice takes as a whole
# Options of the convolution over time.
CONVOLUTION: Mapping[str, Any] = {
    "stride_w": 1,
    "stride_h": 1,
    "dilation_w_factor": 1,
    "dilation_h_factor": 1,
    "padding": VALID,
    "depth_multiplier": 1,
}


@dataclass(frozen=True, slots=True)
class _Layer:
    """An SVDF.

    Attributes:
        node: the node.
        x, w, v, b, s: features, filters of features and time, bias (or ABSENT), and state.
        batch, filters, steps, rank: N, F, M and R.
        quantized: whether activations are integers.
    """

    node: Node
    x: int
    w: int
    v: int
    b: int
    s: int
    batch: int
    filters: int
    steps: int
    rank: int
    quantized: bool

    @property
    def activation(self) -> int:
        """Code of the fused activation."""
        return int(self.node.options.get("fused_activation_function", 0))


def expand_svdf(model: Model) -> Model:
    """Returns a model without SVDF, which keeps the same state in variables.

    Raises:
        UnsupportedError: if the shapes of a layer do not fit.
    """
    if all(node.op != SVDF for node in model.graph.nodes):
        return model
    return _Expansion(model).expand()


class _Expansion:
    """Builds the graph without SVDF."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tensors = list(model.graph.tensors)
        self.nodes: list[Node] = []
        self.quantization = dict(model.quantization)
        self.variables = dict(model.variables)

    def expand(self) -> Model:
        """Returns the model with the new graph."""
        for node in self.model.graph.nodes:
            if node.op == SVDF:
                self._add(node)
            else:
                self.nodes.append(node)
        graph = replace(self.model.graph, tensors=tuple(self.tensors), nodes=tuple(self.nodes))
        return replace(
            self.model, graph=graph, quantization=self.quantization, variables=self.variables
        )

    def _add(self, node: Node) -> None:
        """Checks the shapes of an SVDF, and adds the operators in its place."""
        graph = self.model.graph
        x, w, v, b, s = (*node.inputs, *[ABSENT] * 5)[:5]
        rank = int(node.options.get("rank", 1))
        if len(node.outputs) != 1 or ABSENT in (x, w, v, s):
            raise self._error(node, "must have features, filters of features and time, and state")
        shapes = [graph.tensors[i].spec.shape for i in (x, w, v, s)]
        filters, steps = (*shapes[2], 0, 0)[:2]  # 0 for axes that a damaged file lacks
        batch = (*shapes[0], 0)[0]
        fits = shapes[3] == (batch, filters * steps) and shapes[1][:1] == (filters,)
        if not fits or rank < 1 or filters % rank or steps < 2:
            raise self._error(node, f"shapes of x, filters and state must fit, but got {shapes}")
        quantized = graph.tensors[x].spec.dtype.kind in "iu"
        if quantized and rank > 1:
            raise self._error(node, f"a quantized layer must have rank 1, but got {rank}")
        layer = _Layer(node, x, w, v, b, s, batch, filters, steps, rank, quantized)
        joined = self._add_state(layer)
        kernel = self._add_kernel(layer)
        if rank == 1:
            self._add_convolution(layer, joined, kernel)
        else:
            self._add_sum(layer, joined, kernel)

    def _add_state(self, layer: _Layer) -> int:
        """Adds u of this step behind the last M - 1 of them, which a variable keeps."""
        node, steps = layer.node, layer.steps
        one = (layer.batch, 1, 1, layer.filters)
        old = (layer.batch, steps - 1, 1, layer.filters)
        u = self._add_like_state(
            layer, "FULLY_CONNECTED", (layer.x, layer.w, ABSENT), (layer.batch, layer.filters)
        )
        u = self._add_like_state(layer, "RESHAPE", (u,), one, new_shape=one)
        handle = self._handle(node, old, self._dtype(layer))
        read = self._add_like_state(layer, READ, (handle,), old)
        shape = (layer.batch, steps, 1, layer.filters)
        joined = self._add_like_state(layer, "CONCATENATION", (read, u), shape, axis=TIME)
        ends = [self._integers(values) for values in ([0, 1, 0, 0], [0, steps, 0, 0], [1] * 4)]
        masks = {"begin_mask": OTHER_AXES, "end_mask": OTHER_AXES, "offset": False}
        masks |= dict.fromkeys(("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
        new_state = self._add_like_state(layer, "STRIDED_SLICE", (joined, *ends), old, **masks)
        self.nodes.append(Node(ASSIGN, (handle, new_state), (), {}, node.origin))
        return joined

    def _add_kernel(self, layer: _Layer) -> int:
        """Adds v as the kernel (1, M, 1, F) of a convolution over time."""
        node, v = layer.node, layer.v
        quantization = self.quantization.get(v) if layer.quantized else None
        dtype = self._weight_type(v, self._dtype(layer))
        transposed = self._new((layer.steps, layer.filters), dtype, quantization)
        self._node(node, "TRANSPOSE", (v, self._integers([1, 0])), transposed, {})
        shape = (1, layer.steps, 1, layer.filters)
        kernel = self._new(shape, dtype, quantization)
        return self._node(node, "RESHAPE", (transposed,), kernel, {"new_shape": shape})

    def _add_convolution(self, layer: _Layer, joined: int, kernel: int) -> None:
        """Adds the convolution over time of a layer of rank 1, with bias and activation."""
        node = layer.node
        (y,) = node.outputs
        dtype = self.model.graph.tensors[y].spec.dtype
        shape = (layer.batch, 1, 1, layer.filters)
        result = self._new(shape, dtype, self.quantization.get(y))
        inputs = (joined, kernel) if layer.b == ABSENT else (joined, kernel, layer.b)
        options = {**CONVOLUTION, "fused_activation_function": layer.activation}
        self._node(node, "DEPTHWISE_CONV_2D", inputs, result, options)
        self._node(node, "RESHAPE", (result,), y, {"new_shape": (layer.batch, layer.filters)})

    def _add_sum(self, layer: _Layer, joined: int, kernel: int) -> None:
        """Adds the convolution over time, and the sum of R filters before bias and activation."""
        (y,) = layer.node.outputs
        units = (layer.batch, layer.filters // layer.rank)
        shape = (layer.batch, 1, 1, layer.filters)
        z = self._add_like_state(layer, "DEPTHWISE_CONV_2D", (joined, kernel), shape, **CONVOLUTION)
        shape_by_unit = (*units, layer.rank)
        z = self._add_like_state(layer, "RESHAPE", (z,), shape_by_unit, new_shape=shape_by_unit)
        axes = self._integers([2])
        z = self._add_like_state(layer, "SUM", (z, axes), units, keep_dims=False)
        bias = self._constant(np.zeros((), np.float32)) if layer.b == ABSENT else layer.b
        self._node(layer.node, "ADD", (z, bias), y, {"fused_activation_function": layer.activation})

    def _dtype(self, layer: _Layer) -> np.dtype[Any]:
        """Returns the type of u and of the state."""
        if layer.quantized:
            return self.model.graph.tensors[layer.s].spec.dtype
        return np.dtype(np.float32)

    def _add_like_state(
        self, layer: _Layer, op: str, inputs: Sequence[int], shape: Sequence[int], **options: Any
    ) -> int:
        """Adds an operator whose output has the type and scale of the state; returns the output."""
        quantization = self.quantization.get(layer.s) if layer.quantized else None
        y = self._new(shape, self._dtype(layer), quantization)
        return self._node(layer.node, op, inputs, y, options)

    def _weight_type(self, v: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Returns the type in which the convolution reads v: float32 in hybrid layers."""
        stored = self.model.graph.tensors[v].spec.dtype
        return dtype if dtype == np.float32 else stored

    def _node(
        self, node: Node, op: str, inputs: Sequence[int], y: int, options: Mapping[str, Any]
    ) -> int:
        """Adds an operator in place of a node; returns its output y."""
        all_options = {"fused_activation_function": 0, **options}
        self.nodes.append(Node(op, tuple(inputs), (y,), all_options, node.origin))
        return y

    def _new(
        self, shape: Sequence[int], dtype: np.dtype[Any], quantization: Quantization | None
    ) -> int:
        """Adds an activation."""
        spec, quantized = TensorSpec(tuple(shape), dtype), quantization is not None
        self.tensors.append(Tensor("", spec, quantized=quantized))
        if quantization is not None:
            self.quantization[len(self.tensors) - 1] = quantization
        return len(self.tensors) - 1

    def _handle(self, node: Node, shape: Sequence[int], dtype: np.dtype[Any]) -> int:
        """Adds a variable that is 0 at first."""
        key: Key = ("SVDF", str(node.origin))
        zero = np.zeros(shape, dtype)
        zero.flags.writeable = False
        self.variables[key] = Variable(zero, 0, ABSENT, 0)
        handle = self._new((), np.dtype([("RESOURCE", "V1")]), None)
        options = {"container": key[0], "shared_name": key[1]}
        self.nodes.append(Node(HANDLE, (), (handle,), options, node.origin))
        return handle

    def _integers(self, values: Sequence[int]) -> int:
        return self._constant(np.array(values, np.int32))

    def _constant(self, values: Any) -> int:
        values.flags.writeable = False
        self.tensors.append(Tensor("", TensorSpec(values.shape, values.dtype), (), values))
        return len(self.tensors) - 1

    def _error(self, node: Node, rule: str) -> UnsupportedError:
        return UnsupportedError(f"{self.model.path}: node {node.origin} ({node.op}): {rule}.")
