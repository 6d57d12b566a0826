"""`odt replace-head`: a new last layer after the features of another model."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from click.testing import CliRunner, Result
from model_builder import ModelBuilder
from support.judges import inner, litert, onert, random_inputs
from support.mutations import mutations
from support.new_heads import classifier, expected, head, made, run
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.core.export.replace_head import Head, replace_head
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model
from odt.errors import ModelError, OdtError, OptionError

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
SINE = MODELS / "tflm-hello-world-sine-float.tflite"


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
    """So is an input of its own, also from the signature."""
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
    (signature,) = new.signatures
    assert (signature.key, dict(signature.inputs)) == ("serve", {"x": new.graph.inputs[0]})
    assert dict(signature.outputs) == {"out": new.graph.outputs[0]}
    assert bytes(new.buffer(new.metadata["labels"])) == b"a b c"
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


@pytest.mark.filterwarnings("ignore:Warning. Enabling")  # LiteRT: to keep tensors takes memory
@pytest.mark.parametrize("ending", ["tflite", "circle"])
@pytest.mark.parametrize(
    ("options", "ops"),
    [
        (("--activation", "sigmoid"), ["FULLY_CONNECTED", "LOGISTIC"]),
        (("--activation", "linear"), ["FULLY_CONNECTED"]),
        (("--hidden", "7,6"), ["FULLY_CONNECTED"] * 3 + ["SOFTMAX"]),
    ],
)
def test_activations_and_hidden_layers(
    options: tuple[str, str], ops: list[str], ending: str, tmp_path: Path
) -> None:
    before, path = read_model(str(RESNET)).graph, tmp_path / f"new.{ending}"
    result = run(RESNET, path, *options)
    option = f"--num-of-trainable-ops {len(ops)}"
    assert f"The new layers train alone at first, as with {option};" in result.stdout
    new = read_model(str(path))
    assert [n.op for n in new.graph.nodes] == [*(n.op for n in before.nodes[:-2]), *ops]
    x = random_inputs(RESNET, 1)
    y = inner(RESNET, x[0], before.nodes[-2].inputs[0]).astype(float)
    named = {t.name: t.data for t in new.graph.tensors if t.data is not None}
    for prefix in ("hidden1/", "hidden2/") if "--hidden" in options else ():
        y = np.maximum(y @ named[f"head/{prefix}weights"].T + named[f"head/{prefix}bias"], 0)
    y = y @ named["head/weights"].T + named["head/bias"]
    wanted = {
        "sigmoid": 1 / (1 + np.exp(-y)), "linear": y, "7,6": np.exp(y) / np.exp(y).sum()
    }[options[1]]  # fmt: skip
    judge = litert if ending == "tflite" else lambda path, a: onert(path, a, tmp_path)
    np.testing.assert_allclose(judge(path, x)[0], wanted, rtol=1e-5, atol=1e-5)


def trained(tmp_path: Path, targets: np.ndarray, *options: object) -> Result:
    """Trains the new layers of new.circle, whose input is a number between 0 and 6."""
    np.save(tmp_path / "x.npy", np.linspace(0, 6, 128, dtype=np.float32)[:, None])
    np.save(tmp_path / "t.npy", targets.astype(np.float32))
    words = ["train", "new.circle", "--load-input", "x.npy", "--load-expected", "t.npy"]
    words = [str(tmp_path / w) if "." in w else w for w in words]
    words += ["--epochs", "40", "--shuffle", *(str(o) for o in options)]
    return CliRunner().invoke(main, words)


def last_value(result: Result) -> float:
    assert result.exit_code == 0, result.output
    last = next(line for line in result.stdout.splitlines() if line.startswith("Epoch 40/40"))
    return float(last.rpartition(" ")[2])


@pytest.mark.parametrize(
    ("head", "ops"),
    [
        (("--activation", "softmax"), 2),
        (("--activation", "softmax", "--hidden", "16"), 3),
        (("--activation", "sigmoid"), 2),
        (("--activation", "sigmoid", "--classes", "1"), 2),
    ],
)
def test_the_new_head_learns(head: tuple[str, ...], ops: int, tmp_path: Path) -> None:
    """Quarters of the input, or its first half, with the loss of the final activation."""
    made(SINE, tmp_path / "new.circle", "--seed", 1, *head)
    quarter = np.eye(4)[np.arange(128) // 32]
    targets = quarter[:, :2].sum(axis=1, keepdims=True) if "1" in head else quarter
    options = ("--num-of-trainable-ops", ops, "--learning-rate", 0.1, "--metric", "accuracy")
    result = trained(tmp_path, targets, *options)
    assert last_value(result) > 0.8
    loss = "binary crossentropy" if "sigmoid" in head else "categorical crossentropy"
    assert f"{{loss = {loss}," in result.stdout


def test_a_linear_head_learns_with_a_loss(tmp_path: Path) -> None:
    made(SINE, tmp_path / "new.circle", "--activation", "linear", "--classes", 1, "--seed", 1)
    targets = np.abs(np.linspace(-1, 1, 128))[:, None]
    refused = trained(tmp_path, targets)
    assert refused.exit_code == 1
    assert "which ends in neither SOFTMAX nor LOGISTIC" in refused.stderr
    assert "Give mean-squared-error for a regression; all losses: " in refused.stderr
    options = ("--loss", "mse", "--num-of-trainable-ops", 1, "--learning-rate", 0.01)
    result = trained(tmp_path, targets, *options, "--metric", "mean-absolute-error")
    assert last_value(result) < 0.1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--after", 99), "--after: must be below 16, the model's operators, but got 99"),
        (("--classes", 1), "--classes: must be a whole number of at least 2 with softmax"),
        (("--hidden", "8,0"), "must be whole numbers above 0 such as 64,32, but got 8,0"),
        (("--hidden", "8,"), "must be whole numbers above 0 such as 64,32, but got 8,"),
        (("--output", "m.onnx"), "--output m.onnx: must end in .circle or .tflite, but got .onnx"),
        (("--output", RESNET), "must be a file of its own, but got the file of MODEL"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: tuple[object, ...], words: str, tmp_path: Path
) -> None:
    result = run(RESNET, tmp_path / "out.tflite", *options)
    assert result.exit_code == (2 if options[0] == "--hidden" else 1)
    assert words in result.stderr
    assert not list(tmp_path.iterdir())


def test_missing_options_are_requested() -> None:
    result = CliRunner().invoke(main, ["replace-head", str(RESNET), "--output", "a.tflite"])
    assert (result.exit_code, "--classes, --like: one of them must be given" in result.stderr) == (
        1,
        True,
    )


def test_arguments_of_python_that_cannot_be_are_refused() -> None:
    with pytest.raises(
        OptionError,
        match="`activation=`: must be one of `softmax`, `sigmoid`, `linear`, but got tanh",
    ):
        Head(3, activation="tanh")
    with pytest.raises(
        OptionError, match="`classes=`: must be a whole number of at least 1, but got 0"
    ):
        Head(0, activation="linear")


def refusal(model: ModelBuilder, output: int, folder: Path, *options: object) -> str:
    model.write(folder / "m.tflite", output)
    result = run(folder / "m.tflite", folder / "new.tflite", *options)
    assert result.exit_code == 1
    assert not (folder / "new.tflite").exists()
    return result.stderr


def test_a_model_without_layers_is_refused(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    y = model.add_operator("ABS", (model.add_input((1, 4)),), (1, 4))
    assert "must have a layer with weights, but got none. Give --after" in refusal(
        model, y, tmp_path
    )


def test_features_that_are_no_floats_are_refused(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    words = model.add_input((1, 4), "int32")
    y = model.add_operator("GATHER", (model.add_weight((9, 3), 3), words), (1, 4, 3))
    assert (
        "features must be float32 of shape (1, …, features), computed from an input, but got "
        'tensor 0 ("tensor_0"), (1, 4) int32. Choose others with --after'
        in refusal(model, y, tmp_path, "--classifier")
    )


def test_unsupported_operators_are_refused(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    y = model.add_operator("CUSTOM:Magic", (model.add_input((1, 4)),), (1, 4))
    message = refusal(model, model.add_dense(y, 2), tmp_path)
    assert "Magic" in message


def test_control_flow_is_refused(tmp_path: Path) -> None:
    result = run(MODELS / "while_000.circle", tmp_path / "new.circle", "--after", 0)
    assert result.exit_code == 1
    assert "must not contain control flow" in result.stderr


def test_subgraphs_that_nothing_calls_go(tmp_path: Path) -> None:
    model, _, y = classifier()
    model.graph.outputs = [y]
    model.model.subgraphs.append(model.graph)
    model.write(tmp_path / "m.tflite", y)
    new = made(tmp_path / "m.tflite", tmp_path / "new.tflite", "--after", 1)
    assert (read_model(str(tmp_path / "m.tflite")).subgraphs, new.subgraphs) == (2, 1)


def test_a_vector_with_one_row_of_features_is_one_sample(tmp_path: Path) -> None:
    """Ten words, and one row of features for all of them."""
    path = MODELS / "recommendation-rnn-lstm.tflite"
    result = run(path, tmp_path / "new.tflite", "--classifier")
    assert result.exit_code == 0, result.output
    graphs = lower_model(read_model(str(tmp_path / "new.tflite"))).graphs
    assert graphs.file_batch == 1
    assert [graphs.specs[i].shape[0] for i in graphs.graph.outputs] == [1]


def test_features_that_are_not_one_row_a_sample_are_refused(tmp_path: Path) -> None:
    """Two rows for each of two samples."""
    model = ModelBuilder("tflite")
    x = model.add_dense(model.add_input((2, 4)), 6)
    x = model.add_operator("RESHAPE", (x, model.add_constant([4, 3])), (4, 3), new_shape=[4, 3])
    model.write(tmp_path / "m.tflite", model.add_dense(x, 3))
    result = run(tmp_path / "m.tflite", tmp_path / "new.tflite")
    assert result.exit_code == 1
    assert "features must be float32 of shape (2, …, features)" in result.stderr
    assert "(4, 3) float32" in result.stderr


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
            replace_head(parse_model(memoryview(mutant), "m"), Head(3))
            made_again += 1
        except OdtError:
            continue
    assert 0 < made_again < 300


@pytest.mark.parametrize(("op", "inputs"), [("RESHAPE", 0), ("MEAN", 0), ("MEAN", 1)])
def test_operators_without_their_inputs_are_refused(op: str, inputs: int, tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    y = model.add_operator(op, (model.add_input((1, 4, 4, 3)),)[:inputs], (1, 3))
    assert f"({op})" in refusal(model, model.add_dense(y, 2), tmp_path)


def test_a_streaming_model_keeps_its_state(tmp_path: Path) -> None:
    """Each of five time steps depends on those before, in LiteRT as in odt."""
    out = tmp_path / "new.tflite"
    options = ("--activation", "sigmoid", "--classes", 2)
    result = run(MODELS / "okay-nabu-int8.tflite", out, *options)
    assert result.exit_code == 0, result.output
    interpreter = Interpreter(str(out))
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    shape = (5, *given["shape"][1:])
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    theirs = []
    for step in x:
        interpreter.set_tensor(given["index"], step[np.newaxis])
        interpreter.invoke()
        theirs.append(interpreter.get_tensor(made["index"])[0])
    model = odt.load_model(out, sequence_length=5, return_sequences=True)
    scale, zero = made["quantization"]
    with odt.Trainer(model, loss="mse") as trainer:
        ours = trainer.predict(x[np.newaxis])[0]
    real = (np.array(theirs, float) - zero) * scale
    np.testing.assert_allclose(ours, real, atol=1.5 * scale)
    assert np.ptp(real, axis=0).all()


def test_a_model_without_operators_is_refused(tmp_path: Path) -> None:
    model = ModelBuilder("tflite")
    model.write(tmp_path / "m.tflite", model.add_input((1, 4)))
    with pytest.raises(ModelError, match="must have operators whose results a layer can read"):
        odt.replace_head(tmp_path / "m.tflite", 3, after=0)
