"""Signatures, and shapes and values that the user gives to inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from click.testing import CliRunner
from model_builder import ModelBuilder
from support.judges import difference, litert
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.errors import OptionError, UnsupportedError

LINEAR = MODELS / "train-signature-linear.tflite"


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    """A model of sequences (1, T, 4) whose T the file leaves open."""
    model = ModelBuilder("tflite")
    x = model.add_input((1, 1, 4), name="sequence", signature=(-1, -1, 4))
    w, b = model.add_weight((3, 4), 4), model.add_constant(np.zeros(3, np.float32))
    y = model.add_operator("FULLY_CONNECTED", (x, w, b), (1, 1, 3), keep_num_dims=True)
    y = model.add_operator("TANH", (y,), (1, 1, 3))
    y = model.add_operator("SUM", (y, model.add_constant([1])), (1, 3))
    model.graph.tensors[y].shape_signature = [-1, 3]
    model.add_signature("serving_default", {"frames": x}, {"scores": y})
    model.write(tmp_path / "open.tflite", y)
    return tmp_path / "open.tflite"


@pytest.mark.parametrize("name", ["sequence", "frames", "0", ""])
def test_an_input_gets_another_shape(open_model: Path, name: str) -> None:
    x = np.random.default_rng(0).normal(size=(6, 7, 4)).astype(np.float32)
    model = odt.load_model(open_model, input_shapes={name: (1, 7, 4)})
    assert model.inputs[0].shape == (1, 7, 4)
    ours = odt.Trainer(model, loss="mean_squared_error").predict(x)
    assert difference(ours, litert(open_model, [x], [(1, 7, 4)])[0]) < 1e-6


def test_the_exported_file_can_be_resized_too(open_model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(6, 5, 4)).astype(np.float32)
    model = odt.load_model(open_model, input_shapes={"": (1, 5, 4)})
    trainer = odt.Trainer(model, loss="mean_squared_error", batch_size=6)
    trainer.fit(x, np.ones((6, 3), np.float32), epochs=3)
    trainer.export(tmp_path / "trained.tflite")
    theirs = litert(tmp_path / "trained.tflite", [x], [(1, 5, 4)])[0]
    assert difference(trainer.predict(x), theirs) < 1e-6
    assert difference(theirs, litert(open_model, [x], [(1, 5, 4)])[0]) > 1e-3


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"other": (1, 7, 4)}, "must name one of the inputs, sequence, but got other"),
        ({"": (7, 4)}, r"must give sizes above 0 for the 3 axes of tensor 0"),
        ({"": (1, 0, 4)}, r"but got \(1, 0, 4\)"),
        ({"": 7}, r"must give sizes above 0 for the 3 axes of tensor 0 .*, but got 7"),
        ({"": (1, 7.9, 4)}, r"but got \(1, 7\.9, 4\)"),
        ({"²": (1, 7, 4)}, "must name one of the inputs, sequence, but got ²"),
        ({"0": (1, 7, 4), "frames": (1, 8, 4)}, r"must give tensor 0 .* once, but got frames too"),
        ({"": (1, 2**30, 4000)}, "must fit into"),
    ],
)
def test_other_inputs_and_axes_are_refused(
    open_model: Path, shapes: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        odt.load_model(open_model, input_shapes=shapes)


@pytest.mark.parametrize("value", [0.1, [0.1], 3, np.inf])
def test_an_input_of_floats_takes_numbers_that_are_rounded(tmp_path: Path, value: Any) -> None:
    read = odt.load_model(scaled(tmp_path), input_values={"factor": value})
    (factor,) = (t.data for t in read._file.graph.tensors if t.name == "factor")
    assert factor is not None
    assert factor.tolist() == [np.float32(np.ravel(value)[0])]


@pytest.mark.parametrize("value", [np.nan, 1e39, [1, 2], "1", None])
def test_values_that_do_not_fit_an_input_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(OptionError, match=r'must be \(1,\) float32 for tensor 1 \("factor"\)'):
        odt.load_model(scaled(tmp_path), input_values={"factor": value})


def scaled(folder: Path) -> Path:
    """A model x · factor, with two inputs."""
    model = ModelBuilder("tflite")
    inputs = model.add_input((1, 4), name="x"), model.add_input((1,), name="factor")
    model.write(folder / "scaled.tflite", model.add_operator("MUL", inputs, (1, 4)))
    return folder / "scaled.tflite"


def test_a_shape_that_no_operator_accepts_is_refused(open_model: Path) -> None:
    model = odt.load_model(open_model, input_shapes={"": (1, 7, 5)})
    with pytest.raises(UnsupportedError, match="FULLY_CONNECTED"):
        odt.Trainer(model, loss="mean_squared_error").predict(np.ones((1, 7, 5), np.float32))


def run(*words: object) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.output + result.stderr


def test_commands_take_shapes_and_signatures(open_model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 7, 4), np.float32))
    np.save(tmp_path / "y.npy", np.ones((4, 3), np.float32))
    shape = ("--input-shape", "sequence=1x7x4", "--signature", "serving_default")
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    loss = ("--loss", "mean-squared-error", "--batch-size", 2)
    assert "(1, 7, 3)" in run("inspect", open_model, *shape)
    assert "The model can be trained." in run("check", open_model, *shape, *loss)
    assert "peak of the arena" in run("plan", open_model, *shape, *loss)
    assert "Error" not in run("predict", open_model, *shape, *data[:2])
    assert "loss" in run("eval", open_model, *shape, *data, *loss)
    out = tmp_path / "out.tflite"
    trained = run("train", open_model, *shape, *data, *loss, "--export-tflite", out)
    assert "Error" not in trained
    assert out.exists()
    recipe = run("train", open_model, *shape, *data, *loss, "--print-config")
    assert "sequence=1x7x4" in recipe


def test_messages_name_the_options(open_model: Path) -> None:
    output = run("inspect", open_model, "--input-shape", "other=1x7")
    assert "Error: --input-shape: must name one of the inputs" in output
    output = run("inspect", open_model, "--signature", "other")
    assert "--signature: must be one of the model's signatures, serving_default" in output
    assert "must be a shape such as 1x16000" in run("inspect", open_model, "--input-shape", "a")


def test_weights_in_variables_train_and_are_exported(tmp_path: Path) -> None:
    """The variables that a signature reads; the file stores them as what CALL_ONCE assigns."""
    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None]
    model = odt.load_model(LINEAR, signature="infer")
    assert set(model.parameters) == {"weight", "bias"}
    trainer = odt.Trainer(model, loss="mean_squared_error", optimizer="sgd", learning_rate=0.3)
    trainer.fit(x, 2 * x + 3, epochs=60)
    trainer.export(tmp_path / "trained.tflite")
    interpreter = Interpreter(str(tmp_path / "trained.tflite"))
    infer = interpreter.get_signature_runner("infer")
    theirs = np.concatenate([infer(x=x[k : k + 1])["output"] for k in range(len(x))])
    assert difference(trainer.predict(x), theirs) < 1e-6
    assert abs(theirs - (2 * x + 3)).max() < 0.01


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        (None, "that of the signature get_weights, which has no inputs"),
        ("train", "that of the signature train, which contains TensorFlow's own training"),
        ("set_weights", "signature set_weights, which contains TensorFlow's own training"),
    ],
)
def test_signatures_for_training_are_refused_with_a_remedy(
    signature: str | None, reason: str
) -> None:
    with pytest.raises(UnsupportedError, match=reason) as e:
        odt.Trainer(odt.load_model(LINEAR, signature=signature), loss="mean_squared_error").predict(
            np.ones((1, 1), np.float32)
        )
    assert "Give `signature=infer`" in str(e.value)
    chosen = ("--signature", signature) if signature else ()
    shown = run("check", LINEAR, "--loss", "mse", *chosen)
    assert "Give --signature infer" in shown
