"""Circle files with weights in blocks of GGML."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from model_builder import ModelBuilder

from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.kernels.geometry.block_formats import BLOCK_FORMATS
from odt.kernels.geometry.decoders import decoded
from odt.kernels.rows.opdef import Array

FORMATS = tuple(BLOCK_FORMATS)


class BlockBuilder(ModelBuilder):
    """Builds Circle files with weights in blocks.

    Attributes:
        real: tensor → real numbers of a weight in blocks.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__("circle", seed)
        self.real: dict[int, Array] = {}

    def add_blocks(self, kind: str, shape: Sequence[int], name: str, spread: float = 0.1) -> int:
        """Adds a weight of random blocks, whose largest numbers are about `spread`."""
        block = BLOCK_FORMATS[kind]
        count = int(np.prod(shape)) // block.values
        data = self.rng.integers(0, 256, (count, block.nbytes)).astype(np.uint8)
        scale = spread / 2 ** (block.bits - 1) * self.rng.uniform(0.5, 1, (count, 1))
        halves = np.hstack([scale, -8 * scale] if block.has_minimum else [scale]).astype("<f2")
        data[:, : block.header] = halves.view(np.uint8)
        i = self.add_tensor(shape, "int8", name, self.add_buffer(data.tobytes()))
        self.graph.tensors[i].type = code_of("TensorType", kind, "circle")
        self.real[i] = decoded(block, data, shape)
        return i


def dense_file(
    path: Path, kind: str, shape: tuple[int, int] = (6, 64), *, biased: bool = True
) -> tuple[Array, Array]:
    """Writes a dense layer with weights in blocks; returns its real weights and its bias."""
    b = BlockBuilder()
    x = b.add_input((1, shape[1]))
    w = b.add_blocks(kind, shape, "w")
    bias = b.rng.normal(size=shape[0]).astype(np.float32)
    inputs = (x, w, b.add_constant(bias, "b") if biased else -1)
    y = b.add_operator("FULLY_CONNECTED", inputs, (1, shape[0]))
    b.write(path, y)
    return b.real[w], bias


def language_model(path: Path, kind: str, words: int = 96, width: int = 64) -> dict[int, Array]:
    """Writes a small network of a table, a normalization, two layers and a tied head.

    Returns:
        The real weights by tensor.
    """
    b = BlockBuilder(1)
    ids = b.add_input((1, 8), "int32")
    table = b.add_blocks(kind, (words, width), "table", 1.0)
    x = b.add_operator("GATHER", (table, ids), (1, 8, width))
    gain = b.add_constant(np.ones(width, np.float32), "norm")
    x = b.add_operator("RMS_NORM", (x, gain), (1, 8, width), epsilon=1e-5)
    for k, units in enumerate((2 * width, width)):
        w = b.add_blocks(kind, (units, b.graph.tensors[x].shape[-1]), f"fc{k}", 0.2)
        x = b.add_operator(
            "FULLY_CONNECTED", (x, w, -1), (1, 8, units), fused_activation_function=1 - k,
            keep_num_dims=True,
        )  # fmt: skip
    y = b.add_operator("FULLY_CONNECTED", (x, table, -1), (1, 8, words), keep_num_dims=True)
    b.write(path, y)
    return b.real
