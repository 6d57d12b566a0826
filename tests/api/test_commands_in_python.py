"""Python functions write the files and return the texts of the commands of their names."""

from pathlib import Path

import numpy as np
from click.testing import CliRunner
from support.paths import MLP_SM, MODELS

import odt
from odt.cli.main import main

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
HYBRID = MODELS / "mlperf-tiny-kws-dscnn-hybrid.tflite"
MLP = MLP_SM / "model.circle"


def run(*arguments: object) -> str:
    """Runs a command; returns what it prints."""
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def same(folder: Path, name: str) -> bool:
    """Whether the command and Python wrote the same bytes."""
    return (folder / f"command-{name}").read_bytes() == (folder / f"python-{name}").read_bytes()


def test_save_converts_and_stores_float_weights(tmp_path: Path) -> None:
    run("convert", HYBRID, tmp_path / "command-a.circle")
    odt.load_model(HYBRID).save(tmp_path / "python-a.circle")
    assert same(tmp_path, "a.circle")
    run("convert", HYBRID, tmp_path / "command-b.tflite", "--export-weights", "float")
    odt.load_model(HYBRID).save(tmp_path / "python-b.tflite", float_weights=True)
    assert same(tmp_path, "b.tflite")
    before, after = (odt.load_model(p).tensors for p in (HYBRID, tmp_path / "python-b.tflite"))
    assert "int8" in {str(t.dtype) for t in before}
    assert "int8" not in {str(t.dtype) for t in after}


def test_cut_and_join(tmp_path: Path) -> None:
    run("cut", MLP, "--after", "3", "-o", tmp_path / "command-part.circle")
    odt.cut(MLP, after=3).save(tmp_path / "python-part.circle")
    assert same(tmp_path, "part.circle")
    part = tmp_path / "python-part.circle"
    with odt.Trainer(part, loss="mean_squared_error", batch_size=4) as trainer:
        x = np.ones((4, *trainer.model.inputs[0].shape[1:]), np.float32)
        trainer.fit(x, np.ones((4, *trainer.model.outputs[0].shape[1:]), np.float32))
        trainer.export(part)
        trained = len(trainer.weights)
    text = run("join", MLP, part, "-o", tmp_path / "command-whole.circle")
    changed = odt.join(MLP, [part], tmp_path / "python-whole.circle")
    assert changed == trained > 0
    assert f"with {changed} weights changed" in text
    assert same(tmp_path, "whole.circle")


def test_replace_head_shows_what_it_replaced(tmp_path: Path) -> None:
    lines: list[str] = []
    head = odt.replace_head(RESNET, 3, hidden=[8], after=None, seed=4, show=lines.append)
    head.save(tmp_path / "python-head.tflite")
    options = ("--classes", 3, "--hidden", 8, "--seed", 4)
    text = run("replace-head", RESNET, *options, "-o", tmp_path / "command-head.tflite")
    assert same(tmp_path, "head.tflite")
    last = [node.operator for node in head.nodes][-3:]
    assert last == ["FULLY_CONNECTED", "FULLY_CONNECTED", "SOFTMAX"]
    assert "as with `last=3`; `last=-1` trains all." in lines[2]
    assert lines[2].replace("`last=3`", "--num-of-trainable-ops 3").split(";")[0] in text
    assert lines[0].startswith("3 classes in place of tensor ")
    assert lines[0] in text


def test_quantize_prints_as_the_command(tmp_path: Path) -> None:
    x = np.random.default_rng(0).uniform(0, 1, (8, 32, 32, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for scheme in ("int8", "int8-weights"):
        out = tmp_path / "command-q.tflite"
        text = run(
            "quantize", RESNET, "--scheme", scheme, "--calibrate", tmp_path / "x.npy", "-o", out
        )
        quantized = odt.quantize(RESNET, x, scheme=scheme)
        quantized.model.save(tmp_path / "python-q.tflite")
        assert same(tmp_path, "q.tflite")
        assert text.splitlines()[1:] == str(quantized).splitlines()
        assert quantized.integer + len(quantized.real) == len(odt.load_model(RESNET).nodes)
    layers = odt.quantize(RESNET, x).layers
    names = {node.index: node.operator for node in odt.load_model(RESNET).nodes}
    assert layers
    assert all(names[layer.operator] == layer.op for layer in layers)
