"""Writes a model that computes integers: new tensors, QUANTIZE and DEQUANTIZE between types."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from odt.core.export.model_tables import buffer_entry, model_tables, packed_model
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.model.dequantize import LARGEST
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import Model
from odt.core.model.quantization_rules import LAYERS, is_same_quantization
from odt.core.quantization.assign import range_of
from odt.core.quantization.bias_correction import mean_change
from odt.core.quantization.conversions import code_index, conversion
from odt.core.quantization.rules import ALL_SAME, SAME, Scheme
from odt.core.quantization.weights import bias_steps, weight_quantization
from odt.kernels.geometry.quantize import Quantization, dequantize, quantize, range_quantization
from odt.kernels.rows.opdef import Array

INT8 = np.dtype(np.int8)
UNSIGNED = 128  # what uint8 adds to int8


class IntegerModel:
    """The tables of a model while its operators get integer types, in the order of the file."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        scheme: Scheme,
        activations: Mapping[int, Quantization],
        means: Mapping[int, Array],
    ) -> None:
        """Reads the tables.

        Args:
            model: the float model.
            graph: its graph.
            scheme: types and operators.
            activations: quantization of activations by tensor.
            means: mean of each channel of activations by tensor.
        """
        self.model, self.graph, self.scheme, self.activations = model, graph, scheme, activations
        self.means = means
        self._dtype = scheme.activations.name
        self.tables = model_tables(model)
        self.table = self.tables["subgraphs"][0]
        self.tensors: list[dict[str, Any]] = self.table["tensors"]
        self.operators: list[dict[str, Any]] = []
        self.integers: dict[int, int] = {}  # activation of the file → tensor of its integers
        self.reals: dict[int, int] = {}  # activation of the file → tensor of its real numbers
        self.constants: dict[tuple[Any, ...], int] = {}

    def convert(self, nodes: Collection[Node], inputs: str, outputs: str) -> bytes:
        """Converts the operators; returns the file.

        Args:
            nodes: nodes that compute integers.
            inputs, outputs: types of the model's inputs and outputs: float32, or the type of
                activations, or uint8.
        """
        chosen = {node.origin: node for node in nodes}
        for i in self.graph.inputs:
            self._add_input(i, inputs)
        for k, operator in enumerate(self.table["operators"]):
            if k in chosen:
                self._add_integer(chosen[k], operator)
            else:
                self._add_real(operator)
        ends = {i: self._output(i, outputs) for i in dict.fromkeys(self.graph.outputs)}
        for i, end in ends.items():
            if end != i:
                self._move_name(i, end)
        self.table["operators"] = self.operators
        self.table["outputs"] = [ends[i] for i in self.graph.outputs]
        for signature in self.tables.get("signature_defs", ()):
            if not signature.get("subgraph_index", 0):
                for entry in signature.get("outputs", ()):
                    i = entry.get("tensor_index", 0)
                    entry["tensor_index"] = ends.get(i, i)
        return packed_model(self.model, self.tables)

    def _add_input(self, i: int, dtype: str) -> None:
        """Gives an input its type, and adds QUANTIZE after one of uint8."""
        if i not in self.activations or dtype == "float32":
            self.reals[i] = i
            return
        if dtype == "uint8":
            self._set_unsigned(i, self.activations[i])
            self.integers[i] = self._copy(i, self._dtype, self._dtype, self.activations[i])
            self._convert_type("QUANTIZE", i, self.integers[i])
        else:
            self._set_type(i, dtype, self.activations[i])
            self.integers[i] = i

    def _output(self, i: int, dtype: str) -> int:
        """The tensor of an output of the model in a type; adds a conversion if it has another."""
        if i not in self.activations or (i in self.reals and dtype == "float32"):
            return self._real(i)
        integers = self._integer(i)
        if dtype == self._dtype:
            return integers
        result = self._copy(i, "", dtype, None)
        if dtype == "uint8":
            self._set_unsigned(result, self.activations[i])
        self._convert_type("QUANTIZE" if dtype == "uint8" else "DEQUANTIZE", integers, result)
        return result

    def _move_name(self, i: int, end: int) -> None:
        """Gives the tensor that replaces output i its name; an input of the model keeps it too."""
        tensor = self.tensors[i]
        self.tensors[end]["name"] = name = tensor.get("name", b"")
        if i not in self.graph.inputs:
            tensor["name"] = _with_suffix(
                name, self._dtype if self.integers.get(i) == i else "float32"
            )

    def _add_real(self, operator: dict[str, Any]) -> None:
        """Adds an operator that computes real numbers."""
        operator["inputs"] = [self._real(int(i)) for i in operator.get("inputs", ())]
        self.reals.update({int(i): int(i) for i in operator.get("outputs", ())})
        self.operators.append(operator)

    def _add_integer(self, node: Node, operator: dict[str, Any]) -> None:
        """Adds an operator that computes integers."""
        operator["inputs"] = self._operands(node)
        self.operators.append(operator)
        operator["opcode_index"] = code_index(self.tables["operator_codes"], node.op)
        for i in node.outputs:
            self._set_type(i, self._dtype, self.activations[i])
            self.integers[i] = i

    def _operands(self, node: Node) -> list[int]:
        """The inputs of a node in integers; constants that are no floats stay."""
        constants = self._layer_constants(node) if node.op in LAYERS else {}
        operands = []
        for position, i in enumerate(node.inputs):
            data = self.graph.tensors[i].data if i != ABSENT else None
            if i in self.activations:
                target = self.activations[node.outputs[0]] if node.op in ALL_SAME else None
                operands.append(self._requantized(i, target))
            elif data is None or data.dtype.kind != "f":
                operands.append(i)
            elif position in constants:
                operands.append(constants[position])
            elif node.op in SAME | ALL_SAME:
                operands.append(self._constant(i, data, self.activations[node.outputs[0]]))
            else:
                whole = range_of(data)
                quantization = range_quantization(whole.lo, whole.hi, self.scheme.activations)
                operands.append(self._constant(i, data, quantization))
        return operands

    def _requantized(self, i: int, target: Quantization | None) -> int:
        """The integers of an activation, in another quantization if a target is given."""
        integers, quantization = self._integer(i), self.activations[i]
        if target is None or is_same_quantization(quantization, target):
            return integers
        result = self._copy(i, "requantized", self._dtype, target)
        self._convert_type("QUANTIZE", integers, result)
        return result

    def _layer_constants(self, node: Node) -> dict[int, int]:
        """Adds weights and bias of a layer; returns them by position.

        The scale of a bias is that of x times that of the weights. A bias is reduced by the change
        of the mean that rounded weights cause.
        """
        layer = LAYERS[node.op]
        x, w = self.activations[node.inputs[layer.x]], node.inputs[layer.w]
        b = node.inputs[layer.b] if len(node.inputs) > layer.b else ABSENT
        weights = self.graph.tensors[w].data
        bias = self.graph.tensors[b].data if b != ABSENT else None
        assert weights is not None
        quantization = weight_quantization(weights, layer.axis, bias, x)
        integers = quantize(weights, quantization, INT8, (-LARGEST, LARGEST))
        constants = {layer.w: self._new_constant(w, integers, quantization)}
        if bias is not None:
            mean = self.means.get(node.inputs[layer.x])
            if mean is not None:
                error = dequantize(integers, quantization) - weights
                bias = bias - mean_change(node.op, error, mean).astype(bias.dtype)
            scale = (x.scale * quantization.scale).astype(np.float32)
            steps = bias_steps(bias, scale, self.scheme.bias)
            bias_quantization = Quantization(scale, np.zeros(scale.size, np.int64), 0)
            constants[layer.b] = self._new_constant(b, steps, bias_quantization)
        return constants

    def _constant(self, i: int, values: Array, quantization: Quantization) -> int:
        integers = quantize(values, quantization, self.scheme.activations)
        return self._new_constant(i, integers, quantization)

    def _new_constant(self, i: int, values: Array, quantization: Quantization) -> int:
        """Adds a constant in place of one of the file; the same integers are added once."""
        key = (i, values.dtype, values.tobytes(), quantization.scale.tobytes())
        if key not in self.constants:
            constant = self._copy(i, "", values.dtype.name, quantization)
            self.constants[key] = constant
            self.tensors[constant]["buffer"] = len(self.tables["buffers"])
            self.tables["buffers"].append(buffer_entry(values))
        return self.constants[key]

    def _integer(self, i: int) -> int:
        """The integers of an activation; adds QUANTIZE after real numbers."""
        if i not in self.integers:
            self.integers[i] = self._copy(i, self._dtype, self._dtype, self.activations[i])
            self._convert_type("QUANTIZE", i, self.integers[i])
        return self.integers[i]

    def _real(self, i: int) -> int:
        """The real numbers of an activation; adds DEQUANTIZE after integers."""
        if i in self.integers and i not in self.reals:
            self.reals[i] = self._copy(i, "float32", "float32", None)
            self._convert_type("DEQUANTIZE", self.integers[i], self.reals[i])
        return self.reals.get(i, i)

    def _convert_type(self, op: str, x: int, y: int) -> None:
        """Adds a QUANTIZE or DEQUANTIZE from tensor x to tensor y."""
        self.operators.append(conversion(self.tables["operator_codes"], op, x, y))

    def _copy(self, i: int, suffix: str, dtype: str, quantization: Quantization | None) -> int:
        """Adds a tensor in the shape and with the name of another one; returns its index."""
        old = self.tensors[i]
        tensor: dict[str, Any] = {
            n: old[n] for n in ("shape", "shape_signature", "has_rank", "name") if n in old
        }
        self.tensors.append(tensor)
        if suffix:
            tensor["name"] = _with_suffix(tensor.get("name", b""), suffix)
        tensor["buffer"] = 0
        self._set_type(len(self.tensors) - 1, dtype, quantization)
        return len(self.tensors) - 1

    def _set_unsigned(self, i: int, quantization: Quantization) -> None:
        """Makes a tensor uint8, with the real numbers of a quantization of int8."""
        zero = quantization.zero_point + UNSIGNED
        self._set_type(i, "uint8", Quantization(quantization.scale, zero, 0))

    def _set_type(self, i: int, dtype: str, quantization: Quantization | None) -> None:
        tensor = self.tensors[i]
        tensor["type"] = code_of("TensorType", dtype.upper())
        tensor.pop("quantization", None)
        if quantization is not None:
            tensor["quantization"] = {
                "scale": quantization.scale,
                "zero_point": quantization.zero_point,
                "quantized_dimension": quantization.axis,
            }


def _with_suffix(name: Any, suffix: str) -> bytes:
    return bytes(name) + b"_" + suffix.encode()
