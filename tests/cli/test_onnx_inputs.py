"""Inputs of ONNX files: axes without a size, and inputs that have one value."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.onnx_files import OnnxFile, message, value

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model

LOSS = ("--loss", "mean-squared-error")
DATA = ("--load-input", "x.npy", "--load-expected", "y.npy", *LOSS)
SIZES = ("--input-shape", "x=1x4x3", "--input-value", "rate=8")
A, B = (np.full((3, 2), n, np.float32) for n in (0.5, 2))


def run(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [*map(str, args)])
    return result.exit_code, result.output


def by_rate() -> OnnxFile:
    """y = x a if rate is 8, else Nonsense(x, b), of inputs x (batch, time, 3) and rate ()."""
    branches = []
    for kind, name, weight in (("MatMul", "a", A), ("Nonsense", "b", B)):
        body = OnnxFile()
        body.outputs.append(message((1, f"y {name}")))
        body.constants({name: weight})
        body.add(kind, "x", name, outputs=[f"y {name}"])
        branches.append(body)
    file = OnnxFile()
    file.inputs += [value("x", ("batch", "time", 3)), value("rate", (), "int64")]
    file.outputs.append(value("y", ("batch", "time", 2)))
    file.constants({"eight": np.array(8), "bias": np.zeros(2, np.float32)})
    file.add("Equal", "rate", "eight", outputs=["c"])
    file.add("If", "c", then_branch=branches[0], else_branch=branches[1], outputs=["h"])
    file.add("Add", "h", "bias")
    return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    by_rate().write(tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.standard_normal((16, 4, 3)).astype(np.float32))
    np.save("y.npy", rng.standard_normal((16, 4, 2)).astype(np.float32))
    return tmp_path


def test_commands_take_sizes_and_values_of_inputs(folder: Path) -> None:
    for args, words in (
        (("inspect", "m.onnx"), 'input   (1, 4, 3) float32  tensor 2 ("x")'),
        (("check", "m.onnx", *LOSS), "The model can be trained."),
        (("plan", "m.onnx", *LOSS), "peak of the arena"),
        (("train", "m.onnx", *DATA, "--epochs", 9, "--export-onnx", "t.onnx"), "Epoch 9"),
        (("eval", "t.onnx", *DATA), "16 samples - loss"),
        (("predict", "t.onnx", "--load-input", "x.npy", "--output", "p.npy"), ""),
        (("verify", "t.onnx", "t.onnx", "--load-input", "x.npy"), "output 0: "),
        (("convert", "t.onnx", "t.tflite"), "is now t.tflite"),
        (("artifacts", "t.onnx", *DATA, "--output", "device"), "recipe.toml"),
    ):
        status, text = run(*args, *SIZES)
        assert (status, words in text) == (0, True), text
    old, new = ({t.name: t.data for t in read_model(n).graph.tensors} for n in ("m.onnx", "t.onnx"))
    np.testing.assert_array_equal(old["b"], new["b"])
    x, a, bias = np.load("x.npy"), new["a"], new["bias"]
    assert a is not None
    assert not np.array_equal(a, A)
    np.testing.assert_allclose(np.load("p.npy"), x @ a + bias, rtol=1e-5, atol=1e-6)
    converted = odt.load_model("t.tflite")
    assert [(t.name, t.shape) for t in converted.inputs] == [("x", (1, 4, 3))]
    recipe = (folder / "device/recipe.toml").read_text()
    assert 'input-shape = ["x=1x4x3"]' in recipe
    assert 'input-value = ["rate=8"]' in recipe
    assert run("artifacts", "--check", "device")[0] == 0
    status, text = run("train", "--config", "device/recipe.toml", *DATA, "--epochs", 1)
    assert (status, "Epoch 1" in text) == (0, True), text


def test_a_report_reads_the_model_as_training_does(folder: Path) -> None:
    """The trained model, and that of the best epoch; with the weight of the loss, as in the log."""
    options = ("--validation-split", 0.25, "--epochs", 1, "--loss-weight", "0=2")
    status, text = run("train", "m.onnx", *DATA, *SIZES, *options, "--run-dir", "r")
    assert status == 0, text
    loss = odt.read_run("r").rows[-1]["val_loss"]
    for weights in ("", ", weights of best.odt"):
        status, text = run("report", "r")
        assert status == 0, text
        assert (
            f"4 validation samples, loss {loss:.6g}{weights}." in Path("r/report.html").read_text()
        )
        Path("r/model.onnx").unlink(missing_ok=True)


def test_what_the_other_branch_lacks_is_named(folder: Path) -> None:
    status, text = run("check", "m.onnx", *LOSS, *SIZES[:2], "--input-value", "rate=16")
    assert (status, "(Nonsense): is not supported" in text) == (1, True), text


def test_axes_are_named_by_their_symbols(folder: Path) -> None:
    status, text = run("inspect", "m.onnx", *SIZES[2:])
    assert (status, 'tensor 2 ("x"), open: axis 1 (time)' in text) == (0, True), text
    status, text = run("train", "m.onnx", *DATA, *SIZES[2:])
    assert status == 1
    hint = 'In the file, axis 1 (time) of "x" may have any size: give --input-shape x=1x4x3.'
    assert hint in text
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 3, "height", "width")))
    file.outputs.append(value("y", ()))
    file.constants({"w": np.ones((2, 3, 5, 5), np.float32)})
    file.add("Conv", "x", "w")
    file.write(folder / "conv.onnx")
    status, text = run("plan", "conv.onnx", *LOSS)
    assert status == 1
    assert 'tensor 1 ("x"): axes 2 (height), 3 (width); for example --input-shape' in text


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("rate=fast", "must be NAME=VALUE with numbers, such as sr=16000, but got rate=fast"),
        ("8", "must be NAME=VALUE with numbers, such as sr=16000, but got 8"),
        ("sr=8", "--input-value: must name one of the inputs, x, rate, but got sr"),
        ("rate=8.5", 'must be () int64 for tensor 3 ("rate"), but got 8.5'),
        ("rate=8,9", 'must be () int64 for tensor 3 ("rate"), but got [8 9]'),
    ],
)
def test_values_that_do_not_fit_are_refused(folder: Path, option: str, words: str) -> None:
    status, text = run("inspect", "m.onnx", "--input-value", option)
    assert status == (2 if "such as" in words else 1)
    assert words in text


def test_an_input_is_not_given_twice(folder: Path) -> None:
    values = ("--input-value", "rate=8", "--input-value", "rate=16")
    status, text = run("inspect", "m.onnx", *values)
    assert status == 2
    assert "'--input-value': must be given once for each name, but got \"rate\" more" in text


def test_only_onnx_files_are_converted_for_values(folder: Path) -> None:
    odt.new_model("mlp", input_shape=(3,), outputs=2, hidden=(3,)).save("m.tflite")
    status, text = run("convert", "m.tflite", "m.circle", "--input-shape", "1x3")
    assert (status, "must be left out for m.tflite, no ONNX model" in text) == (1, True), text
    assert not (folder / "m.circle").exists()


def test_a_checkpoint_keeps_the_values(folder: Path) -> None:
    """A resumed run with another value is told so."""
    file = OnnxFile()
    file.inputs += [value("x", ("N", 3)), value("scale", ())]
    file.outputs.append(value("y", ("N", 2)))
    file.constants({"w": A})
    file.add("MatMul", "x", "w", outputs=["h"])
    file.add("Mul", "h", "scale")
    path = file.write(folder / "s.onnx")
    x, y = np.load("x.npy")[:, 0], np.load("y.npy")[:, 0]

    def trainer(scale: float, **options: Any) -> odt.Trainer:
        model = odt.load_model(path, input_values={"scale": scale})
        return odt.Trainer(
            model, loss="mean_squared_error", batch_size=16, learning_rate=1e-3, **options
        )

    with trainer(2.0) as first:
        first.fit(x, y, epochs=1, save_to="c.odt")
    with (
        trainer(3.0, checkpoint="c.odt") as other,
        pytest.warns(odt.OdtWarning, match=r"input values scale=2.0, now scale=3.0"),
    ):
        other.fit(x, y, epochs=2)
    with trainer(2.0, checkpoint="c.odt") as same:
        same.fit(x, y, epochs=2)
        weights = same.model.parameters
    assert {*weights} == {"w"}
