"""Files with weights of 2, 4 and 8 bits, with a scale for each unit or block."""

import numpy as np
from model_builder import ModelBuilder, table

from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.kernels.rows.opdef import Array


def packed_bytes(integers: Array, bits: int) -> bytes:
    """Integers of a few bits, packed into bytes, the first in the lowest bits."""
    values = [int(v) % 2**bits for v in integers.reshape(-1)]
    whole = sum(v << bits * k for k, v in enumerate(values))
    packed: bytes = whole.to_bytes(-(-len(values) * bits // 8), "little")
    return packed


class PackedBuilder(ModelBuilder):
    """Builds TFLite files with packed weights."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__("tflite", seed)

    def add_packed(self, integers: Array, scale: Array, bits: int, block: int = 0) -> int:
        """Adds packed weights.

        Args:
            integers: the integers, units first.
            scale: a scale for each unit, or for each block, (units, blocks).
            bits: 2, 4 or 8.
            block: values along the last axis that share a scale; 0 for one scale for each unit.
        """
        buffer = self.add_buffer(packed_bytes(integers, bits))
        i = self.add_tensor(integers.shape, "int8", f"w{bits}", buffer)
        self.graph.tensors[i].type = code_of("TensorType", f"INT{bits}", "tflite")
        if not block:
            self.quantize(i, [*map(float, scale)], [0] * len(scale))
            return i
        scales = self.add_constant(scale.astype(np.float16), f"w{bits}_scales")
        self.graph.tensors[i].quantization = table(
            "QuantizationParameters",
            details_type=code_of("QuantizationDetails", "BlockwiseQuantization", "tflite"),
            details=table("BlockwiseQuantization", scales=scales, zero_points=-1, block_size=block),
        )
        return i


def dense_file(
    bits: int, block: int = 0, shape: tuple[int, int] = (6, 64), seed: int = 0
) -> tuple[bytes, Array, Array]:
    """A dense layer with packed weights: the file, its real weights and its bias."""
    b = PackedBuilder(seed)
    units, width = shape
    hi = 2 ** (bits - 1) - 1
    lo = -hi if bits == 8 else -hi - 1  # −128 is not used
    integers = b.rng.integers(lo, hi, shape, endpoint=True).astype(np.int8)
    integers.flat[:2] = lo, hi
    blocks = width // block if block else 1
    # Scales of 8 bits of mantissa, which XNNPACK and float16 hold exactly.
    scale = (b.rng.integers(128, 256, (units, blocks)) / 1024 / hi).astype(np.float32)
    scale = (scale.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    x = b.add_input((1, width))
    w = b.add_packed(integers, scale if block else scale[:, 0], bits, block)
    bias = b.rng.normal(size=units).astype(np.float32)
    y = b.add_operator("FULLY_CONNECTED", (x, w, b.add_constant(bias)), (1, units))
    real = np.repeat(scale, block or width, axis=1) * integers
    return b.build(y), real.astype(np.float32), bias


def convolution_file(bits: int, seed: int = 0) -> tuple[bytes, Array]:
    """A 3 × 3 convolution of 4 channels with packed weights: the file and its real weights."""
    b = PackedBuilder(seed)
    lo, hi = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    integers = b.rng.integers(lo, hi, (5, 3, 3, 4), endpoint=True).astype(np.int8)
    integers.flat[:2] = lo, hi
    scale = b.rng.uniform(0.1, 0.3, 5).astype(np.float32)
    x = b.add_input((1, 6, 6, 4))
    w = b.add_packed(integers, scale, bits)
    bias = b.add_constant(np.zeros(5, np.float32))
    y = b.add_operator("CONV_2D", (x, w, bias), (1, 4, 4, 5), padding=1, stride_h=1, stride_w=1)
    return b.build(y), scale.reshape(-1, 1, 1, 1) * integers


def uint4_file(zero_point: int = 8, op: str = "DEQUANTIZE") -> tuple[bytes, Array]:
    """A dense layer whose weights are of UINT4 behind a DEQUANTIZE: the file, its real weights.

    With `op` FULLY_CONNECTED, there is no DEQUANTIZE.
    """
    b = PackedBuilder()
    integers = b.rng.integers(0, 16, (6, 63))  # an odd number of integers
    integers[0, :2] = 0, 15
    x = b.add_input((1, 63))
    w = b.add_packed(integers, np.array([0.125]), 4)
    b.graph.tensors[w].type = code_of("TensorType", "UINT4", "tflite")
    b.graph.tensors[w].quantization.zero_point = [zero_point]
    if op == "DEQUANTIZE":
        w = b.add_operator("DEQUANTIZE", (w,), (6, 63))
    y = b.add_operator("FULLY_CONNECTED", (x, w, -1), (1, 6))
    return b.build(y), (0.125 * (integers - zero_point)).astype(np.float32)
