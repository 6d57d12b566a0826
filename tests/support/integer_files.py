"""Quantized model files, and their integers as odt computes them."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from model_builder import ModelBuilder

from odt.core.formats.reader import read_model
from odt.core.integers.integer_graph import integer_graph
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.planning.computation import Computation, Plans
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.kernels.rows.opdef import Array

StrPath = str | os.PathLike[str]


class QuantizedBuilder(ModelBuilder):
    """Builds a file with quantized tensors."""

    def __init__(self, seed: int = 0, file_format: str = "tflite") -> None:
        super().__init__(file_format, seed)

    def activation(
        self, shape: Sequence[int], scale: float, zero: int = 0, dtype: str = "int8"
    ) -> int:
        """Adds a quantized input."""
        i = self.add_input(shape, dtype)
        self.quantize(i, [scale], [zero])
        return i

    def operator(
        self,
        op: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        scale: float,
        zero: int = 0,
        dtype: str = "int8",
        **options: Any,
    ) -> int:
        """Adds an operator with one quantized output."""
        i = self.add_operator(op, inputs, shape, dtype=dtype, **options)
        self.quantize(i, [scale], [zero])
        return i

    def weights(
        self,
        shape: Sequence[int],
        scales: Sequence[float],
        axis: int = 0,
        dtype: str = "int8",
        zero: int | Sequence[int] = 0,
    ) -> int:
        """Adds a constant of random integers, whose zero points repeat for the scales."""
        info = np.iinfo(dtype)
        lo = -127 if dtype == "int8" else info.min
        values = self.rng.integers(lo, info.max, shape, endpoint=True).astype(dtype)
        i = self.add_constant(values)
        self.quantize(i, scales, np.resize(zero, len(scales)).tolist(), axis)
        return i

    def bias(
        self, units: int, scales: Sequence[float], dtype: str = "int32", most: int = 5000
    ) -> int:
        """Adds a bias with the scales s_x s_w."""
        values = self.rng.integers(-most, most, units).astype(dtype)
        i = self.add_constant(values)
        self.quantize(i, scales, [0] * len(scales))
        return i


def full_range(model: Model, samples: int, seed: int = 0) -> list[Array]:
    """Returns random inputs over the whole range of integers; floats are standard normal."""
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    for i in model.graph.inputs:
        spec = model.graph.tensors[i].spec
        shape = (samples, *spec.shape[1:])
        if spec.dtype.kind == "f":
            found.append(rng.normal(size=shape).astype(spec.dtype))
        else:
            info = np.iinfo(spec.dtype)
            values = rng.integers(info.min, info.max, shape, endpoint=True)
            found.append(values.astype(spec.dtype))
    return found


def integers_of(model: Model, graph: Graph) -> dict[int, int]:
    """Returns tensor of the file → tensor of its integers in the integer graph."""
    return {
        n.outputs[0]: n.inputs[0]
        for n in graph.nodes
        if n.op == "INTEGER_DEQUANTIZE" and n.outputs[0] in model.quantization
    }


def odt_integers(path: StrPath, inputs: Sequence[Array]) -> dict[int, Array]:
    """Returns odt's integers of every tensor that is computed, by tensor of the file."""
    model = read_model(path)
    graph = integer_graph(model)
    wanted = integers_of(model, graph)
    plans = Plans(graph)
    computation = Computation(outputs=True, end=tuple(wanted.values()))
    plan, memory = plans.verified(computation, len(inputs[0]))
    program = Program(plan, memory, make_arena(memory.nbytes), {})
    for into, values in zip(program.inputs, inputs, strict=True):
        np.copyto(into, values.reshape(into.shape))
    program.forward()
    return {i: a.copy() for i, a in zip(wanted, program.outputs, strict=True)}
