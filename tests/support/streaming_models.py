"""Small streaming models: state in variables, which a subgraph initializes."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.data.array_columns import array_columns
from odt.core.data.dataset import DataSet
from odt.core.export.model_builder import table
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.recipe.inference_graphs import inference_graphs
from odt.core.recipe.lowered_model import lower_model
from odt.core.recipe.sequences import with_sequences
from odt.core.training.inference import Predictor
from odt.kernels.rows.opdef import Array
from support.integer_files import QuantizedBuilder

RELU = 1


class StreamingBuilder(QuantizedBuilder):
    """Builds a file with variables."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.main = self.graph
        self.init = table("SubGraph", name="init", tensors=[], operators=[], inputs=[], outputs=[])
        self.model.subgraphs.append(self.init)
        self.effect("CALL_ONCE", (), init_subgraph_index=1)

    def effect(self, op: str, inputs: Sequence[int], **options: Any) -> None:
        """Adds an operator without outputs."""
        self.add_operator(op, inputs, (), **options)
        self.graph.operators[-1].outputs = []
        self.graph.tensors.pop()

    def handle(self, name: str) -> int:
        """Adds a VAR_HANDLE."""
        i = self.add_operator("VAR_HANDLE", (), (), container="", shared_name=name)
        self.graph.tensors[i].type = code_of("TensorType", "RESOURCE")
        return i

    def variable(self, name: str, initial: Array) -> int:
        """Adds a variable and its initial value; returns its handle."""
        self.graph = self.init
        self.effect("ASSIGN_VARIABLE", (self.handle(name), self.add_constant(initial)))
        self.graph = self.main
        return self.handle(name)

    def real(self, op: str, inputs: Any, shape: Any, *_: Any, **options: Any) -> int:
        """Adds an operator on floats; ignores the scale and zero point that `operator` takes."""
        return self.add_operator(op, inputs, shape, **options)


def streaming_net(path: Path, *, floats: bool = False, seed: int = 3) -> Model:
    """Joins the two frames of a run with the two before; adds to a sum, which fades.

    The sum is read before and after it changes, and its initial value is not 0.
    """
    b = StreamingBuilder(seed)
    add = b.real if floats else b.operator
    dtype = "float32" if floats else "int8"
    x = b.add_input((1, 2, 3)) if floats else b.activation((1, 2, 3), 0.02, 3)
    frames = b.variable("frames", np.zeros((1, 2, 3), dtype) + (0 if floats else 3))
    total = b.variable("total", (np.arange(5)[None] * (0.25 if floats else 5)).astype(dtype))
    old = add("READ_VARIABLE", (frames,), (1, 2, 3), 0.02, 3)
    both = add("CONCATENATION", (old, x), (1, 4, 3), 0.02, 3, axis=1)
    ends = (b.add_constant([0, 2, 0]), b.add_constant([0, 4, 0]), b.add_constant([1, 1, 1]))
    new = add("STRIDED_SLICE", (both, *ends), (1, 2, 3), 0.02, 3, begin_mask=5, end_mask=5)
    b.effect("ASSIGN_VARIABLE", (frames, new))
    flat = add("RESHAPE", (both,), (1, 12), 0.02, 3, new_shape=[1, 12])
    if floats:
        w, c = b.add_weight((5, 12), 12), b.add_constant(np.linspace(-0.1, 0.3, 5, dtype="f4"))
        v, d = b.add_weight((2, 5), 5), b.add_constant(np.array([0.1, -0.1], "f4"))
    else:
        w, c = b.weights((5, 12), [0.005]), b.bias(5, [1e-4])
        v, d = b.weights((2, 5), [0.01]), b.bias(2, [5e-4])
    y = add("FULLY_CONNECTED", (flat, w, c), (1, 5), 0.03, -120, fused_activation_function=RELU)
    before = add("READ_VARIABLE", (total,), (1, 5), 0.05, -100)
    y = add("ADD", (before, y), (1, 5), 0.05, -100)
    half = b.add_constant(np.array([0.5], "f4")) if floats else b.add_constant(np.array([64], "i1"))
    if not floats:
        b.quantize(half, [1 / 128], [0])
    b.effect("ASSIGN_VARIABLE", (total, add("MUL", (y, half), (1, 5), 0.05, -100)))
    after = add("READ_VARIABLE", (total,), (1, 5), 0.05, -100)
    y = add("FULLY_CONNECTED", (after, v, d), (1, 2), 0.1, 4)
    y = add("SOFTMAX", (y,), (1, 2), 1 / 256, -128, beta=1.0)
    b.write(path, y)
    return read_model(path)


def frames_net(path: Path, *, floats: bool = False) -> Model:
    """Convolutions over frames that variables keep, and layers that need whole time steps.

    Four frames a run pass a convolution of stride 2, then two branches of different delay, of which
    one is pooled, meet in a sum. A padded convolution needs time steps of their own.
    """
    b = StreamingBuilder(5)
    add = b.real if floats else b.operator
    stride: dict[str, Any] = {"stride_w": 1, "padding": 1}

    def kept(name: str, x: int, frames: int, new: int) -> int:
        shape, zero = (1, frames, 1, 4), 0.0 if floats else -3
        initial = np.full(shape, zero, "float32" if floats else "int8")
        handle = b.variable(name, initial)
        old = add("READ_VARIABLE", (handle,), shape, 0.05, -3)
        joined = add("CONCATENATION", (old, x), (1, frames + new, 1, 4), 0.05, -3, axis=-3)
        ends = ([0, new, 0, 0], [0, 0, 0, 0], [1] * 4)
        bounds = [b.add_constant(values) for values in ends]
        last = add("STRIDED_SLICE", (joined, *bounds), shape, 0.05, -3, begin_mask=13, end_mask=15)
        b.effect("ASSIGN_VARIABLE", (handle, last))
        return joined

    def filters(height: int) -> tuple[int, int]:
        if floats:
            return b.add_weight((4, height, 1, 4), height * 4), b.add_weight((4,), 9)
        return b.weights((4, height, 1, 4), [0.004] * 4), b.bias(4, [2e-4] * 4, most=900)

    x = b.add_input((1, 4, 4)) if floats else b.activation((1, 4, 4), 0.05, -3)
    x = add("RESHAPE", (x,), (1, 4, 1, 4), 0.05, -3, new_shape=[1, 4, 1, 4])
    x = kept("input", x, 1, 4)
    x = add("CONV_2D", (x, *filters(3)), (1, 2, 1, 4), 0.05, -3, stride_h=2, **stride)
    x = kept("middle", x, 3, 2)
    fine = add("CONV_2D", (x, *filters(2)), (1, 4, 1, 4), 0.05, -3, stride_h=1, **stride)
    ends = [b.add_constant([0, k, 0, 0]) for k in (1, 3)]
    ones = b.add_constant([1] * 4)
    late = add(
        "STRIDED_SLICE", (x, *ends, ones), (1, 2, 1, 4), 0.05, -3, begin_mask=13, end_mask=13
    )
    pool: dict[str, Any] = {"filter_width": 1, "filter_height": 3, "stride_h": 1, **stride}
    pooled = add("MAX_POOL_2D", (fine,), (1, 2, 1, 4), 0.05, -3, **pool)
    x = add("ADD", (late, pooled), (1, 2, 1, 4), 0.05, -3, fused_activation_function=RELU)
    same: dict[str, Any] = {"stride_w": 1, "stride_h": 1, "padding": 0}
    x = add("CONV_2D", (x, *filters(3)), (1, 2, 1, 4), 0.05, -3, **same)
    b.write(path, add("RESHAPE", (x,), (1, 8), 0.05, -3, new_shape=[1, 8]))
    return read_model(path)


def predictions(model: Model, inputs: Array, batch: int = 4) -> Array:
    """odt's first output for each sample."""
    with Predictor(inference_graphs(lower_model(model)), batch) as predictor:
        specs, quantized = predictor.runtime.input_specs, predictor.runtime.quantizations
        data = DataSet(array_columns([inputs], specs, "input", quantized))
        rows = predictor.run(data, range(len(inputs)))
        return np.concatenate([outputs[0].copy() for outputs in rows])


def litert_sequences(path: Path, inputs: Array) -> Array:
    """Returns LiteRT's first output of each run (samples, time steps, …), each sample afresh."""
    from ai_edge_litert.interpreter import Interpreter

    samples = []
    for sequence in inputs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interpreter = Interpreter(str(path), num_threads=1)
        interpreter.allocate_tensors()
        entry, output = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
        steps = []
        for values in sequence:
            interpreter.set_tensor(entry["index"], values.reshape(entry["shape"]))
            interpreter.invoke()
            steps.append(interpreter.get_tensor(output["index"])[0].copy())
        samples.append(steps)
    return np.array(samples)


def sequences(model: Model, length: int, *, all_steps: bool = False) -> Model:
    """Returns a model for sequences of a length."""
    return with_sequences(model, length, all_steps)


def svdf_net(path: Path, *, floats: bool = True, rank: int = 1) -> Model:
    """Two layers with memory (SVDF), of 6 units each, on 4 features, and a dense layer."""
    b = StreamingBuilder(2)
    add = b.real if floats else b.operator
    x = b.add_input((1, 4)) if floats else b.activation((1, 4), 0.02, 3)
    for width, steps in ((4, 5), (6, 3)):
        filters = 6 * rank
        state = b.add_tensor((1, filters * steps), "float32" if floats else "int16")
        b.graph.tensors[state].is_variable = True
        if floats:
            weights = b.add_weight((filters, width), width), b.add_weight((filters, steps), steps)
            bias = b.add_constant(np.linspace(-0.2, 0.3, 6, dtype="f4"))
        else:
            b.quantize(state, [2e-4], [0])
            weights = (
                b.weights((filters, width), [0.01]),
                b.weights((filters, steps), [2e-5], 0, "int16"),
            )
            bias = b.bias(6, [4e-9], most=30_000_000)
        options: dict[str, Any] = {"rank": rank, "fused_activation_function": RELU}
        x = add("SVDF", (x, *weights, bias, state), (1, 6), 0.02, -128, **options)
    v, c = (
        (b.add_weight((2, 6), 6), b.add_constant(np.array([0.1, -0.1], "f4")))
        if floats
        else (b.weights((2, 6), [0.01]), b.bias(2, [2e-4]))
    )
    y = add("FULLY_CONNECTED", (x, v, c), (1, 2), 0.05, 4)
    b.write(path, add("SOFTMAX", (y,), (1, 2), 1 / 256, -128, beta=1.0))
    return read_model(path)
