"""`odt replace-head`: a new last layer behind the features of another model."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.judges import litert, onert, random_inputs
from support.mutations import mutations
from support.paths import MODELS

from odt.cli.main import main
from odt.core.export.replace_head import replace_head
from odt.core.model.reader import Model, parse_model, read_model
from odt.errors import OdtError

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
SINE = MODELS / "tflm-hello-world-sine-float.tflite"


def run(model: Path, output: Path, *options: object) -> Result:
    words = ["replace-head", model, "--classes", 4, "--output", output, *options]
    return CliRunner().invoke(main, [str(w) for w in words])


def made(model: Path, output: Path, *options: object) -> Model:
    result = run(model, output, *options)
    assert result.exit_code == 0, result.output
    return read_model(str(output))


def head(model: Model) -> tuple[np.ndarray, np.ndarray]:
    named = {t.name: t.data for t in model.graph.tensors}
    w, b = named["head/weights"], named["head/bias"]
    assert w is not None
    assert b is not None
    return w, b


def expected(features: np.ndarray, model: Model) -> np.ndarray:
    """Probabilities from features of one sample, with the new layer's weights."""
    w, b = head(model)
    e = np.exp(features.reshape(1, -1).astype(float) @ w.T + b)
    return np.asarray(e / e.sum())


def inner(path: Path, x: np.ndarray, tensor: int) -> np.ndarray:
    """A tensor in the middle of a model, by LiteRT."""
    interpreter = Interpreter(str(path), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(tensor))


def classifier() -> tuple[ModelBuilder, int, int]:
    """A builder; inputs (1, 6, 5, 3), features (1, 6, 5, 8) of a convolution with PRELU."""
    model = ModelBuilder("tflite", seed=1)
    x = model.add_input((1, 6, 5, 3), signature=(-1, 6, 5, 3))
    w = model.add_weight((8, 1, 1, 3), 3, "conv")
    b = model.add_constant(np.zeros(8, np.float32), "conv bias")
    y = model.add_operator("CONV_2D", (x, w, b), (1, 6, 5, 8), stride_w=1, stride_h=1)
    slope = model.add_constant(np.full((1, 1, 8), 0.1, np.float32), "slope")
    y = model.add_operator("PRELU", (y, slope), (1, 6, 5, 8))
    model.graph.tensors[y].shape_signature = [-1, 6, 5, 8]
    return model, x, y


@pytest.mark.filterwarnings("ignore:Warning. Enabling")  # LiteRT: to keep tensors takes memory
@pytest.mark.parametrize("ending", ["tflite", "circle"])
def test_a_new_head_reads_the_old_features(ending: str, tmp_path: Path) -> None:
    before, new = read_model(str(RESNET)).graph, made(RESNET, tmp_path / f"out.{ending}")
    assert [n.op for n in new.graph.nodes] == [n.op for n in before.nodes]
    x = random_inputs(RESNET, 1)
    wanted = expected(inner(RESNET, x[0], before.nodes[-2].inputs[0]), new)
    judge = litert if ending == "tflite" else lambda path, a: onert(path, a, tmp_path)
    np.testing.assert_allclose(judge(tmp_path / f"out.{ending}", x)[0], wanted, atol=1e-5)
    assert wanted.max() < 0.999


def test_new_weights_are_drawn_from_the_seed(tmp_path: Path) -> None:
    w, b = head(made(RESNET, tmp_path / "a.tflite", "--seed", 3))
    assert w.shape == (4, 64)
    assert np.std(w) == pytest.approx((2 / 64) ** 0.5, rel=0.2)
    assert not b.any()
    again, other = (head(made(RESNET, tmp_path / "b.tflite", "--seed", s))[0] for s in (3, 4))
    assert np.array_equal(w, again)
    assert not np.array_equal(w, other)


def test_tensors_of_the_old_layer_are_removed(tmp_path: Path) -> None:
    """So are an input of its own, the signature and the metadata."""
    model, x, y = classifier()
    model.graph.outputs = [y]
    more = model.add_input((1, 240))
    flat = model.add_operator("RESHAPE", (y, model.add_constant([1, 240])), (1, 240))
    both = model.add_operator("ADD", (flat, more), (1, 240))
    out = model.add_dense(model.add_dense(both, 4096), 3)
    model.add_signature("serve", {"x": x, "more": more}, {"out": out})
    model.add_metadata("labels", b"a b c")
    model.write(tmp_path / "m.tflite", out, y)
    new = made(tmp_path / "m.tflite", tmp_path / "new.tflite", "--after", 1)
    assert [n.op for n in new.graph.nodes] == [
        "CONV_2D",
        "PRELU",
        "MEAN",
        "FULLY_CONNECTED",
        "SOFTMAX",
    ]
    assert len(new.graph.inputs) == len(new.graph.outputs) == 1
    assert (new.signatures, dict(new.metadata)) == ((), {})
    names = {t.name for t in new.graph.tensors}
    assert names >= {"conv", "conv bias", "slope", "head/weights", "head/bias"}
    assert not any(name.startswith("dense") for name in names)
    assert (tmp_path / "new.tflite").stat().st_size < 4096


def test_features_with_height_and_width_are_averaged(tmp_path: Path) -> None:
    model, _, y = classifier()
    model.write(tmp_path / "features.tflite", y)
    w, b = (
        model.add_weight((3, 6, 5, 8), 240, "w"),
        model.add_constant(np.zeros(3, np.float32), "b"),
    )
    y = model.add_operator("CONV_2D", (y, w, b), (1, 1, 1, 3), stride_w=1, stride_h=1, padding=1)
    model.write(tmp_path / "m.tflite", y)
    new = made(tmp_path / "m.tflite", tmp_path / "new.tflite")
    x = random_inputs(tmp_path / "features.tflite", 2)
    features = litert(tmp_path / "features.tflite", x)[0].mean(axis=(1, 2))
    found = litert(tmp_path / "new.tflite", x)[0]
    for k in range(2):
        np.testing.assert_allclose(found[k : k + 1], expected(features[k], new), atol=1e-5)
    output = new.graph.tensors[new.graph.outputs[0]]
    assert output.signature == (-1, 4)


def test_a_bias_of_its_own_is_part_of_the_layer(tmp_path: Path) -> None:
    """And a model of one layer keeps nothing but its input."""
    model = ModelBuilder("circle", seed=0)
    x = model.add_input((1, 6))
    y = model.add_operator("FULLY_CONNECTED", (x, model.add_weight((3, 6), 6), -1), (1, 3))
    y = model.add_operator("ADD", (y, model.add_constant(np.ones((1, 3), np.float32))), (1, 3))
    model.write(tmp_path / "m.circle", y)
    new = made(tmp_path / "m.circle", tmp_path / "new.circle")
    assert [n.op for n in new.graph.nodes] == ["FULLY_CONNECTED", "SOFTMAX"]
    assert head(new)[0].shape == (4, 6)


def test_weights_stay_as_they_are_stored(tmp_path: Path) -> None:
    hybrid = MODELS / "mlperf-tiny-kws-dscnn-hybrid.tflite"
    before, new = read_model(str(hybrid)), made(hybrid, tmp_path / "new.tflite")
    kept = {t.name: t for t in new.graph.tensors}
    integers = [t for t in before.graph.tensors if t.spec.dtype == np.int8 and t.name in kept]
    assert len(integers) == 5
    for tensor in integers:
        assert np.array_equal(kept[tensor.name].data, tensor.data)  # type: ignore[arg-type]
    x = random_inputs(tmp_path / "new.tflite", 1)
    np.testing.assert_allclose(litert(tmp_path / "new.tflite", x)[0].sum(), 1, rtol=1e-5)


def test_the_new_head_learns(tmp_path: Path) -> None:
    made(SINE, tmp_path / "new.circle", "--seed", 1)
    x = np.linspace(0, 6, 128, dtype=np.float32)[:, None]
    np.save(tmp_path / "x.npy", x)
    np.save(
        tmp_path / "t.npy", np.eye(4, dtype=np.float32)[np.minimum(x[:, 0] / 1.5, 3).astype(int)]
    )
    words = ["train", "new.circle", "--load-input", "x.npy", "--load-expected", "t.npy"]
    words = [str(tmp_path / w) if "." in w else w for w in words]
    words += ["--num-of-trainable-ops", "2", "--epochs", "40", "--learning-rate", "0.1"]
    result = CliRunner().invoke(main, [*words, "--metric", "accuracy", "--shuffle"])
    assert result.exit_code == 0, result.output
    last = next(line for line in result.stdout.splitlines() if line.startswith("Epoch 40/40"))
    assert float(last.rpartition(" ")[2]) > 0.8


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--after", 99), "--after: must be below 16, the model's operators, but got 99"),
        (("--output", "m.onnx"), "--output m.onnx: must end in .circle or .tflite, but got .onnx"),
        (("--output", RESNET), "must not be another file of the command, but got that of MODEL"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: tuple[object, ...], words: str, tmp_path: Path
) -> None:
    result = run(RESNET, tmp_path / "out.tflite", *options)
    assert result.exit_code == 1
    assert words in result.stderr
    assert not list(tmp_path.iterdir())


def test_missing_options_are_requested() -> None:
    result = CliRunner().invoke(main, ["replace-head", str(RESNET), "--output", "a.tflite"])
    assert (result.exit_code, "--classes: must be given" in result.stderr) == (1, True)


def refusal(model: ModelBuilder, output: int, folder: Path, *options: object) -> str:
    model.write(folder / "m.tflite", output)
    result = run(folder / "m.tflite", folder / "new.tflite", *options)
    assert result.exit_code == 1
    assert not (folder / "new.tflite").exists()
    return result.stderr


def test_a_model_without_layers_is_refused(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    y = model.add_operator("ABS", (model.add_input((1, 4)),), (1, 4))
    assert "must have a layer with weights, but got none. Say with --after" in refusal(
        model, y, tmp_path
    )


def test_features_that_are_no_floats_are_refused(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    words = model.add_input((1, 4), "int32")
    y = model.add_operator("GATHER", (model.add_weight((9, 3), 3), words), (1, 4, 3))
    assert (
        "features must be float32 of shape (1, …, features), computed from an input, but got "
        'tensor 0 ("tensor_0"), (1, 4) int32. Choose other ones with --after'
        in refusal(model, y, tmp_path)
    )


def test_unsupported_operators_are_refused(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    y = model.add_operator("CUSTOM:Magic", (model.add_input((1, 4)),), (1, 4))
    message = refusal(model, model.add_dense(y, 2), tmp_path)
    assert "Magic" in message


def test_control_flow_is_refused(tmp_path: Path) -> None:
    result = run(MODELS / "while_000.circle", tmp_path / "new.circle", "--after", 0)
    assert result.exit_code == 1
    assert "is control flow" in result.stderr


def test_subgraphs_that_nothing_calls_go(tmp_path: Path) -> None:
    model, _, y = classifier()
    model.graph.outputs = [y]
    model.model.subgraphs.append(model.graph)
    model.write(tmp_path / "m.tflite", y)
    new = made(tmp_path / "m.tflite", tmp_path / "new.tflite", "--after", 1)
    assert (read_model(str(tmp_path / "m.tflite")).subgraphs, new.subgraphs) == (2, 1)


def test_features_that_are_not_one_row_a_sample_are_refused(tmp_path: Path) -> None:
    """Ten words, each perhaps a sample, and one row for all of them."""
    result = run(MODELS / "recommendation-rnn-lstm.tflite", tmp_path / "new.tflite")
    assert result.exit_code == 1
    assert "features must be float32 of shape (10, …, features)" in result.stderr
    assert "(1, 16) float32" in result.stderr


def test_contents_unknown_to_the_other_format_are_refused(tmp_path: Path) -> None:
    model = ModelBuilder("circle")
    y = model.add_dense(model.add_input((1, 4)), 4)
    one = model.add_constant(np.ones(4, np.float32))
    y = model.add_operator("RMS_NORM", (y, one), (1, 4), epsilon=1e-6)
    model.write(tmp_path / "m.circle", model.add_dense(y, 2))
    result = run(tmp_path / "m.circle", tmp_path / "new.tflite")
    assert result.exit_code == 1
    assert "RMS_NORM" in result.stderr
    assert run(tmp_path / "m.circle", tmp_path / "new.circle").exit_code == 0


def test_damaged_bytes_give_a_model_or_one_refusal() -> None:
    """As the reader does, though a new head needs tables that the reader does not look at."""
    data, made_again = SINE.read_bytes(), 0
    for mutant in mutations(data, 300, seed=6):
        try:
            replace_head(parse_model(memoryview(mutant), "m"), 3)
            made_again += 1
        except OdtError:
            continue
    assert 0 < made_again < 300
