"""The integer graph: rules of quantized files, operators without an integer row, damaged tables."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.integer_files import QuantizedBuilder, full_range, odt_integers
from support.limits import SECONDS
from support.mutations import mutations, structures

from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.reader import read_model
from odt.core.integers.integer_graph import integer_graph
from odt.core.integers.real_graph import real_graph
from odt.core.lowering.lower import LoweredGraphs
from odt.core.training.inference import Predictor
from odt.core.training.random_data import RandomData
from odt.errors import ModelError, OdtError, UnsupportedError

RELU = 1
MAX_RUN = 2_000_000  # values computed of a damaged file
Change = Callable[[QuantizedBuilder], None]


def layers(b: QuantizedBuilder) -> int:
    """A convolution, a sum, a pool, a dense layer and a softmax."""
    x = b.activation((1, 4, 4, 2), 0.5, 3)
    w, c = b.weights((3, 1, 1, 2), [0.1, 0.2, 0.3]), b.bias(3, [0.05, 0.1, 0.15])
    y = b.operator("CONV_2D", (x, w, c), (1, 4, 4, 3), 0.25, -1, stride_h=1, stride_w=1)
    y = b.operator("ADD", (y, y), (1, 4, 4, 3), 0.5, 2)
    window, stride = {"filter_width": 4, "filter_height": 4}, {"stride_w": 4, "stride_h": 4}
    y = b.operator("AVERAGE_POOL_2D", (y,), (1, 1, 1, 3), 0.5, 2, "int8", **window, **stride)
    y = b.operator("RESHAPE", (y,), (1, 3), 0.5, 2, new_shape=[1, 3])
    v, d = b.weights((4, 3), [0.02]), b.bias(4, [0.01])
    y = b.operator("FULLY_CONNECTED", (y, v, d), (1, 4), 0.1, 0)
    return b.operator("SOFTMAX", (y,), (1, 4), 1 / 256, -128, beta=1.0)


X, W, B, Y = 0, 1, 2, 3  # tensors of the convolution


def set_scale(tensor: int, *scales: float, axis: int = 0, zero: int = 0) -> Change:
    def change(b: QuantizedBuilder) -> None:
        b.quantize(tensor, scales, [zero] * len(scales), axis)

    return change


def without_scale(tensor: int) -> Change:
    def change(b: QuantizedBuilder) -> None:
        b.graph.tensors[tensor].quantization = None

    return change


def longer_bias(b: QuantizedBuilder) -> None:
    b.graph.tensors[B].shape = [4]
    b.graph.tensors[B].buffer = b.add_buffer(np.ones(4, "<i4").tobytes())
    set_scale(B, 0.05)(b)


RULES: dict[str, tuple[Change, str]] = {
    "no scale": (
        without_scale(Y),
        'node 0 (CONV_2D), tensor 3 ("tensor_3"): int8 must have a scale, but got none.',
    ),
    "weights without scale": (without_scale(W), "int8 must have a scale, but got none"),
    "zero": (set_scale(X, 0.0), "scales must be positive numbers, but got 0."),
    "negative": (set_scale(W, 1.0, -1.0, 2.0), "scales must be positive numbers, but got -1."),
    "not a number": (set_scale(Y, float("nan")), "scales must be positive numbers, but got nan."),
    "subnormal": (set_scale(Y, 1e-40), "scales must be positive numbers, but got 9.99995e-41."),
    "axis": (set_scale(W, 1.0, 2.0, 3.0, axis=4), "but got 3 along axis 4 of (3, 1, 1, 2) int8."),
    "number of scales": (set_scale(W, 1.0, 2.0), "but got 2 along axis 0 of (3, 1, 1, 2) int8."),
    "axis of another layer": (
        set_scale(W, 1.0, 2.0, axis=3),
        "scales must be along axis 0, but got 2 along axis 3.",
    ),
    "activation per channel": (
        set_scale(Y, 1.0, 2.0, 3.0, axis=3),
        "an activation must have one scale, but got 3.",
    ),
    "input per channel": (
        set_scale(X, 1.0, 2.0, axis=3),
        "an activation must have one scale, but got 2.",
    ),
    "zero point": (
        set_scale(Y, 1.0, zero=300),
        "zero points of int8 must be from -128 to 127, but got 300.",
    ),
    "zero point of a bias": (
        set_scale(B, 0.05, zero=1),
        "zero points of int32 must be 0, but got 1.",
    ),
    "size of a bias": (
        longer_bias,
        "a bias must have 3 values, one for each scale of the weights, but got 4.",
    ),
    "scale of a bias": (
        set_scale(B, 0.05, 0.2, 0.15),
        "the scale of a bias must be that of the input times that of the weights, 0.1, "
        "but got 0.2.",
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_is_named_in_one_line(name: str, tmp_path: Path) -> None:
    change, text = RULES[name]
    builder, path = QuantizedBuilder(), tmp_path / "m.tflite"
    output = layers(builder)
    change(builder)
    builder.write(path, output)
    with pytest.raises(ModelError) as e:
        integer_graph(read_model(path))
    assert text in str(e.value)
    assert str(e.value).startswith(f"{path}: ")
    assert "\n" not in str(e.value)


def test_a_bias_of_clipped_scale_that_changes_nothing_is_accepted(tmp_path: Path) -> None:
    builder, path = QuantizedBuilder(), tmp_path / "m.tflite"
    output = layers(builder)
    builder.graph.tensors[B].buffer = builder.add_buffer(np.zeros(3, "<i4").tobytes())
    set_scale(B, 1.0, 1.0, 1.0)(builder)
    builder.write(path, output)
    integer_graph(read_model(path))


def test_a_bias_counts_in_steps_of_the_input_times_the_weights(tmp_path: Path) -> None:
    """Whatever scale a converter wrote, as in LiteRT."""
    right, wrong = tmp_path / "right.tflite", tmp_path / "wrong.tflite"
    for path, factor in ((right, 1.0), (wrong, 0.7)):
        builder = QuantizedBuilder()
        output = layers(builder)
        set_scale(B, *(factor * s for s in (0.05, 0.1, 0.15)))(builder)
        builder.write(path, output)
    inputs = full_range(read_model(right), 4)
    first, second = (odt_integers(path, inputs) for path in (right, wrong))
    assert all(np.array_equal(first[i], second[i]) for i in first)
    one, other = (real_graph(read_model(path)).graph.tensors[B].real for path in (right, wrong))
    assert one is not None
    assert other is not None
    assert np.allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("custom", "text"),
    [
        ("edgetpu-custom-op", "is compiled for the Edge TPU: use the file that edgetpu_compiler"),
        ("ethos-u", "is compiled for the Ethos-U: use the file that Vela was given"),
    ],
)
def test_files_compiled_for_an_accelerator_name_what_to_use(
    custom: str, text: str, tmp_path: Path
) -> None:
    builder, path = QuantizedBuilder(), tmp_path / "m.tflite"
    x = builder.activation((1, 4), 0.1)
    own = builder.add_tensor((64,), "uint8") if custom == "ethos-u" else x  # Vela's scratch memory
    builder.write(path, builder.operator(f"CUSTOM:{custom}", (x, own), (1, 2), 0.1))
    with pytest.raises(UnsupportedError, match=text):
        LoweredGraphs(integer_graph(read_model(path))).check()


def test_operators_without_an_integer_row_compute_real_numbers(tmp_path: Path) -> None:
    builder, path = QuantizedBuilder(), tmp_path / "m.tflite"
    x = builder.activation((1, 100), 0.05, 3)
    y = builder.operator("ELU", (x,), (1, 100), 0.03, -90)
    builder.write(path, y)
    (inputs,) = full_range(read_model(path), 4)
    (ours,) = odt_integers(path, [inputs]).values()
    real = 0.05 * (inputs.astype(np.float64) - 3)
    exact = np.where(real > 0, real, np.expm1(real)) / 0.03 - 90
    assert np.abs(ours - np.clip(exact, -128, 127)).max() <= 0.5 + 1e-4


def test_the_integers_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    builder, path = QuantizedBuilder(), tmp_path / "m.tflite"
    builder.write(path, layers(builder))
    (inputs,) = full_range(read_model(path), 6)
    whole = odt_integers(path, [inputs])
    for k in range(6):
        for i, values in odt_integers(path, [inputs[k : k + 1]]).items():
            assert np.array_equal(values, whole[i][k : k + 1])


def answers(data: bytes, number: int) -> bool:
    """Whether a damaged file computes something; anything but one line is a failure."""
    begin, error = time.process_time(), ""
    try:
        graphs = LoweredGraphs(integer_graph(parse_model(memoryview(data), "damaged")))
        lowered = graphs.at(2)
        made = [i for n in lowered.nodes for i in n.outputs]
        if sum(lowered.tensors[i].spec.size for i in (*lowered.inputs, *made)) < MAX_RUN:
            with Predictor(graphs, 2, workers=1) as predictor:
                random = RandomData(predictor.runtime.input_specs, (), [])
                for _ in predictor.run(random, range(2)):
                    pass
    except OdtError as e:
        error = str(e)
    except MemoryError:  # for which commands name the option that needs less
        error = "memory"
    assert time.process_time() - begin < SECONDS, number
    assert error.isprintable(), number
    return not error


def damaged(count: int, seed: int) -> Iterator[bytes]:
    builder = QuantizedBuilder()
    data = builder.build(layers(builder))
    yield from structures(data, count // 2, seed)
    yield from mutations(data, count // 2, seed)


def run(count: int, seed: int) -> None:
    with np.errstate(all="ignore"):
        whole = [answers(data, k) for k, data in enumerate(damaged(count, seed))]
    assert 0 < sum(whole) < count, "damage must be neither harmless nor always fatal"


def test_damaged_quantization_gives_an_answer_or_one_line() -> None:
    run(200, seed=0)


@pytest.mark.accept
@pytest.mark.parametrize("seed", range(1, 9))
def test_damaged_quantization_at_length(seed: int) -> None:
    run(2000, seed)


@pytest.mark.parametrize(("activation", "dtype"), [(0, "int8"), (RELU, "float32")])
def test_a_maximum_is_computed_in_integers(activation: int, dtype: str, tmp_path: Path) -> None:
    """Without an activation, which needs the zero point."""
    b = QuantizedBuilder()
    window, stride = {"filter_width": 2, "filter_height": 2}, {"stride_w": 2, "stride_h": 2}
    x = b.activation((1, 4, 4, 2), 0.5, 3)
    options = {**window, **stride, "fused_activation_function": activation}
    y = b.operator("MAX_POOL_2D", (x,), (1, 2, 2, 2), 0.5, 3, "int8", **options)
    b.write(tmp_path / "m.tflite", y)
    graph = integer_graph(read_model(tmp_path / "m.tflite"))
    (pool,) = [node for node in graph.nodes if node.op == "MAX_POOL_2D"]
    types = [str(graph.tensors[i].spec.dtype) for i in (*pool.inputs, *pool.outputs)]
    assert types == [dtype, dtype]
