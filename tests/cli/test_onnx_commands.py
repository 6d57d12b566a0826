"""Commands on ONNX files: those that take them, and those that do not yet."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.onnx_files import OnnxFile, mlp, value

from odt.cli.main import main
from odt.core.formats.reader import read_model

LOSS = ("--loss", "mean-squared-error")


def run(*args: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, [*map(str, args)])
    return result.exit_code, result.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    mlp().write(tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.standard_normal((32, 6)).astype(np.float32))
    np.save("y.npy", rng.standard_normal((32, 3)).astype(np.float32))
    return tmp_path


def test_a_model_is_inspected_checked_planned_trained_and_evaluated(folder: Path) -> None:
    data = ("--load-input", "x.npy", "--load-expected", "y.npy", *LOSS)
    for args, words in (
        (("inspect", "m.onnx"), "ONNX:MatMul"),
        (("check", "m.onnx", *LOSS), "The model can be trained."),
        (("plan", "m.onnx", *LOSS), "peak of the arena"),
        (("train", "m.onnx", *data, "--epochs", "2", "--export-onnx", "t.onnx"), "Epoch 2"),
        (("eval", "t.onnx", *data), "32 samples - loss"),
        (("predict", "t.onnx", "--load-input", "x.npy"), "31: "),
    ):
        status, text = run(*args)
        assert (status, words in text) == (0, True), text
    assert (folder / "t.onnx").stat().st_size == (folder / "m.onnx").stat().st_size
    assert (folder / "t.onnx").read_bytes() != (folder / "m.onnx").read_bytes()


def test_weights_are_selected_by_names_and_kinds(folder: Path) -> None:
    """A misspelled name is answered with similar ones, several together."""
    data = ("--load-input", "x.npy", "--load-expected", "y.npy", *LOSS)
    status, text = run("train", "m.onnx", *data, "--trainable", "Gemm", "--export-onnx", "t.onnx")
    assert status == 0, text
    old, new = ({t.name: t.data for t in read_model(n).graph.tensors} for n in ("m.onnx", "t.onnx"))
    changed = {name for name, a in old.items() if a is not None and (a != new[name]).any()}
    assert changed == {"w1", "b1"}
    status, text = run("train", "m.onnx", *data, "--epochs", "1")
    assert (status, "nothing will be written. Give --export-onnx, --exp" in text) == (0, True), text
    wrong = ("--trainable", "gem", "--freeze", "B2")
    status, text = run("train", "m.onnx", *data, *wrong)
    words = "but got gem, B2, which match none. Similar names: Gemm, ONNX:Gemm, b2"
    assert (status, words in text) == (1, True), text
    status, text = run("train", "m.onnx", *data, "--learning-rate-of", "W2=0.1")
    assert (status, "got W2, which matches none. Similar names: w2" in text) == (1, True), text


def test_all_operators_that_cannot_be_trained_are_named(folder: Path) -> None:
    """With name, domain, kind and opset; not those that only wait for others."""
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 3)))
    file.outputs.append(value("y", ("N", 2)))
    file.constants({"w": np.ones((3, 2), np.float32)})
    file.add("Fancy", "x", outputs=["a"], domain="com.example", name="first")
    file.add("Relu", "a", outputs=["b"])
    file.add("Plain", "b", outputs=["c"])
    file.add("MatMul", "c", "w")
    file.write(folder / "n.onnx")
    for command in ("check", "plan"):
        status, text = run(command, "n.onnx", *LOSS)
        assert status == 1
        assert 'node 0 "first" (com.example.Fancy): is not supported (com.example, opset 0)' in text
        assert "node 2 (Plain): is not supported (ai.onnx, opset 17)" in text
        assert "Relu" not in text


def test_a_federation_is_simulated_and_exported(folder: Path) -> None:
    data = ("--load-input", "x.npy", "--load-expected", "y.npy", *LOSS)
    simulate = ("fed", "simulate", "--model", "m.onnx", *data, "--clients", "2", "--rounds", "1")
    status, text = run(*simulate, "--export-onnx", "t.onnx")
    assert (status, "Round 1/1 - 2 of 2 clients" in text) == (0, True), text
    assert (folder / "t.onnx").stat().st_size == (folder / "m.onnx").stat().st_size
    assert (folder / "t.onnx").read_bytes() != (folder / "m.onnx").read_bytes()
    status, text = run(*simulate, "--export-onnx", "m.tflite")
    assert (status, "must have an extension that fits onnx" in text) == (1, True), text


@pytest.mark.parametrize(
    "args",
    [
        ("cut", "m.onnx", "--before", "h", "--output", "out.circle"),
        ("join", "m.onnx", "m.onnx", "--output", "out.circle"),
        ("package", "m.onnx"),
        ("quantize", "m.onnx", "--calibrate", "x.npy", "--output", "out.tflite"),
        ("replace-head", "m.onnx", "--classes", "2", "--output", "out.tflite"),
        ("circle-plus-gen", "m.onnx"),
        ("circle-plus-gen", "m.onnx", "--loss", "mse", "out.circle"),
    ],
)
def test_commands_that_take_no_onnx_file_say_so(folder: Path, args: Sequence[str]) -> None:
    status, text = run(*args)
    assert status == 1
    assert "m.onnx: " in text
    assert (
        "takes Circle and TFLite models, but got onnx. Convert it first with odt convert." in text
    )
    assert text.count("\n") == 1
    assert not list(folder.glob("out*"))


def test_a_trained_onnx_file_is_exported_in_all_formats(folder: Path) -> None:
    data = ("--load-input", "x.npy", "--load-expected", "y.npy", *LOSS)
    paths = {kind: f"t.{kind}" for kind in ("circle", "tflite", "onnx")}
    exports = [word for kind, path in paths.items() for word in (f"--export-{kind}", path)]
    status, text = run("train", "m.onnx", *data, *exports)
    assert status == 0, text
    results = {run("eval", path, *data)[1].split("loss")[-1] for path in paths.values()}
    assert len(results) == 1
    status, text = run("train", "m.onnx", *data, "--export-circleplus", "p.circle")
    assert (status, "must be left out for m.onnx, of the format onnx" in text) == (1, True), text
    status, text = run("train", "t.circle", *data, "--export-onnx", "p.onnx")
    assert (status, "must be left out for t.circle" in text) == (1, True), text
    assert not list(folder.glob("p.*"))
