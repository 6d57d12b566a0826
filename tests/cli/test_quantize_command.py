"""`odt quantize`: LiteRT runs the quantized models, and they compute what the float ones do."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.paths import MODELS

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.kernels.geometry.quantize import dequantize, quantize

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def quantized(model: Path, folder: Path, x: np.ndarray, *options: str) -> tuple[Model, str]:
    """The model that the command makes of some samples, and what it prints."""
    np.save(folder / "x.npy", x)
    out = folder / f"quantized{model.suffix}"
    result = run("quantize", model, "--calibrate", folder / "x.npy", "-o", out, *options)
    assert result.exit_code == 0, result.output
    return read_model(str(out)), result.output


def computed(path: str, x: np.ndarray) -> np.ndarray:
    """The real numbers of the first output, by LiteRT, for real numbers as input."""
    model = read_model(path)
    interpreter = Interpreter(path)
    interpreter.allocate_tensors()
    given, made = model.graph.inputs[0], model.graph.outputs[0]
    dtype = model.graph.tensors[given].spec.dtype
    outputs = []
    for sample in x:
        values = sample[np.newaxis]
        if dtype != np.float32:
            values = quantize(values, model.quantization[given], dtype)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
        interpreter.invoke()
        y = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        real = y if y.dtype == np.float32 else dequantize(y, model.quantization[made])
        outputs.append(real[0])
    return np.array(outputs)


def decibels(wanted: np.ndarray, got: np.ndarray) -> float:
    error = np.square(wanted - got, dtype=np.float64).sum()
    return float(10 * np.log10(np.square(wanted, dtype=np.float64).sum() / error))


def photos(count: int) -> np.ndarray:
    """Smooth random pictures of 32×32, from 0 to 255."""
    small = np.random.default_rng(0).uniform(0, 255, (count, 4, 4, 3))
    return np.kron(small, np.ones((1, 8, 8, 1))).astype(np.float32)


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ((), 17),
        (("--input-type", "int8", "--output-type", "int8"), 17),
        (("--input-type", "uint8", "--output-type", "uint8"), 17),
        (("--scheme", "int16x8"), 20),
        (("--ranges", "percentile"), 15),
        (("--ranges", "mse"), 15),
        (("--scheme", "int8-weights"), 20),
        (("--scheme", "int4-weights"), 1),
        (("--scheme", "float16"), 50),
    ],
)
def test_litert_computes_what_the_float_model_computes(
    options: tuple[str, ...], least: float, tmp_path: Path
) -> None:
    x = photos(12)
    model, _ = quantized(RESNET, tmp_path, x, *options)
    assert decibels(computed(str(RESNET), x), computed(model.path, x)) > least
    share = 0.55 if "float16" in options else 0.35
    assert len(model.data) < share * RESNET.stat().st_size


def test_four_bits_are_read_as_they_were_rounded(tmp_path: Path) -> None:
    """LiteRT and odt compute the same; the weights have 15 values; an odd count is padded."""
    model = ModelBuilder("tflite", seed=7)
    given = model.add_input((1, 5))
    y = model.add_operator("FULLY_CONNECTED", (given, model.add_weight((3, 5), 5), -1), (1, 3))
    model.write(tmp_path / "m.tflite", y)
    x = np.random.default_rng(1).normal(size=(20, 5)).astype(np.float32)
    found, printed = quantized(tmp_path / "m.tflite", tmp_path, x, "--scheme", "int4-weights")
    assert "1 of 1 operators store weights as int4" in printed
    weights = found.graph.tensors[found.graph.nodes[0].inputs[1]]
    assert weights.data is not None
    assert (weights.data.size, weights.spec.shape) == (8, (3, 5))
    assert decibels(computed(str(tmp_path / "m.tflite"), x), computed(found.path, x)) > 14
    result = run("predict", found.path, "--load-input", tmp_path / "x.npy", "--output",
                 tmp_path / "y.npy")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert decibels(computed(found.path, x), np.load(tmp_path / "y.npy")) > 30


def test_types_are_those_of_the_specification(tmp_path: Path) -> None:
    model, printed = quantized(RESNET, tmp_path, photos(4))
    graph = model.graph
    assert [n.op for n in graph.nodes][:: len(graph.nodes) - 1] == ["QUANTIZE", "DEQUANTIZE"]
    for node in graph.nodes:
        if node.op not in ("CONV_2D", "FULLY_CONNECTED"):
            continue
        x, w, b = node.inputs
        weights, bias = graph.tensors[w], graph.tensors[b]
        assert (weights.spec.dtype.name, bias.spec.dtype.name) == ("int8", "int32")
        assert weights.data is not None
        found = model.quantization[w]
        others = tuple(range(1, weights.data.ndim))
        assert (np.abs(weights.data.astype(int)).max(axis=others) == 127).all()
        scale = model.quantization[x].scale * found.scale
        np.testing.assert_allclose(model.quantization[b].scale, scale, rtol=1e-6)
    softmax = next(n for n in graph.nodes if n.op == "SOFTMAX")
    found = model.quantization[softmax.outputs[0]]
    assert (found.scale.tolist(), found.zero_point.tolist()) == ([1 / 256], [-128])
    assert "16 of 16 operators compute int8" in printed
    assert "dB at the last layer" in printed


def branches(path: Path) -> None:
    """All kinds of operators: free, moving, joining, prescribed, and one of real numbers only."""
    model = ModelBuilder(path.suffix[1:], seed=5)
    x = model.add_input((1, 8, 8, 4), name="x")
    w = model.add_weight((6, 1, 1, 4), 4)
    wide = model.add_operator("CONV_2D", (x, w, model.add_constant([0.5] * 6)), (1, 8, 8, 6),
                              stride_w=1, stride_h=1)  # fmt: skip
    gate = model.add_operator("LOGISTIC", (wide,), (1, 8, 8, 6))
    gated = model.add_operator("MUL", (wide, gate), (1, 8, 8, 6))
    plus = model.add_operator("ADD", (gated, model.add_constant([0.1] * 6)), (1, 8, 8, 6))
    both = model.add_operator("CONCATENATION", (plus, gate), (1, 8, 8, 12), axis=3)
    sine = model.add_operator("SIN", (both,), (1, 8, 8, 12))
    model.graph.tensors[sine].name = "sine"
    axes = model.add_constant(np.array([1, 2], np.int32))
    mean = model.add_operator("MEAN", (sine, axes), (1, 12))
    top = model.add_operator("MAXIMUM", (mean, model.add_constant([-0.1] * 12)), (1, 12))
    y = model.add_dense(top, 3)
    model.graph.tensors[y].name = "scores"
    model.add_signature("serve", {"x": x}, {"scores": y})
    model.add_metadata("kept", b"as it is")
    model.write(path, y)


@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_operators_of_real_numbers_stand_between_conversions(scheme: str, tmp_path: Path) -> None:
    branches(tmp_path / "branches.tflite")
    x = np.random.default_rng(1).normal(size=(40, 8, 8, 4)).astype(np.float32)
    model, printed = quantized(tmp_path / "branches.tflite", tmp_path, x, "--scheme", scheme)
    assert "float32: 5 SIN" in printed
    wanted = computed(str(tmp_path / "branches.tflite"), x)
    assert decibels(wanted, computed(model.path, x)) > 25
    (signature,) = model.signatures
    assert (list(signature.inputs), list(signature.outputs)) == (["x"], ["scores"])
    assert signature.outputs["scores"] == model.graph.outputs[0]
    assert bytes(model.buffer(model.metadata["kept"])) == b"as it is"


@pytest.mark.parametrize("types", [("int8", "float32"), ("float32", "int8"), ("uint8", "uint8")])
def test_outputs_keep_names_and_order(types: tuple[str, str], tmp_path: Path) -> None:
    """Outputs may be read by integers or reals, be listed twice or be the input."""
    model = ModelBuilder("tflite", seed=4)
    x = model.add_input((1, 6), name="x")
    y = model.add_dense(x, 6)
    z = model.add_dense(y, 6)
    model.add_operator("SIN", (z,), (1, 6))
    outputs = {"z": z, "y": y, "x": x}
    for name, tensor in outputs.items():
        model.graph.tensors[tensor].name = name
    model.add_signature("serve", {"x": x}, outputs)
    model.write(tmp_path / "m.tflite", *outputs.values(), z)
    samples = np.random.default_rng(3).normal(size=(30, 6)).astype(np.float32)
    options = ("--input-type", types[0], "--output-type", types[1])
    found, _ = quantized(tmp_path / "m.tflite", tmp_path, samples, *options)
    files = [Interpreter(str(tmp_path / "m.tflite")), Interpreter(found.path)]
    made = []
    for file in files:
        file.allocate_tensors()
        given = file.get_input_details()[0]
        (scale, zero), values = given["quantization"], samples[:1]
        if scale:
            limits = np.iinfo(given["dtype"])
            values = np.clip(np.rint(values / scale) + zero, limits.min, limits.max)
        file.set_tensor(given["index"], values.astype(given["dtype"]))
        file.invoke()
        details = file.get_output_details()
        assert [d["name"] for d in details] == ["z", "y", "x", "z"]
        reals = []
        for d in details:
            scale, zero = d["quantization"]
            y = file.get_tensor(d["index"]).astype(np.float32)
            reals.append((y - zero) * scale if scale else y)
        made.append(reals)
        assert file.get_signature_list()["serve"]["outputs"] == ["x", "y", "z"]
    for wanted, got in zip(*made, strict=True):
        np.testing.assert_allclose(got, wanted, atol=0.05 * np.abs(wanted).max())


def test_a_layer_may_have_no_bias(tmp_path: Path) -> None:
    model = ModelBuilder("tflite", seed=4)
    x = model.add_input((1, 6))
    y = model.add_operator("FULLY_CONNECTED", (x, model.add_weight((5, 6), 6), -1), (1, 5))
    last = model.add_operator("MUL", (y, model.add_constant([2.0])), (1, 5))
    model.add_constant(np.full(7, 1e6, np.float32))  # the last tensor, which index -1 is not
    model.write(tmp_path / "m.tflite", last)
    samples = np.random.default_rng(3).normal(size=(30, 6)).astype(np.float32)
    found, _ = quantized(tmp_path / "m.tflite", tmp_path, samples)
    (dense,) = (n for n in found.graph.nodes if n.op == "FULLY_CONNECTED")
    assert dense.inputs[2] == -1
    wanted = computed(str(tmp_path / "m.tflite"), samples)
    assert decibels(wanted, computed(found.path, samples)) > 25


def test_odt_computes_the_integers_that_litert_computes(tmp_path: Path) -> None:
    branches(tmp_path / "branches.tflite")
    x = np.random.default_rng(2).normal(size=(20, 8, 8, 4)).astype(np.float32)
    model, _ = quantized(tmp_path / "branches.tflite", tmp_path, x, "--output-type", "int8")
    out = tmp_path / "y.npy"
    result = run("predict", model.path, "--load-input", tmp_path / "x.npy", "--output", out)
    assert result.exit_code == 0, result.output
    step = model.quantization[model.graph.outputs[0]].scale[0]
    assert np.abs(np.load(out) - computed(model.path, x)).max() <= 1.01 * step


def test_a_pattern_keeps_float32(tmp_path: Path) -> None:
    model, printed = quantized(RESNET, tmp_path, photos(3), "--keep-float", "FULLY*")
    (dense,) = (n for n in model.graph.nodes if n.op == "FULLY_CONNECTED")
    assert {model.graph.tensors[i].spec.dtype.name for i in dense.inputs} == {"float32"}
    assert "14 FULLY_CONNECTED" in printed


def test_circle_models_are_quantized_too(tmp_path: Path) -> None:
    branches(tmp_path / "branches.circle")
    x = np.random.default_rng(1).normal(size=(4, 8, 8, 4)).astype(np.float32)
    model, _ = quantized(tmp_path / "branches.circle", tmp_path, x)
    assert model.format == "circle"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--calibrate: must be given: the data from which ranges are measured."),
        (("--calibrate", "x.npy", "--keep-float", "no"), "--keep-float: must match operators"),
        (("--calibrate", "x.npy", "--keep-float", "*"), "--keep-float: must leave operators"),
        (
            ("--scheme", "float16", "--input-type", "int8"),
            "--input-type: must be float32 with --scheme float16, but got int8",
        ),
        (
            ("--calibrate", "x.npy", "--output-type", "int16"),
            "--output-type: must be float32 or int8 or uint8 with --scheme int8, but got int16",
        ),
        (
            ("--weights", "int8", "--ranges", "mse"),
            "--ranges: must be left out with --scheme int8-weights, which measures no ranges",
        ),
        (
            ("--calibrate", "x.npy", "--keep-float", "scores", "--output-type", "int8"),
            "--output-type: must be float32 where operators on real numbers",
        ),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    branches(tmp_path / "m.tflite")
    np.save("x.npy", np.ones((3, 8, 8, 4), np.float32))
    result = run("quantize", "m.tflite", "-o", "out.tflite", *options)
    assert (result.exit_code, message in result.output) == (1, True), result.output
    assert not Path("out.tflite").exists()


def test_a_quantized_model_is_refused(tmp_path: Path) -> None:
    model = MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite"
    out = tmp_path / "out.tflite"
    result = run("quantize", model, "--scheme", "float16", "-o", out)
    assert result.exit_code == 1
    assert "activations must be float32, but got integers" in result.output


def test_a_model_without_such_operators_is_refused_by_name(tmp_path: Path) -> None:
    """The line names what the model has, and no option that was not given."""
    model = ModelBuilder("tflite")
    x = model.add_input((1, 4))
    model.write(tmp_path / "m.tflite", model.add_operator("EXP", (x,), (1, 4)))
    for scheme, what in (("float16", "layers with weights"), ("int8", "operators")):
        np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
        data = () if scheme == "float16" else ("--calibrate", tmp_path / "x.npy")
        options = ("--scheme", scheme, *data, "-o", tmp_path / "q.tflite")
        result = run("quantize", tmp_path / "m.tflite", *options)
        assert result.exit_code == 1
        line = f"must have {what} that --scheme {scheme} can quantize, but got none among EXP"
        assert line in result.output
        assert "keep-float" not in result.output


def test_biases_undo_the_change_of_means_by_rounded_weights(tmp_path: Path) -> None:
    """Inputs are positive, so that rounded weights change the means of all units."""
    model = ModelBuilder("tflite", seed=6)
    given = model.add_input((1, 9, 9, 8))
    wide = model.add_operator(
        "CONV_2D", (given, model.add_weight((16, 2, 2, 8), 32), model.add_constant([0.5] * 16)),
        (1, 8, 8, 16), stride_w=1, stride_h=1, padding=1,
    )  # fmt: skip
    taps = model.add_weight((1, 3, 3, 16), 9)
    deep = model.add_operator(
        "DEPTHWISE_CONV_2D", (wide, taps, model.add_constant([0.1] * 16)), (1, 6, 6, 16),
        stride_w=1, stride_h=1, padding=1, depth_multiplier=1,
    )  # fmt: skip
    y = model.add_operator("FULLY_CONNECTED", (deep, model.add_weight((24, 576), 576),
                           model.add_constant([0.0] * 24)), (1, 24))  # fmt: skip
    model.write(tmp_path / "m.tflite", y)
    x = np.random.default_rng(0).uniform(9, 10, (24, 9, 9, 8)).astype(np.float32)
    wanted = computed(str(tmp_path / "m.tflite"), x)
    found, _ = quantized(tmp_path / "m.tflite", tmp_path, x, "--scheme", "int16x8")
    got = computed(found.path, x)
    assert decibels(wanted, got) > 55
