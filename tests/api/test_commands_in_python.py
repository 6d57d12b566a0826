"""Python functions write the files and return the texts of the commands of their names."""

from pathlib import Path

import numpy as np
import pytest
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


@pytest.mark.parametrize("name", ["m.h5", "m.PT", "m.npz", "state.odt"])
def test_names_of_other_kinds_of_files_are_refused(name: str, tmp_path: Path) -> None:
    rule = r"`path=`: must end in \.tflite or \.circle or \.onnx, but got .*" + name
    with pytest.raises(odt.OptionError, match=rule):
        odt.load_model(RESNET).save(tmp_path / name)
    with odt.Trainer(RESNET) as trainer, pytest.raises(odt.OptionError, match=rule):
        trainer.export(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_suffixes_select_the_format_in_capitals_too(tmp_path: Path) -> None:
    with odt.Trainer(RESNET) as trainer:
        trainer.export(tmp_path / "M.CIRCLE")
        trainer.export(tmp_path / "m.bin")
    assert odt.load_model(tmp_path / "M.CIRCLE").format == "circle"
    assert odt.load_model(tmp_path / "m.bin").format == "tflite"


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


def test_write_circle_plus_reads_json_and_options(tmp_path: Path) -> None:
    json_path = tmp_path / "train.json"
    json_path.write_text(
        '{"optimizer": {"type": "sgd", "args": {"learningRate": 0.25}}, '
        '"loss": {"type": "mse"}, "batchSize": 4, "fineFuning": 2}'
    )
    run("circle-plus-gen", MLP, json_path, tmp_path / "command-plus.circle", "--batch-size", "8")
    with pytest.warns(odt.OdtWarning, match="fineFuning is read as fineTuning"):
        odt.write_circle_plus(MLP, tmp_path / "python-plus.circle", json_path, batch_size=8)
    assert same(tmp_path, "plus.circle")
    info = odt.read_training_info(tmp_path / "python-plus.circle")
    assert info is not None
    assert (info.optimizer, info.learning_rate, info.batch_size) == ("sgd", 0.25, 8)
    assert info.trainable_ops == (1, 2)
    odt.write_circle_plus(
        tmp_path / "python-plus.circle", tmp_path / "again.circle", trainable=odt.last(1)
    )
    again = odt.read_training_info(tmp_path / "again.circle")
    assert again is not None
    assert (again.learning_rate, again.batch_size, again.trainable_ops) == (0.25, 8, (2,))
    odt.remove_training_info(tmp_path / "again.circle", tmp_path / "plain.circle")
    assert (tmp_path / "plain.circle").read_bytes() == MLP.read_bytes()


def test_training_info_without_a_loss_gets_that_of_the_output(tmp_path: Path) -> None:
    path = tmp_path / "plus.circle"
    odt.write_circle_plus(MLP, path, odt.TrainingInfo(batch_size=7))
    info = odt.read_training_info(path)
    assert info is not None
    assert (info.loss, info.batch_size) == ("categorical_crossentropy", 7)


@pytest.mark.parametrize("suffix", [".npz", ".ckpt"])
def test_checkpoint_state_converts(suffix: str, tmp_path: Path) -> None:
    with odt.Trainer(MLP, optimizer="adam", batch_size=4) as trainer:
        x = np.ones((4, *trainer.model.inputs[0].shape[1:]), np.float32)
        trainer.train_on_batch(x, np.eye(4, trainer.model.outputs[0].shape[1], dtype=np.float32))
        trainer.save_checkpoint(tmp_path / "s.odt")
        trainer.save_checkpoint(tmp_path / "s.ckpt")
    command = tmp_path / f"command-c{suffix}"
    run("checkpoint", "convert", tmp_path / "s.odt", command, "--model", MLP)
    state = odt.CheckpointState.load(tmp_path / "s.odt")
    state.save(tmp_path / f"python-c{suffix}", trainable_only=False, model=MLP)
    assert same(tmp_path, f"c{suffix}")
    if suffix == ".ckpt":
        assert command.read_bytes() == (tmp_path / "s.ckpt").read_bytes()
    else:
        assert odt.CheckpointState.load(command).step == 1


def test_save_package(tmp_path: Path) -> None:
    run("package", MLP, "-o", tmp_path, "-p", "command")
    odt.load_model(MLP).save_package(tmp_path / "python")
    files = [
        {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        for folder in (tmp_path / "command", tmp_path / "python")
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 2
    assert odt.load_model(tmp_path / "python").format == "circle"


def test_report_and_compare_runs(tmp_path: Path) -> None:
    files = ("--load-input", MLP_SM / "input.bin", "--load-expected", MLP_SM / "expected.bin")
    for rate in ("0.01", "0.001"):
        line = ("train", MLP, *files, "--epochs", 2, "--validation-split", 0.25, "--lr", rate)
        run(*line, "--run-dir", tmp_path / "runs" / rate)
    listed = run("report", "--list", tmp_path / "runs", "--svg", tmp_path / "command-r.svg")
    comparison = odt.compare_runs(tmp_path / "runs")
    assert listed == f"{comparison}\n"
    comparison.save_svg(tmp_path / "python-r.svg")
    assert same(tmp_path, "r.svg")
    assert comparison.differences == ("learning-rate",)
    assert [each.path.name for each in comparison.runs] == ["0.001", "0.01"]
    with pytest.raises(
        odt.OptionError, match=r"`metric=`: must be one of learning_rate, loss, .*got f1"
    ):
        odt.compare_runs([tmp_path / "runs"], "f1")

    folder = tmp_path / "runs" / "0.01"
    run("report", folder, "-o", tmp_path / "command-r.html")
    steps: list[tuple[int, int]] = []
    record = odt.report(
        folder,
        out=tmp_path / "python-r.html",
        progress=lambda done, total: steps.append((done, total)),
    )
    assert same(tmp_path, "r.html")
    assert steps[-1][0] == steps[-1][1] > 0
    best = min(record.rows[1:], key=lambda row: row["val_loss"])
    assert (record.best, record.monitor) == (best, "val_loss")
    x = np.fromfile(MLP_SM / "input.bin", np.float32).reshape(-1, 784)[:6]
    y = np.fromfile(MLP_SM / "expected.bin", np.float32).reshape(-1, 10)[:6]
    odt.report(record, x, y, wrong=2)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "6 test samples" in page
    assert page.partition("Samples predicted right: ")[0].count("<figure") <= 2
    odt.report(record, odt.DataSet(x, y), wrong=2)
    assert (folder / "report.html").read_text(encoding="utf-8") == page
    with pytest.raises(odt.OptionError, match="`y=`: must be left out with a DataSet"):
        odt.report(folder, odt.DataSet(x, y), y)
    with pytest.raises(odt.OptionError, match="must be given together"):
        odt.report(folder, x)
    with pytest.raises(odt.OptionError, match="must be given together"):
        odt.report(folder, odt.DataSet(x))
    # Where a run began counts as a difference.
    recipe = folder / "recipe.toml"
    recipe.write_text('checkpoint = "first.odt"\n' + recipe.read_text())
    assert set(odt.compare_runs(tmp_path / "runs").differences) == {"checkpoint", "learning-rate"}
