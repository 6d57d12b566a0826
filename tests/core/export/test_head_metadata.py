"""Metadata of a model with a new head: what describes the input stays, class names change."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.judges import litert, random_inputs
from support.new_heads import classifier
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.core.export.exporter import add_training_info, export_model
from odt.core.formats.flatbuffer.tflite_metadata import (
    NAME,
    associated_file,
    read_metadata,
    read_record,
)
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.model.record import ENTRY, Record
from odt.core.model.training_info import METADATA_NAME, TrainingInfo
from odt.errors import OptionError

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
STEPS = ({"step": "color", "to": "rgb"}, {"step": "scale", "to": "-1..1"})
RECORD = Record("image", STEPS, tuple(f"old {k}" for k in range(10)))


def described(folder: Path) -> Path:
    """A network with a preprocessing record, TFLite Model Metadata and a file of class names."""
    path = folder / "old.tflite"
    export_model(read_model(RESNET), {}, path, record=RECORD)
    assert read_record(read_model(path)) == RECORD
    return path


def new_head(model: Path, path: Path, *options: object) -> Model:
    words = ["replace-head", model, "-o", path, *options]
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == 0, result.output
    return read_model(path)


def data(folder: Path, names: tuple[str, ...], **options: object) -> Path:
    rows = "\n".join(f"{k},{k * 7 % 13},{names[k % len(names)]}" for k in range(40))
    (folder / "t.csv").write_text(f"a,b,y\n{rows}\n")
    words = ["gen-datafile", "--source", folder / "t.csv", "--split", "train=1.0"]
    result = CliRunner().invoke(main, [str(w) for w in [*words, "--out-dir", folder / "d"]])
    assert result.exit_code == 0, result.output
    return folder / "d" / "train.input.bin"


def test_class_names_of_the_old_output_are_removed(tmp_path: Path) -> None:
    new = new_head(described(tmp_path), tmp_path / "new.tflite", "--classes", 3)
    record = read_record(new)
    assert record is not None
    assert (record.kind, record.steps, record.classes) == ("image", STEPS, ())
    content = read_metadata(new)
    old = read_metadata(read_model(tmp_path / "old.tflite"))
    assert content is not None
    assert old is not None
    (graph,), (before,) = content["subgraph_metadata"], old["subgraph_metadata"]
    assert repr(graph["input_tensor_metadata"]) == repr(before["input_tensor_metadata"])
    assert graph["output_tensor_metadata"] == [{"name": b"head/probabilities"}]
    assert b"PK\5\6" not in bytes(new.data)
    x = random_inputs(RESNET, 1)
    np.testing.assert_allclose(litert(tmp_path / "new.tflite", x)[0].sum(), 1, rtol=1e-5)


def test_class_names_come_from_the_data(tmp_path: Path) -> None:
    like = data(tmp_path, ("cat", "dog", "Grüße"))
    new = new_head(described(tmp_path), tmp_path / "new.tflite", "--like", like)
    record = read_record(new)
    assert record is not None
    names = ("Grüße", "cat", "dog")
    assert record.classes == names
    assert labels_of(new) == list(names)
    assert new.graph.nodes[-1].op == "SOFTMAX"
    assert new.graph.tensors[new.graph.outputs[0]].spec.shape == (1, 3)
    x = random_inputs(RESNET, 1)
    assert litert(tmp_path / "new.tflite", x)[0].shape == (1, 3)


def labels_of(model: Model) -> list[str]:
    """The names of the classes of the only output, from its file of labels."""
    content = read_metadata(model)
    assert content is not None
    (output,) = content["subgraph_metadata"][0]["output_tensor_metadata"]
    (file,) = output["associated_files"]
    return associated_file(model, file["name"].decode()).decode().splitlines()


def test_named_classes_become_labels_of_a_file_without_metadata(tmp_path: Path) -> None:
    """They stay in the file's copies, and after training on data without names."""
    path, circle = tmp_path / "new.tflite", tmp_path / "new.circle"
    new = new_head(RESNET, path, "--classes", "cat,dog,Grüße")
    assert labels_of(new) == ["cat", "dog", "Grüße"]
    assert read_record(new) is None  # nothing is known of the input
    (x,) = random_inputs(RESNET, 4)
    assert litert(path, [x])[0].shape == (4, 3)
    assert labels_of(new_head(RESNET, circle, "--classes", "cat,dog,Grüße")) == labels_of(new)
    trainer = odt.Trainer(path, batch_size=4)
    trainer.fit(x, np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], epochs=1)
    trainer.export(tmp_path / "trained.tflite")
    assert labels_of(read_model(tmp_path / "trained.tflite")) == labels_of(new)


def test_class_names_without_a_place_are_refused(tmp_path: Path) -> None:
    circle, out = tmp_path / "m.circle", tmp_path / "new.tflite"
    odt.load_model(RESNET).save(circle)
    for model, options, rule in [
        (circle, ("--classes", "a,b"), "must be a number for .*, which is Circle without"),
        (
            RESNET,
            ("--classes", "a,b", "--activation", "linear"),
            "must be a number with activation linear",
        ),
        (RESNET, ("--classes", "a,a"), "must be different names"),
    ]:
        words = ["replace-head", str(model), "-o", str(out), *options]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 1
        assert re.search(f"Error: --classes: {rule}", result.stderr), result.stderr
        assert not out.exists()


def test_signatures_name_the_new_output(tmp_path: Path) -> None:
    model, x, y = classifier()
    z = model.add_dense(
        model.add_operator("RESHAPE", (y, model.add_constant([1, 240])), (1, 240)), 3
    )
    model.add_signature("serve", {"image": x}, {"scores": z, "map": y})
    model.write(tmp_path / "m.tflite", z, y)
    new = new_head(tmp_path / "m.tflite", tmp_path / "new.tflite", "--classes", 2, "--after", 1)
    from_litert = pytest.importorskip("ai_edge_litert.interpreter")
    runner = from_litert.Interpreter(str(tmp_path / "new.tflite")).get_signature_runner("serve")
    found = runner(image=np.ones((1, 6, 5, 3), np.float32))
    assert list(found) == ["scores"]
    assert found["scores"].shape == (1, 2)
    assert new.signatures[0].key == "serve"


def test_training_info_is_removed_and_other_entries_stay(tmp_path: Path) -> None:
    model, _, y = classifier()
    model.identifier = b"CIR0"
    y = model.add_operator("RESHAPE", (y, model.add_constant([1, 240])), (1, 240))
    y = model.add_operator("SOFTMAX", [model.add_dense(y, 3)], (1, 3), beta=1.0)
    model.add_metadata("min_runtime_version", b"1.5.0\0")
    model.write(tmp_path / "m.circle", y)
    info = TrainingInfo(loss="categorical_crossentropy")
    add_training_info(read_model(tmp_path / "m.circle"), info, tmp_path / "plus.circle")
    assert METADATA_NAME in read_model(tmp_path / "plus.circle").metadata
    new = new_head(tmp_path / "plus.circle", tmp_path / "new.circle", "--classes", 2)
    assert set(new.metadata) == {"min_runtime_version"}
    assert bytes(new.buffer(new.metadata["min_runtime_version"])) == b"1.5.0\0"


def test_a_trained_new_head_says_its_classes(tmp_path: Path) -> None:
    """One data file, one new head, one training: the export has names and preprocessing."""
    like = data(tmp_path, ("no", "yes"))
    odt.new_model("mlp", input_shape=(2,), outputs=5).save(tmp_path / "m.tflite")
    new_head(tmp_path / "m.tflite", tmp_path / "new.tflite", "--like", like, "--hidden", "4")
    words = ["train", tmp_path / "new.tflite", "--load-input", like, "--load-expected"]
    words += [str(like).replace("input", "output"), "--export-tflite", tmp_path / "out.tflite"]
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == 0, result.output
    out = read_model(tmp_path / "out.tflite")
    record = read_record(out)
    assert record is not None
    assert record.classes == ("no", "yes")
    assert {ENTRY, NAME} <= set(out.metadata)


def test_a_head_follows_from_targets(tmp_path: Path) -> None:
    x = np.ones((6, 2), np.float32)
    model = odt.new_model("mlp", input_shape=(2,), outputs=5)
    values = np.linspace(0, 3, 6, dtype=np.float32)[:, None]
    assert odt.replace_head(model, like=(x, values)).nodes[-1].operator == "FULLY_CONNECTED"
    either = odt.replace_head(model, like=(x, (values > 1).astype(np.float32)))
    assert either.nodes[-1].operator == "LOGISTIC"
    for options in ({}, {"classes": 2, "like": (x, values)}):
        with pytest.raises(OptionError, match="one of them must be given"):
            odt.replace_head(model, **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="one axis"):
        odt.replace_head(model, like=(x, np.ones((6, 2, 2), np.float32)))


def test_a_new_head_trains_alone_until_it_is_trained(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(32, 6)).astype(np.float32)
    y = np.eye(3, dtype=np.float32)[np.arange(32) % 3]
    base = odt.new_model("mlp", input_shape=(6,), outputs=4, hidden=(8, 5))
    model = odt.replace_head(base, 3, hidden=(4,))
    head = {f"head/{k}" for k in ("hidden1/weights", "hidden1/bias", "weights", "bias")}
    with odt.Trainer(model) as trainer:
        assert set(trainer.weights) == head
        with pytest.warns(odt.OdtWarning, match="new last layers alone train"):
            trainer.fit(x, y)
        trainer.export(tmp_path / "trained.tflite")
    every = set(model.parameters)
    assert len(every) == 8
    for options in ({"trainable": odt.last(-1)}, {"trainable": odt.select("*")}):
        with odt.Trainer(model, **options) as trainer:  # type: ignore[arg-type]
            assert set(trainer.weights) == every
    with odt.Trainer(tmp_path / "trained.tflite") as trainer:
        assert set(trainer.weights) == every


def test_one_spelling_trains_all_of_a_new_head(tmp_path: Path) -> None:
    x, y = np.ones((4, 6), np.float32), np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]
    base = odt.new_model("mlp", input_shape=(6,), outputs=4, hidden=(5,), file_format="circle")
    odt.replace_head(base, 3).save(tmp_path / "m.circle")
    x.tofile(tmp_path / "x.bin")
    y.tofile(tmp_path / "y.bin")
    for options, count in (
        (["--load_input:raw", "x.bin", "--load_expected:raw", "y.bin"], -1),
        (["--load-input", "x.bin", "--load-expected", "y.bin"], 2),
    ):
        words = [str(tmp_path / w) if w.endswith(".bin") else w for w in options]
        line = ["train", str(tmp_path / "m.circle"), *words, "--epochs", "1", "--batch_size", "2"]
        result = CliRunner().invoke(main, line)
        assert result.exit_code == 0, result.output
        assert f"num_of_trainable_ops = {count}\n" in result.output
