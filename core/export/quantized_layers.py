"""New last layers of a quantized model, with quantized weights and activations.

The logits get the quantization of the old ones, whose features were the same; without old ones,
the range -16 to 16. A hidden layer with RELU gets the range from 0 to twice the largest feature,
which is about three standard deviations of what its random weights compute.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from odt.core.export.new_layers import FLOAT32, NewLayers
from odt.core.export.symmetric_weights import symmetric_weights
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.lowering.final_activation import producing_operator
from odt.core.model.integer_operators import prescribed_quantization
from odt.core.model.model import Model
from odt.errors import UnsupportedError
from odt.kernels.geometry.quantize import Quantization, limits, range_quantization
from odt.kernels.rows.opdef import Array

LOGITS = 16.0  # largest logit without old ones


def new_layers(model: Model, rest: Collection[int], features: int, activation: str) -> NewLayers:
    """Returns the tables for new layers after features, quantized if the features are.

    Args:
        model: the model.
        rest: positions of the operators that stay.
        features: tensor that the new layers read.
        activation: operator after them; empty for none.

    Raises:
        UnsupportedError: for quantized layers without an activation, whose range is unknown.
    """
    if model.graph.tensors[features].spec.dtype == FLOAT32:
        return NewLayers(model, rest, [features])
    if not activation:
        raise UnsupportedError(
            f"{model.path}: a quantized model must get the activation softmax or sigmoid, since "
            "the range of other outputs is unknown. Make it a float model with odt convert and "
            "`float_weights=True` first."
        )
    return QuantizedLayers(model, rest, features, activation)


class QuantizedLayers(NewLayers):
    """The tables of the kept operators and of new quantized layers."""

    def __init__(self, model: Model, rest: Collection[int], features: int, activation: str) -> None:
        super().__init__(model, rest, [features])
        self._dtype = model.graph.tensors[features].spec.dtype
        self._quantizations = {self.number[features]: model.quantization[features]}
        self._logits = self._old_logits(activation)
        first = model.graph.outputs[0]
        self._float_output = model.graph.tensors[first].spec.dtype == FLOAT32

    def _old_logits(self, activation: str) -> Quantization:
        """Returns the quantization of the logits that the first old output was computed from."""
        graph = self.source.graph
        node = producing_operator(graph, graph.outputs[0])
        while node is not None and node.op == "DEQUANTIZE":
            node = producing_operator(graph, node.inputs[0])
        old = self.source.quantization.get(node.inputs[0]) if node else None
        if node is not None and node.op == activation and old is not None:
            return old
        return range_quantization(-LOGITS, LOGITS, self._dtype)

    def add(
        self,
        x: int,
        shape: Sequence[int],
        rng: np.random.Generator,
        hidden: Sequence[int],
        units: int,
        activation: str,
    ) -> int:
        """Adds the new layers, and the conversion of their output to real numbers if needed."""
        y = super().add(x, shape, rng, hidden, units, activation)
        if not self._float_output:
            return y
        return self._operator("DEQUANTIZE", [y], (shape[0], units), "values")

    def _weights(self, x: int, values: Array, prefix: str) -> tuple[int, int]:
        """Adds symmetric integers of weights, and a bias of zeros, of a layer that reads x."""
        dtype = np.dtype(np.uint8 if self._dtype == np.uint8 else np.int8)  # int16 has int8 weights
        integers, stored = symmetric_weights(values, dtype, per_unit=False)
        w = self._constant(integers, f"{prefix}weights")
        self._quantize(w, stored)
        zeros = np.zeros(len(values), np.int64 if self._dtype.itemsize == 2 else np.int32)
        b = self._constant(zeros, f"{prefix}bias")
        scale = self._quantizations[x].scale * stored.scale
        self._quantize(b, Quantization(scale, np.zeros(1, "<i8"), 0))
        return w, b

    def _quantize(self, i: int, quantization: Quantization) -> None:
        """Sets the quantization of a tensor."""
        self._quantizations[i] = quantization
        self.graph["tensors"][i]["quantization"] = {
            "scale": quantization.scale,
            "zero_point": quantization.zero_point,
            "quantized_dimension": 0,
        }

    def _operator(
        self,
        op: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        name: str,
        options: tuple[str, dict[str, Any]] | None = None,
    ) -> int:
        """Adds an operator whose output has integers, except for DEQUANTIZE."""
        y = super()._operator(op, inputs, shape, name, options)
        if op == "DEQUANTIZE":
            return y
        self.graph["tensors"][y]["type"] = code_of("TensorType", self._dtype.name.upper())
        self._quantize(y, self._output_quantization(op, self._quantizations[inputs[0]], name))
        return y

    def _output_quantization(self, op: str, x: Quantization, name: str) -> Quantization:
        """Returns the quantization of an operator's output, from that of its input."""
        if op == "MEAN":
            return x
        if op != "FULLY_CONNECTED":
            return prescribed_quantization(op, self._dtype)
        if name == "logits":
            return self._logits
        most = float(x.scale[0] * (limits(self._dtype)[1] - x.zero_point[0]))
        return range_quantization(0.0, 2 * most, self._dtype)
