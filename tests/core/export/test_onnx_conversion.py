"""Conversion of ONNX models to Circle and TFLite: names, operators, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.onnx_files import OnnxFile, value
from support.onnx_networks import NETWORKS
from support.onnx_outputs import compute

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model


def run(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [*map(str, args)])
    return result.exit_code, result.output


def chain(*kinds: str, size: int = 4) -> OnnxFile:
    """Nodes of one input and output, one after the other."""
    file = OnnxFile(18)
    file.inputs.append(value("the input", ("N", size)))
    file.outputs.append(value("the output", ()))
    names = ["the input", *(f"h{k}" for k in range(1, len(kinds))), "the output"]
    for k, kind in enumerate(kinds):
        file.add(kind, names[k], outputs=[names[k + 1]], name=f"{kind} {k}")
    return file


@pytest.mark.parametrize("kind", ["circle", "tflite"])
@pytest.mark.parametrize("name", NETWORKS)
def test_operators_are_those_of_tflite(name: str, kind: str, tmp_path: Path) -> None:
    net, out = NETWORKS[name](), tmp_path / f"out.{kind}"
    path = net.file.write(tmp_path / "m.onnx")
    status, text = run("convert", path, out)
    assert (status, f"{path} (onnx) is now {out} ({kind})") == (0, text.splitlines()[0]), text
    source, model = odt.load_model(path), odt.load_model(out)
    shapes = [", ".join(f"{t.name} {t.shape}" for t in ts) for ts in (source.inputs, model.outputs)]
    assert text.splitlines()[1] == f"layouts as in {path}: {shapes[0]} -> {shapes[1]}"
    assert model.format == kind
    assert [(t.name, t.dtype) for t in model.inputs] == [(t.name, t.dtype) for t in source.inputs]
    assert [t.name for t in model.outputs] == [t.name for t in source.outputs]
    (signature,) = read_model(out).signatures
    assert {*signature.inputs} == {t.name for t in source.inputs}
    assert {*signature.outputs} == {t.name for t in source.outputs}
    refused = {"RMS_NORM", "INSTANCE_NORM", "ROPE", "SWISH", "SPLIT_V"}
    operators = {node.operator for node in model.nodes}
    assert not {op for op in operators if op in refused or op.startswith(("CUSTOM", "ONNX"))}
    samples = net.samples(1)
    expected = compute(net.file, tmp_path, *samples)
    with odt.Trainer(model, loss=dict.fromkeys([t.name for t in model.outputs], "mse")) as trainer:
        outputs = trainer.predict(samples if len(samples) > 1 else samples[0])
    outputs = outputs if isinstance(outputs, list | tuple) else [outputs]
    for theirs, ours in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(theirs, ours.reshape(theirs.shape), rtol=1e-5, atol=1e-5)


def test_weights_keep_names_and_transposes_cancel(tmp_path: Path) -> None:
    """Images are transposed once, and 1 × 1 images after pooling not at all."""
    path = NETWORKS["convolutions"]().file.write(tmp_path / "m.onnx")
    odt.load_model(path).save(tmp_path / "m.tflite")
    model = odt.load_model(tmp_path / "m.tflite")
    assert {t.name for t in model.tensors} >= {"a", "b", "d", "w", "c"}
    assert [n.operator for n in model.nodes].count("TRANSPOSE") == 1


def test_all_operators_without_a_form_are_named(tmp_path: Path) -> None:
    path = chain("Erf", "Relu", "Erf").write(tmp_path / "m.onnx")
    status, text = run("convert", path, tmp_path / "m.tflite")
    assert status == 1
    assert text.count("\n") == 1
    assert 'node 0 "Erf 0" (Erf): no operators of TFLite compute it' in text
    assert 'node 2 "Erf 2" (Erf): no operators of TFLite compute it' in text
    assert "Relu" not in text
    assert not (tmp_path / "m.tflite").exists()


def test_an_export_is_refused_before_training(tmp_path: Path) -> None:
    file = OnnxFile(18)
    file.inputs.append(value("x", ("N", 4)))
    file.outputs.append(value("y", ("N", 4)))
    file.constants({"w": np.eye(4, dtype=np.float32)})
    file.add("Gemm", "x", "w", outputs=["h"])
    file.add("Erf", "h")
    path = file.write(tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((8, 4), np.float32))
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "x.npy")
    out = tmp_path / "t.tflite"
    status, text = run("train", path, *data, "--loss", "mse", "--export-tflite", out)
    assert (status, "no operators of TFLite compute it" in text) == (1, True), text
    assert "Epoch" not in text


def test_other_models_do_not_become_onnx(tmp_path: Path) -> None:
    path = tmp_path / "m.circle"
    odt.new_model("mlp", input_shape=(4,), outputs=2, hidden=(3,), file_format="circle").save(path)
    status, text = run("convert", path, tmp_path / "m.onnx")
    assert (status, "must end in .circle or .tflite, but got .onnx" in text) == (1, True), text
    with pytest.raises(odt.UnsupportedError, match=r"m.circle: must be an ONNX model to be writ"):
        odt.load_model(path).save(tmp_path / "m.onnx")
    assert text.count("\n") == 1


def test_unused_inputs_and_numbers_of_many_bits_stay(tmp_path: Path) -> None:
    """int64 inputs stay int64; ends beyond int32 of a slice are open ones."""
    file = OnnxFile(17)
    file.inputs += [value("i", ("N", 3), "int64"), value("unused", ("N", 2))]
    file.outputs.append(value("y", ()))
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    file.constants({"t": table, "b": np.array([1]), "e": np.array([2**62]), "a": np.array([2])})
    file.add("Gather", "t", "i", outputs=["h"])
    file.add("Slice", "h", "b", "e", "a")
    odt.load_model(file.write(tmp_path / "m.onnx")).save(tmp_path / "m.tflite")
    model = odt.load_model(tmp_path / "m.tflite")
    assert [(t.name, t.dtype.name) for t in model.inputs] == [("i", "int64"), ("unused", "float32")]
    types = {t.name: t.dtype for t in model.tensors}
    assert np.int64 not in [d for name, d in types.items() if name != "i"]
