"""Stores weights in fewer bits, for operators that compute real numbers.

int8-weights: constants of integers, which hybrid operators of LiteRT read. int4-weights: the same
with 4 bits for CONV_2D and FULLY_CONNECTED, and 8 for DEPTHWISE_CONV_2D, which LiteRT has no 4 bits
for. int4-block32-weights and others: FULLY_CONNECTED has a scale of float16 for each block of 32
weights of a unit, if blocks divide the unit. int2-weights: FULLY_CONNECTED has 2 bits, and CONV_2D,
which LiteRT has no 2 bits for, has 4. float16: constants behind a DEQUANTIZE.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from odt.core.export.model_tables import buffer_entry, model_tables, packed_model
from odt.core.formats.flatbuffer.flatbuffer import TFLITE
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.model.dequantize import LARGEST, to_float16
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.model.model import Model
from odt.core.model.packed_integers import BITS, pack_integers
from odt.core.model.quantization_rules import LAYERS
from odt.core.quantization.conversions import conversion
from odt.core.quantization.weights import INT2, block_scales, int2_scales, least_error_scales
from odt.kernels.geometry.quantize import Quantization, quantize
from odt.kernels.rows.opdef import Array
from odt.kernels.rows.quantized_index import QUANTIZED

BLOCKS = {f"int4-block{n}-weights": n for n in (32, 64, 128, 256)}  # scheme → weights of a block
STORED = ("int8-weights", "int4-weights", *BLOCKS, "int2-weights", "float16")
TFLITE_ONLY = (*BLOCKS, "int2-weights")
# Operators on real numbers that read weights of int8, and of int4, with a scale for each unit.
HYBRID = frozenset(op for op, row in QUANTIZED.items() if row.hybrid)
HYBRID_INT4 = frozenset(op for op in HYBRID if "int4" in QUANTIZED[op].hybrid)
LARGEST_INT4 = 7  # symmetric: -8 is not used
KEEP = "Leave the operator out with `keep_float=`."


def has_weights(graph: Graph, node: Node) -> bool:
    """Whether a node is a layer with constant float weights that hybrid operators can read."""
    if node.op not in HYBRID:
        return False
    data = graph.tensors[node.inputs[LAYERS[node.op].w]].data
    return data is not None and data.dtype == np.float32


def with_stored_weights(model: Model, nodes: Collection[Node], scheme: str) -> bytes:
    """Returns the file with the weights of layers in another type.

    Biases stay as they are, except that float16 includes them.

    Raises:
        UnsupportedError: for weights or scales that are too large for float16.
    """
    tables = model_tables(model)
    graph = tables["subgraphs"][0]
    operators = graph["operators"]
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
                kind = _kind(scheme, node.op, values.shape)
                where = f"{model.path}: {model.graph.label(i)}"
                stored[i, axis] = _store(tables, i, values, kind, axis, where)
                if scheme == "float16":
                    stored[i, axis] = _dequantized(tables, conversions, stored[i, axis])
            inputs[position] = stored[i, axis]
        operator["inputs"] = inputs
    graph["operators"] = [*conversions, *operators]
    return packed_model(model, tables)


def _kind(scheme: str, op: str, shape: Sequence[int]) -> str:
    """Returns the scheme of the weights of a layer, in whose types LiteRT has a kernel."""
    if scheme in ("int8-weights", "float16"):
        return scheme
    if op not in HYBRID_INT4:
        return "int8-weights"
    divided = scheme not in BLOCKS or shape[-1] % BLOCKS[scheme] == 0
    return scheme if op == "FULLY_CONNECTED" and divided else "int4-weights"


def _store(
    tables: dict[str, Any], i: int, values: Array, scheme: str, axis: int, where: str
) -> int:
    """Adds a constant with the values of tensor i, `where` in messages; returns its index."""
    tensors = tables["subgraphs"][0]["tensors"]
    tensor = {**tensors[i]}
    if scheme in BLOCKS:
        stored, dtype = _store_blocks(tables, tensor, values, BLOCKS[scheme], where), "int4"
    elif scheme == "float16":
        stored, dtype = to_float16(values, f"{where}: weights", KEEP), "float16"
    else:
        dtype = scheme.removesuffix("-weights")
        largest = LARGEST_INT4 if dtype == "int4" else LARGEST
        limit = INT2 if dtype == "int2" else (-largest, largest)
        if dtype == "int2":
            scale = int2_scales(values, axis)
        else:
            scale = least_error_scales(values, axis, largest)
        quantization = Quantization(scale, np.zeros(scale.size, np.int64), axis)
        stored = quantize(values, quantization, np.dtype(np.int8), limit)
        if bits := BITS.get(dtype.upper()):
            stored = pack_integers(stored, bits)
        tensor["quantization"] = {
            "scale": quantization.scale,
            "zero_point": quantization.zero_point,
            "quantized_dimension": axis,
        }
    tensor["type"] = code_of("TensorType", dtype.upper(), TFLITE)
    tensor["buffer"] = len(tables["buffers"])
    tables["buffers"].append(buffer_entry(stored))
    tensors.append(tensor)
    return len(tensors) - 1


def _store_blocks(
    tables: dict[str, Any], tensor: dict[str, Any], values: Array, block: int, where: str
) -> Array:
    """Adds a tensor with scales of blocks; returns the packed integers of the weights."""
    tensors = tables["subgraphs"][0]["tensors"]
    scale = block_scales(values, block, LARGEST_INT4)
    blocks = (*(1,) * (values.ndim - 1), block)
    quantization = Quantization(scale.reshape(-1), np.zeros(scale.size, np.int64), 0, blocks)
    scales = {
        "name": bytes(tensor.get("name", b"")) + b"_scales",
        "shape": list(scale.shape),
        "type": code_of("TensorType", "FLOAT16"),
        "buffer": len(tables["buffers"]),
    }
    halves = to_float16(scale, f"{where}: scales of blocks", KEEP)
    tables["buffers"].append(buffer_entry(halves))
    tensor["quantization"] = {
        "details_type": code_of("QuantizationDetails", "BlockwiseQuantization", TFLITE),
        "details": {"scales": len(tensors), "zero_points": ABSENT, "block_size": block},
    }
    tensors.append(scales)
    limit = (-LARGEST_INT4, LARGEST_INT4)
    return pack_integers(quantize(values, quantization, np.dtype(np.int8), limit), BITS["INT4"])


def _dequantized(tables: dict[str, Any], conversions: list[dict[str, Any]], i: int) -> int:
    """Adds a DEQUANTIZE of a constant; returns its output."""
    tensors, codes = tables["subgraphs"][0]["tensors"], tables["operator_codes"]
    real = {**tensors[i], "buffer": 0, "type": code_of("TensorType", "FLOAT32")}
    real["name"] = bytes(real.get("name", b"")) + b"_dequantized"
    tensors.append(real)
    conversions.append(conversion(codes, "DEQUANTIZE", i, len(tensors) - 1))
    return len(tensors) - 1
