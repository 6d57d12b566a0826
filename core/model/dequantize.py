"""Dequantizes weights stored as float16, bfloat16, integers or sparse in models of floats.

Such weights have five forms: a constant read by a DEQUANTIZE, a constant of bfloat16 read by a
CAST, a constant of integers read by a hybrid operator, a sparse constant, usually read by a
DENSIFY, or a constant in blocks of GGML. In the graph all become float32 constants; large ones of
integers keep the data of the file with a decoder, as do those in blocks of GGML, which do not
train. Other trained weights can be exported in the form of the file: with new integers and new
scales, with values at the same places, or both. Weights of 2 and 4 bits train rounded, as those
beside quantized activations do: rounding to 4 or 16 numbers afterwards would lose what they
learned. So do weights with a scale for each block of them, because these scales stay.

Hybrid operators read uint8 weights, which converters of TensorFlow 1 wrote, as the bytes of
symmetric int8 ones; DEQUANTIZE reads uint8 as it is. Source: TFLite's hybrid kernels.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import chain
from typing import Any

import numpy as np

from odt.core.model.bfloat16 import from_bfloat16, to_bfloat16
from odt.core.model.graph import ABSENT, Graph, Node, Tensor
from odt.core.model.model import Model
from odt.core.model.packed_integers import (
    int2_as_int4,
    int2_filters,
    is_unsigned,
    packed_bits,
    unpack_constants,
)
from odt.core.model.quantization_rules import check_constants, has_quantized_activations
from odt.dataclass import dataclass
from odt.errors import ModelError, UnsupportedError
from odt.kernels.geometry.block_formats import BLOCK_FORMATS
from odt.kernels.geometry.decoders import BYTE, IntegerDecoder
from odt.kernels.geometry.quantize import Quantization, dequantize
from odt.kernels.geometry.weight_quantization import WeightQuantization
from odt.kernels.rows.opdef import Array, TensorSpec

FLOAT32, FLOAT16 = np.dtype(np.float32), np.dtype(np.float16)
UINT8 = np.dtype(np.uint8)
CONVERSIONS = ("DENSIFY", "DEQUANTIZE")
LARGEST = 127  # largest symmetric int8; −128 is not used
# Bytes of float weights from which memory for integers is smaller: the calls that compute real
# numbers, one in the forward and one in the backward phase, take about 20 KB.
LARGE = 2**15
SMALLEST_SCALE = 1e-12  # of weights that are all 0


@dataclass(frozen=True, slots=True)
class DequantizedGraph:
    """A graph with float32 weights, and the tensors in which the file stores them.

    Attributes:
        graph: graph as in the file, with float32 constants.
        stored: dequantized tensor of the graph → tensor of the file that stores it.
        activations: activations that hold integers in the file; float32 in the graph.
        ranges: numbers of a FAKE_QUANT that may move → the activations that share this range.
    """

    graph: Graph
    stored: Mapping[int, int]
    activations: frozenset[int] = frozenset()
    ranges: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """A note for the user; empty if nothing that may train was dequantized."""
        count = sum(not self.graph.tensors[i].is_in_blocks for i in self.stored)
        if not count:
            return ""
        if self.activations:
            return (
                f"{self.graph.name}: is quantized; it trains with fake quantization, and is "
                "exported with the same types, or as a float32 model with `float_weights=True`."
            )
        return (
            f"{self.graph.name}: weights that are stored as float16, bfloat16, integers or sparse "
            f"({count}) train as float32 and are exported in their stored form with new scales, or "
            "as float32 with `float_weights=True`."
        )


def dequantize_weights(model: Model) -> DequantizedGraph:
    """Replaces the weights of a model's graph that are stored in other types by float32 constants.

    Raises:
        ModelError: if the scales or the bytes of a constant do not fit its shape.
    """
    check_constants(model)
    return _Dequantizer(model).dequantize()


class _Dequantizer:
    """Replaces constants by float32 ones, node by node."""

    def __init__(self, model: Model) -> None:
        self._tensors_of_file, self._as_int4 = model.graph.tensors, int2_filters(model)
        self._decoders = _decoders(model)
        self._graph = unpack_constants(model.graph, self._decoders)
        self._model = replace(model, graph=self._graph)
        self._tensors = list(self._graph.tensors)
        self._replaced: dict[int, int] = {}  # tensor of the file → its float32 tensor
        self._replacements = set[int]()  # the float32 tensors, except for those in blocks
        # Further outputs of DEQUANTIZE → the first: one tensor, one weight.
        self._same: dict[int, int] = {}

    def dequantize(self) -> DequantizedGraph:
        """Returns the graph with float32 constants."""
        for i in in_blocks(self._graph):
            self._tensors[i] = _blocks(self._model, i)
            self._replaced[i] = i
        nodes = [
            new for node in self._graph.nodes if (new := self._on_real_weights(node)) is not None
        ]
        stored = {into: i for i, into in self._replaced.items()}
        tensors = tuple(self._tensors)
        return DequantizedGraph(replace(self._graph, tensors=tensors, nodes=tuple(nodes)), stored)

    def _on_real_weights(self, node: Node) -> Node | None:
        """Returns a node that reads float32 weights; None for the conversion of a weight."""
        single = len(node.inputs) == len(node.outputs) == 1
        if single and (node.op in CONVERSIONS or _casts_bfloat16(self._graph, node)):
            (x,), (y,) = node.inputs, node.outputs
            is_weight = _is_weight(self._model, x)
            first = self._as_real(x, y) if is_weight else self._same.get(x, x)
            if first in self._replacements:
                if first != y:
                    self._same[y], self._tensors[y] = first, self._tensors[first]
                return None
        inputs = tuple(self._same.get(i, i) for i in node.inputs)
        if _is_hybrid(self._graph, node):
            inputs = tuple(
                self._as_real(i, i) if _is_hybrid_weight(self._model, i) else i for i in inputs
            )
        return node if inputs == node.inputs else replace(node, inputs=inputs)

    def _as_real(self, i: int, into: int) -> int:
        """Returns the float32 tensor of a constant; makes it at index `into` if there is none."""
        if i in self._replaced:
            return self._replaced[i]
        tensor, decoder = self._graph.tensors[i], self._decoders.get(i)
        data = tensor.data
        if decoder is None:
            data = _real(self._model, i, hybrid=i == into)
            data.flags.writeable = False
        elif i == into and data is not None and decoder.bits == BYTE:
            data = data.view(np.int8)  # as hybrid operators read uint8
        sparsity = self._model.sparsity.get(i)
        self._tensors[into] = replace(
            tensor,
            spec=TensorSpec(tensor.spec.shape, FLOAT32),
            data=data,
            quantized=False,
            quantization=self._rounding(i),
            decoder=decoder,
            places=tensor.places if sparsity is None else sparsity.places,
        )
        self._replaced[i] = into
        self._replacements.add(into)
        return into

    def _rounding(self, i: int) -> WeightQuantization | None:
        """Returns how a weight is rounded while it trains; None if it is not."""
        if i in self._as_int4:
            as_int4 = int2_as_int4(self._model.quantization[i])
            return WeightQuantization(as_int4, np.dtype(np.int8), 4)
        if packed_bits(self._tensors_of_file[i]) or _has_blocks(self._model, i):
            return weight_quantization(self._tensors_of_file[i], self._model.quantization[i])
        return None


def _decoders(model: Model) -> dict[int, IntegerDecoder]:
    """Returns decoders of large constants of integers beside float activations.

    They stay as they are in the file.
    """
    if has_quantized_activations(model):
        return {}
    decoders = {}
    for i, quantization in model.quantization.items():
        tensor = model.graph.tensors[i]
        bits = packed_bits(tensor)
        is_integer = bits or tensor.spec.dtype in (np.int8, UINT8)
        if is_integer and i not in model.sparsity and not is_unsigned(tensor):
            decoder = integer_decoder(tensor, quantization, bits)
            if decoder is not None:
                decoders[i] = decoder
    return decoders


def integer_decoder(
    tensor: Tensor, quantization: Quantization, bits: int = 0
) -> IntegerDecoder | None:
    """Returns the decoder of a constant of integers; None if it is small, or has another form."""
    decoder, shape = IntegerDecoder(quantization, bits or BYTE), tensor.spec.shape
    is_large = tensor.spec.size * FLOAT32.itemsize >= LARGE
    return decoder if tensor.data is not None and is_large and decoder.fits(shape) else None


def _has_blocks(model: Model, i: int) -> bool:
    """Whether scales of a constant of int8 belong to blocks, so that they stay in training."""
    is_int8 = model.graph.tensors[i].spec.dtype == np.int8
    return is_int8 and i in model.quantization and bool(model.quantization[i].blocks)


def in_blocks(graph: Graph) -> list[int]:
    """Returns the constants of a file that are in blocks of GGML."""
    constants = ((i, t.spec.dtype.names) for i, t in enumerate(graph.tensors) if t.data is not None)
    return [i for i, names in constants if names and names[0] in BLOCK_FORMATS]


def _blocks(model: Model, i: int) -> Tensor:
    """Returns a float32 constant whose data are blocks of the file.

    Raises:
        ModelError: if blocks do not fill it, or it has other bytes.
    """
    tensor = model.graph.tensors[i]
    (name,) = tensor.spec.dtype.names or ("",)
    decoder, shape = BLOCK_FORMATS[name], tensor.spec.shape
    nbytes = decoder.stored_nbytes(shape)
    where = f"{model.path}: {model.graph.label(i)}"
    if nbytes is None:
        raise ModelError(
            f"{where}: the last axis of a tensor of {name} must be a multiple of {decoder.values}, "
            f"but got {shape}."
        )
    assert tensor.data is not None
    if tensor.data.nbytes != nbytes:
        raise ModelError(
            f"{where}: its {name} blocks need {nbytes} bytes, but got {tensor.data.nbytes}."
        )
    return replace(
        tensor,
        spec=TensorSpec(shape, FLOAT32),
        decoder=decoder,
        constant_reason=f"in blocks of {name}",
    )


def weight_quantization(tensor: Tensor, first: Quantization) -> WeightQuantization:
    """Returns how a weight is stored as integers, from its tensor in the file."""
    bits = packed_bits(tensor)
    dtype = np.dtype(np.uint8 if is_unsigned(tensor) else np.int8) if bits else tensor.spec.dtype
    return WeightQuantization(first, dtype, bits)


def as_stored(
    model: Model, dequantized: DequantizedGraph, weights: Mapping[int, Array]
) -> tuple[dict[int, Array], dict[int, Quantization]]:
    """Quantizes trained weights to the types in which the file stores them.

    Args:
        model: the model.
        dequantized: its graph with float32 weights.
        weights: tensor of that graph → float32 values.

    Returns:
        Values by tensor of the file, and the quantizations of the tensors of integers.

    Raises:
        UnsupportedError: for weights in blocks of GGML, for those of hybrid operators whose zero
            point is not 0, and for numbers too large for float16.
    """
    values: dict[int, Array] = {}
    quantizations: dict[int, Quantization] = {}
    for tensor, a in weights.items():
        if tensor not in dequantized.stored:
            values[tensor] = a
            continue
        i = dequantized.stored[tensor]
        quantization, sparsity = _scales(model, i), model.sparsity.get(i)
        if dequantized.graph.tensors[tensor].is_in_blocks:
            raise UnsupportedError(
                f"{model.path}: {model.graph.label(i)}: its blocks must stay as they are, since "
                "rounding to blocks again loses most of what adapters learn, but got new values. "
                "Keep the adapters in a file of their own, or give `float_weights=True`."
            )
        if quantization is None:
            if is_bfloat16(model.graph.tensors[i]):
                values[i] = to_bfloat16(a).view(np.uint8)
                continue
            numbers = a
            if sparsity is None or sparsity.dtype == FLOAT16:
                what = f"{model.path}: {model.graph.label(i)}: weights"
                numbers = to_float16(a, what, "Give `float_weights=True`.")
            values[i] = numbers if sparsity is None else sparsity.stored(numbers)
            continue
        dtype, affine = _dtype(model, i), bool(quantization.zero_point.any())
        if affine and i == tensor:
            raise UnsupportedError(
                f"{model.path}: {model.graph.label(i)}: zero points must be 0 to store new "
                f"weights, but got {quantization.zero_point.tolist()[:4]}. "
                "Give `float_weights=True`."
            )
        if affine or (dtype == UINT8 and i != tensor):
            values[i], quantizations[i] = WeightQuantization(quantization, dtype).quantize(a)
            continue
        shape = quantization.along_axis(a.ndim)[0].shape
        axes = tuple(k for k in range(a.ndim) if shape[k] == 1)
        scale = np.maximum(abs(a).max(axis=axes, keepdims=True) / LARGEST, SMALLEST_SCALE)
        values[i] = np.clip(np.rint(a / scale), -LARGEST, LARGEST).astype(np.int8).view(dtype)
        if sparsity is not None:
            values[i] = sparsity.stored(values[i])
        stored = scale.astype("<f4").reshape(-1)
        quantizations[i] = replace(quantization, scale=stored)
        if sparsity is not None:
            dense = (n.outputs for n in model.graph.nodes if n.op == "DENSIFY" and i in n.inputs)
            quantizations |= dict.fromkeys(chain(*dense), quantizations[i])
    return values, quantizations


def is_bfloat16(tensor: Tensor) -> bool:
    """Whether a tensor is a constant of bfloat16, whose data are bytes."""
    return tensor.data is not None and tensor.spec.dtype.names == ("BFLOAT16",)


def to_float16(values: Array, what: str, remedy: str) -> Array:
    """Returns the nearest numbers of float16.

    Args:
        values: real numbers.
        what: what they are, with the file's name, for the message.
        remedy: what to do about larger ones, for the message.

    Raises:
        UnsupportedError: if a finite number is too large.
    """
    with np.errstate(over="ignore"):
        halves = values.astype(FLOAT16)
    overflows = np.isinf(halves) & np.isfinite(values)
    if overflows.any():
        raise UnsupportedError(
            f"{what} must be within ±{np.finfo(FLOAT16).max:g} to be stored as float16, but got "
            f"{abs(values[overflows]).max():g}. {remedy}"
        )
    return halves


def _from_bfloat16(model: Model, i: int) -> Array:
    """Returns the float32 values of a constant of bfloat16."""
    tensor = model.graph.tensors[i]
    assert tensor.data is not None
    if tensor.data.nbytes != 2 * tensor.spec.size:
        raise ModelError(
            f"{model.path}: {model.graph.label(i)}: its bfloat16 values need "
            f"{2 * tensor.spec.size} bytes, but got {tensor.data.nbytes}."
        )
    bits = np.ascontiguousarray(tensor.data).view("<u2")
    return np.asarray(from_bfloat16(bits).astype(FLOAT32).reshape(tensor.spec.shape))


def _casts_bfloat16(graph: Graph, node: Node) -> bool:
    """Whether a node converts a constant of bfloat16 to float32."""
    if node.op != "CAST" or node.inputs[0] == ABSENT:
        return False
    y = graph.tensors[node.outputs[0]].spec
    return is_bfloat16(graph.tensors[node.inputs[0]]) and y.dtype == FLOAT32


def _is_weight(model: Model, i: int) -> bool:
    """Whether a tensor is a constant of float16, bfloat16, integers with scales, or sparse."""
    tensor = model.graph.tensors[i]
    if i == ABSENT or tensor.data is None:
        return False
    quantization, dtype = model.quantization.get(i), _dtype(model, i)
    if is_bfloat16(tensor):
        return True
    if i not in model.sparsity:
        return dtype == FLOAT16 or (dtype in (np.int8, UINT8) and quantization is not None)
    if dtype.kind == "f":
        return True
    is_symmetric = quantization is not None and not quantization.zero_point.any()
    return is_symmetric and not has_quantized_activations(model)


def _dtype(model: Model, i: int) -> np.dtype[Any]:
    """Returns the dtype of a constant's values in the file, also of a sparse one."""
    sparse = model.sparsity.get(i)
    return model.graph.tensors[i].spec.dtype if sparse is None else sparse.dtype


def _is_hybrid_weight(model: Model, i: int) -> bool:
    """Whether a hybrid operator can read a tensor as a weight; uint8 with zero point 0 only."""
    if not _is_weight(model, i) or is_bfloat16(model.graph.tensors[i]):
        return False
    is_uint8 = model.graph.tensors[i].spec.dtype == UINT8
    return not is_uint8 or not model.quantization[i].zero_point.any()


def _is_hybrid(graph: Graph, node: Node) -> bool:
    """Whether a node computes floats from activations that are real, so that integers are weights.

    Activations may be shapes and positions too.
    """
    inputs = [graph.tensors[i] for i in node.inputs if i != ABSENT]
    floats = all(graph.tensors[i].spec.dtype == FLOAT32 for i in node.outputs)
    return floats and not any(tensor.data is None and tensor.quantized for tensor in inputs)


def _scales(model: Model, i: int) -> Quantization | None:
    """Returns the quantization of a weight; None for floats.

    Raises:
        ModelError: if the scales do not fit the tensor.
    """
    tensor, quantization = model.graph.tensors[i], model.quantization.get(i)
    if quantization is None or _dtype(model, i).kind == "f" or is_bfloat16(tensor):
        return None
    count, spec = len(quantization.scale), tensor.spec
    if (
        not quantization.blocks
        and count != 1
        and spec.shape[quantization.axis : quantization.axis + 1] != (count,)
    ):
        raise ModelError(
            f"{model.path}: {model.graph.label(i)}: there must be one scale, or one for each "
            f"entry of an axis, but got {count} along axis {quantization.axis} of {spec}"
        )
    return quantization


def _real(model: Model, i: int, *, hybrid: bool) -> Array:
    """Returns the float32 values of a constant, as an operator or a hybrid operator reads them."""
    tensor, quantization = model.graph.tensors[i], _scales(model, i)
    assert tensor.data is not None
    sparsity, data = model.sparsity.get(i), tensor.data
    if sparsity is not None:
        data = sparsity.dense(data, tensor.spec.shape)
    if is_bfloat16(tensor):
        return _from_bfloat16(model, i)
    if quantization is None:
        return data.astype(FLOAT32)
    is_int8 = hybrid and data.dtype == UINT8
    return dequantize(data.view(np.int8) if is_int8 else data, quantization)
