"""ONNX files in personalization, artifacts and federations."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import classifier, first_weights, message

import odt
from odt import federated
from odt.core.formats.reader import read_model

CENTERS = 2 * np.random.default_rng(7).normal(size=(4, 6))
LOSS = "sparse_categorical_crossentropy"


def samples(count: int, classes: int = 3, seed: int = 0) -> tuple[Any, Any]:
    labels = (np.arange(count) % classes).astype(np.int32)
    noise = np.random.default_rng(seed).normal(size=(count, 6))
    return (CENTERS[labels] + noise).astype(np.float32), labels


def accuracy(path: Path) -> float:
    x, labels = samples(300, seed=9)
    with odt.Trainer(path, loss=LOSS) as trainer:
        return float(np.mean(trainer.predict(x).argmax(axis=1) == labels))


def external(folder: Path) -> Path:
    folder.mkdir()
    (folder / "w.data").write_bytes(first_weights().tobytes())
    return classifier(storage="external").write(folder / "m.onnx")


@pytest.mark.parametrize("end", ["softmax", "logits", "added"])
def test_a_classifier_is_personalized(tmp_path: Path, end: str) -> None:
    path, out = classifier(end).write(tmp_path / "m.onnx"), tmp_path / "new.onnx"
    before = accuracy(path)
    result = odt.personalize(path, samples(90), out=out, learning_rate=0.1)
    assert result.kept, result
    assert accuracy(out) > max(before, 0.8)
    old, new = (
        {t.name: t.data for t in read_model(p).graph.tensors if t.data is not None}
        for p in (path, out)
    )
    changed = {name for name, a in old.items() if not np.array_equal(a, new[name])}
    assert changed == {"w2", "b2"}
    again = odt.personalize(out, samples(30, seed=1))
    assert again.replayed == 60, "the store is that of the frozen layers"


def test_probabilities_that_a_file_changes_at_its_end_train_as_others(tmp_path: Path) -> None:
    """QuantizeLinear and DequantizeLinear are left out; the loss is that of the logits.

    So is ZipMap, with which files of scikit-learn end: its output is a sequence of mappings.
    """
    plain, rounded, named = classifier(), classifier(), classifier()
    named.nodes.pop()
    named.add("Softmax", "z", outputs=["p"], axis=1)
    named.outputs[:] = [message((1, "maps"), (2, message((4, b""))))]
    labels = {"classlabels_int64s": (0, 1, 2)}
    named.add("ZipMap", "p", outputs=["maps"], domain="ai.onnx.ml", **labels)
    rounded.nodes.pop()
    rounded.constants({"scale": np.float32(1 / 128)})
    rounded.add("Softmax", "z", outputs=["p"], axis=1)
    rounded.add("QuantizeLinear", "p", "scale", outputs=["q"])
    rounded.add("DequantizeLinear", "q", "scale")
    x, labels = samples(24)
    losses = []
    for name, file in (("plain", plain), ("rounded", rounded), ("named", named)):
        path = file.write(tmp_path / f"{name}.onnx")
        with odt.Trainer(path, learning_rate=0.1, batch_size=8) as trainer:
            history = trainer.fit(x, np.eye(3, dtype=np.float32)[labels], epochs=2)
            losses.append(history.history["loss"])
    assert losses[0] == losses[1] == losses[2]


def test_the_store_stays_with_the_format(tmp_path: Path) -> None:
    path = classifier().write(tmp_path / "m.onnx")
    with pytest.raises(
        odt.OptionError, match=r"`out=`: must have the format of the model and its store, onnx"
    ):
        odt.personalize(path, samples(40), out=tmp_path / "p.tflite")
    odt.load_model(path).save(tmp_path / "m.tflite")
    with pytest.raises(
        odt.OptionError, match=r"`out=`: must have the format of the model and its store, tflite"
    ):
        odt.personalize(tmp_path / "m.tflite", samples(40), out=tmp_path / "p.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.tflite"]


def test_classes_are_added_to_converted_files(tmp_path: Path) -> None:
    path = classifier().write(tmp_path / "m.onnx")
    before = path.read_bytes()
    with pytest.raises(odt.UnsupportedError, match=r"m.onnx: add_classes .* Convert it first"):
        odt.personalize(path, samples(40, classes=4))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("form", ["one file", "external data"])
def test_artifacts_hold_the_model_and_its_data(tmp_path: Path, form: str) -> None:
    if form == "one file":
        path = classifier().write(tmp_path / "m.onnx")
    else:
        path = external(tmp_path / "in")
    out = tmp_path / "device"
    x, y = samples(64)
    for _ in range(2):  # the second folder replaces the first
        odt.generate_artifacts(path, out, x=x, y=y, loss=LOSS, batch_size=16)
    names = {"model.onnx", "checkpoint.odt", "recipe.toml", "artifacts.json"}
    names |= {"w.data"} if form == "external data" else set()
    assert {p.name for p in out.iterdir()} == names
    assert (out / "model.onnx").read_bytes() == path.read_bytes()
    moved = Path(shutil.move(out, tmp_path / "moved"))
    with odt.Trainer.from_artifacts(moved) as trainer:
        before = trainer.evaluate(x, y)["loss"]
        trainer.fit(x, y, epochs=3)
        after = trainer.evaluate(x, y)["loss"]
        (tmp_path / "new").mkdir()
        trainer.export(tmp_path / "new/m.onnx")
    assert after < before
    with odt.Trainer(tmp_path / "new/m.onnx", loss=LOSS) as trainer:
        assert trainer.evaluate(x, y)["loss"] == pytest.approx(after, rel=1e-6)
    if form == "external data":
        (moved / "w.data").write_bytes(bytes(first_weights().nbytes))
        with pytest.raises(odt.ModelError, match=r"w.data: must be the file that was validated"):
            odt.Trainer.from_artifacts(moved)
        manifest = json.loads((moved / "artifacts.json").read_text())
        manifest["files"]["../w.data"] = manifest["files"].pop("w.data")
        (moved / "artifacts.json").write_text(json.dumps(manifest))
        with pytest.raises(odt.ModelError, match=r"artifacts.json: must be a manifest"):
            odt.Trainer.from_artifacts(moved)


def test_artifacts_refuse_data_in_other_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/w.data").write_bytes(first_weights().tobytes())
    data = classifier(storage="external").data().replace(b"w.data", b"deep/w.data"[:6])
    assert b"deep/w" in data
    (tmp_path / "deep/w").write_bytes(first_weights().tobytes())
    (tmp_path / "m.onnx").write_bytes(data)
    with pytest.raises(odt.OptionError, match=r"external data beside it .* but got deep/w"):
        odt.generate_artifacts(tmp_path / "m.onnx", tmp_path / "out", loss=LOSS)
    assert not (tmp_path / "out").exists()


def test_a_federation_trains_an_onnx_file(tmp_path: Path) -> None:
    path, state = classifier("logits").write(tmp_path / "m.onnx"), tmp_path / "f.odt"
    x, y = samples(120)

    def simulated(rounds: int, **files: Any) -> odt.Trainer:
        trainer = odt.Trainer(path, loss=LOSS, optimizer="sgd", learning_rate=0.05, batch_size=8)
        federated.simulate(trainer, x, y, clients=3, rounds=rounds, decay="none", **files)
        return trainer

    trainer = simulated(6)
    tensors = federated.tensors_of(trainer)
    assert {*tensors} == {"w1", "b1", "w2", "b2"}
    trainer.export(tmp_path / "f.onnx")
    assert accuracy(tmp_path / "f.onnx") > max(0.8, accuracy(path))
    simulated(2, save_to=state)
    for name, values in federated.tensors_of(simulated(6, checkpoint=state)).items():
        assert values.tobytes() == tensors[name].tobytes(), f"{name} after a resume"
