"""Stores weights in fewer bits, for operators that compute real numbers.

int8-weights: constants of integers, which hybrid operators of LiteRT read. int4-weights: the same
with 4 bits for CONV_2D and FULLY_CONNECTED, and 8 for DEPTHWISE_CONV_2D, which LiteRT has no 4 bits
for. float16: constants behind a DEQUANTIZE.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from odt.core.export.model_tables import buffer_entry, model_tables, packed_model
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.model.dequantize import LARGEST
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import Model
from odt.core.model.packed_integers import pack_integers
from odt.core.model.quantization_rules import LAYERS
from odt.core.quantization.weights import least_error_scales
from odt.kernels.geometry.quantize import Quantization, quantize
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantized_index import QUANTIZED

STORED = ("int8-weights", "int4-weights", "float16")
# Operators on real numbers that read weights of int8, and of int4, with a scale for each unit.
HYBRID = frozenset(op for op, row in QUANTIZED.items() if row.hybrid)
HYBRID_INT4 = frozenset(op for op in HYBRID if "int4" in QUANTIZED[op].hybrid)
LARGEST_INT4 = 7  # symmetric: -8 is not used


def has_weights(graph: Graph, node: Node) -> bool:
    """Whether a node is a layer with constant float weights that hybrid operators can read."""
    if node.op not in HYBRID:
        return False
    data = graph.tensors[node.inputs[LAYERS[node.op].w]].data
    return data is not None and data.dtype == np.float32


def with_stored_weights(model: Model, nodes: Collection[Node], scheme: str) -> bytes:
    """Returns the file with the weights of layers in another type; biases stay with int8."""
    tables = model_tables(model)
    graph = tables["subgraphs"][0]
    operators = graph["operators"]
    narrow = scheme == "int4-weights"
    stored: dict[tuple[int, int], int] = {}
    conversions: list[dict[str, Any]] = []
    for node in nodes:
        layer = LAYERS[node.op]
        axis = layer.axis
        operator = operators[node.origin]
        inputs = [int(i) for i in operator["inputs"]]
        positions = (layer.w, layer.b) if scheme == "float16" else (layer.w,)
        for position in positions:
            if position >= len(inputs) or node.inputs[position] == ABSENT:
                continue
            i = inputs[position]
            values = model.graph.tensors[i].data
            if values is None or values.dtype != np.float32:
                continue
            if (i, axis) not in stored:
                kind = "int8-weights" if narrow and node.op not in HYBRID_INT4 else scheme
                stored[i, axis] = _store(tables, i, values, kind, axis)
                if scheme == "float16":
                    stored[i, axis] = _dequantized(tables, conversions, stored[i, axis])
            inputs[position] = stored[i, axis]
        operator["inputs"] = inputs
    graph["operators"] = [*conversions, *operators]
    return packed_model(model, tables)


def _store(tables: dict[str, Any], i: int, values: Array, scheme: str, axis: int) -> int:
    """Adds a constant with the values of tensor i; returns its index."""
    tensors = tables["subgraphs"][0]["tensors"]
    tensor = {**tensors[i], "buffer": len(tables["buffers"])}
    if scheme == "float16":
        stored: Array = values.astype(np.float16)
        dtype = "float16"
    else:
        dtype = scheme.removesuffix("-weights")
        largest = LARGEST_INT4 if dtype == "int4" else LARGEST
        scale = least_error_scales(values, axis, largest)
        quantization = Quantization(scale, np.zeros(scale.size, np.int64), axis)
        stored = quantize(values, quantization, np.dtype(np.int8), (-largest, largest))
        if dtype == "int4":
            stored = pack_integers(stored, 4)
        tensor["quantization"] = {
            "scale": quantization.scale,
            "zero_point": quantization.zero_point,
            "quantized_dimension": axis,
        }
    tensor["type"] = code_of("TensorType", dtype.upper())
    tables["buffers"].append(buffer_entry(stored))
    tensors.append(tensor)
    return len(tensors) - 1


def _dequantized(tables: dict[str, Any], conversions: list[dict[str, Any]], i: int) -> int:
    """Adds a DEQUANTIZE of a constant; returns its output."""
    tensors, codes = tables["subgraphs"][0]["tensors"], tables["operator_codes"]
    real = {**tensors[i], "buffer": 0, "type": code_of("TensorType", "FLOAT32")}
    real["name"] = bytes(real.get("name", b"")) + b"_dequantized"
    tensors.append(real)
    number = code_of("BuiltinOperator", "DEQUANTIZE")
    code = {"builtin_code": number, "deprecated_builtin_code": number}
    if code not in codes:
        codes.append(code)
    conversions.append(
        {
            "opcode_index": codes.index(code),
            "inputs": [i],
            "outputs": [len(tensors) - 1],
            "builtin_options_type": code_of("BuiltinOptions", "DequantizeOptions"),
            "builtin_options": {},
        }
    )
    return len(tensors) - 1
