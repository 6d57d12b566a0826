"""odt.personalize: new classes and few samples, replay, rollback, power loss."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.power_loss import power_loss

import odt
from odt.cli.main import main
from odt.core.data.sidecar import Sidecar
from odt.core.training.feature_store import read_store
from odt.kernels.rows.opdef import TensorSpec
from odt.personalization.personalization import improves

CENTERS = 3 * np.random.default_rng(7).normal(size=(5, 8))
NAMES = ("ant", "bee", "cat", "dog", "elk")


def samples(labels: Any, seed: int = 1) -> tuple[Any, Any]:
    """Samples (N, 8) of classes that overlap a little."""
    rng, labels = np.random.default_rng(seed), np.asarray(labels)
    x = CENTERS[labels] + rng.normal(size=(len(labels), 8)) * 1.5
    return x.astype(np.float32), labels


TRAIN, TEST = samples(np.arange(600) % 3), samples(np.arange(500) % 5, seed=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of three classes, and its store."""
    folder = tmp_path_factory.mktemp("trained")
    model = odt.new_model("mlp", input_shape=(8,), outputs=3, hidden=(32,), seed=1)
    with odt.Trainer(model, learning_rate=0.01, loss="sparse_categorical_crossentropy") as trainer:
        trainer.fit(TRAIN[0], TRAIN[1].astype(np.int32), epochs=5, seed=1)
        trainer.export(folder / "m.tflite")
    result = odt.personalize(folder / "m.tflite", TRAIN, epochs=0, classes=NAMES[:3])
    assert not result.kept
    assert result.stored == 60
    return folder


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "device")) / "m.tflite"


def store_of(model: Path) -> Path:
    return Path(f"{model}.features.npz")


def recall(model: Path, classes: int) -> list[float]:
    with odt.Trainer(model, loss="categorical_crossentropy") as trainer:
        predicted = trainer.predict(TEST[0]).argmax(axis=1)
    return [float(np.mean(predicted[TEST[1] == k] == k)) for k in range(classes)]


def test_new_classes_are_learned_and_old_ones_kept(model: Path) -> None:
    before = recall(model, 3)
    for k in (3, 4):
        result = odt.personalize(model, samples([k] * 15, seed=k), classes=None)
        assert result.kept, result
        assert result.new_classes == (str(k),)
        assert result.before == {"accuracy": 0, "loss": float("inf")}
        assert "accuracy 0.0000, loss infinite (new classes) before" in str(result)
    after = recall(model, 5)
    assert min(after) > 0.7, after
    assert np.mean(before) - np.mean(after[:3]) < 0.15
    with pytest.warns(odt.OdtWarning, match="classes 0, 1, 2, 3: no sample is given or stored"):
        odt.personalize(
            model, samples([4] * 15, seed=9), store=model.with_name("none"), held_back=0,
            epochs=100, learning_rate=0.01,
        )  # fmt: skip
    assert np.mean(recall(model, 5)) < np.mean(after) - 0.15, "without the store it forgets"


def test_a_few_samples_of_known_classes(model: Path) -> None:
    """The user's samples of one class are shifted; the model follows them."""
    x, y = samples(np.arange(60) % 3, seed=4)
    moved = (x + 4 * np.eye(8, dtype=np.float32)[0] * (y == 0)[:, None], y)
    result = odt.personalize(model, moved)
    assert result.kept
    assert result.before is not None
    assert result.after is not None
    assert result.after["loss"] < result.before["loss"]
    assert (result.held_back, result.replayed, result.new_classes) == (12, 60, ())
    assert result.classes == NAMES[:3], "names come from the store"


def test_names_are_matched_in_any_order(model: Path) -> None:
    x, y = samples([0] * 9 + [3] * 9 + [2] * 9)
    names = np.array(NAMES)[y]
    result = odt.personalize(model, (x, names))
    assert result.classes == ("ant", "bee", "cat", "dog")
    one_hot = np.eye(2, dtype=np.float32)[[0] * 9 + [1] * 9]
    x, _ = samples([4] * 9 + [1] * 9)
    again = odt.personalize(model, odt.DataSet(x, one_hot), classes=("elk", "bee"))
    assert again.classes == NAMES
    assert [c.seen for c in read_store(store_of(model)).classes] == [209, 209, 209, 9, 9]


def test_names_replace_numbers(model: Path) -> None:
    store_of(model).unlink()
    odt.personalize(model, TRAIN, epochs=0)
    assert read_store(store_of(model)).names == ("0", "1", "2")
    with pytest.raises(odt.OptionError, match="the 3 classes of the model, whose names are not kn"):
        odt.personalize(model, (samples([3] * 9)[0], ["dog"] * 9))
    odt.personalize(model, TRAIN, epochs=0, classes=NAMES[:3])
    assert odt.personalize(model, (samples([3] * 9)[0], ["dog"] * 9)).classes == NAMES[:4]


BETTER = [((0.5, 1.0), (0.6, 2.0), True), ((0.5, 1.0), (0.5, 0.9), True)]
WORSE = [((0.5, 1.0), (0.4, 0.9), False), ((0.5, 1.0), (0.5, 1.0), False)]
NEW_CLASS = [((0.0, np.inf), (0.0, 2.0), False), ((0.0, np.inf), (0.1, 2.0), True)]


@pytest.mark.parametrize(("before", "after", "expected"), BETTER + WORSE + NEW_CLASS)
def test_what_is_better(
    before: tuple[float, float], after: tuple[float, float], expected: bool
) -> None:
    old, new = (dict(zip(("accuracy", "loss"), each, strict=True)) for each in (before, after))
    assert improves(old, new) is expected


def test_a_model_that_is_not_better_is_rolled_back(model: Path) -> None:
    before = model.read_bytes(), store_of(model).read_bytes()
    result = odt.personalize(model, samples(np.arange(600) % 3, seed=5), learning_rate=1e3)
    assert not result.kept
    assert result.rolled_back == "the held-back samples do not improve"
    assert f"{model} is not written" in str(result)
    assert (model.read_bytes(), store_of(model).read_bytes()) == before


def test_forgetting_is_rolled_back(model: Path) -> None:
    before = model.read_bytes()
    x, _ = samples([0] * 30)
    wrong = (x, np.full(30, 3))  # a new class that looks like an old one
    result = odt.personalize(model, wrong, forgetting=0.05)
    assert result.rolled_back == "the model forgets"
    assert model.read_bytes() == before
    assert odt.personalize(model, wrong, forgetting=1).kept


def test_the_same_seed_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    files = []
    for name in ("a.tflite", "b.tflite"):
        odt.personalize(model, samples([3] * 12), out=tmp_path / name, seed=5)
        files.append(((tmp_path / name).read_bytes(), store_of(tmp_path / name).read_bytes()))
    assert files[0] == files[1]
    assert len(read_store(store_of(model)).classes) == 3, "with `out` the model's store stays"


@pytest.mark.parametrize("sampling", ["reservoir", "herding"])
def test_the_store_is_bounded(model: Path, sampling: Any) -> None:
    limit = 3000
    result = odt.personalize(
        model, samples([3] * 40), samples_per_class=10, store_bytes=limit, sampling=sampling
    )
    assert result.store_nbytes == store_of(model).stat().st_size <= limit
    assert {len(c) for c in read_store(store_of(model)).classes} == {result.stored // 4}
    assert 1 <= result.stored // 4 <= 10


@pytest.mark.usefixtures("training_alone")
def test_memory_is_planned_within_a_budget(model: Path) -> None:
    result = odt.personalize(model, samples([3] * 12), memory_budget="16MB")
    assert 60 * 32 * 4 < result.memory < 16e6
    with pytest.raises(odt.OptionError, match="memory_budget"):
        odt.personalize(model, samples([3] * 12), memory_budget=1000)


def test_nothing_is_held_back_of_two_samples(model: Path) -> None:
    result = odt.personalize(model, samples([3] * 2))
    assert (result.kept, result.held_back, result.before) == (True, 0, None)
    assert "no new sample held back" in str(result)
    figures = {"accuracy": 0.5, "loss": 1.0}
    one = replace(result, held_back=1, before=figures, after=figures)
    assert "\n1 new sample held back: accuracy 0.5000" in str(one)


def test_model_and_store_are_two_files(model: Path, tmp_path: Path) -> None:
    with pytest.raises(odt.OptionError, match="`store=`: must be another file than the model"):
        odt.personalize(model, samples([3] * 9), out=tmp_path / "a", store=tmp_path / "a")
    inputs, _ = samples([3] * 9)
    with pytest.raises(
        odt.OptionError, match=r"must be inputs and labels \(x, y\), a DataSet or Ne"
    ):
        odt.personalize(model, inputs)


def test_it_warns_of_classes_that_may_be_forgotten(model: Path) -> None:
    store_of(model).unlink()
    with pytest.warns(odt.OdtWarning, match="classes 1, 2: no sample is given or stored"):
        odt.personalize(model, samples([0] * 12 + [3] * 12))


def test_a_store_of_other_layers_is_refused(model: Path) -> None:
    other = odt.new_model("mlp", input_shape=(8,), outputs=3, hidden=(32,), seed=2)
    other.save(model)
    with pytest.raises(odt.DataError, match="must hold features of the frozen layers of"):
        odt.personalize(model, samples([0] * 12))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"held_back": 1}, "held_back"),
    ({"forgetting": -1}, "forgetting"),
    ({"sampling": "all"}, "sampling"),
    ({"samples_per_class": 0}, "samples_per_class"),
    ({"epochs": 0}, "epochs"),
    ({"store_bytes": 100}, "store_bytes"),
    ({"store_bytes": "many"}, "`store_bytes=`: must be a size"),
    ({"classes": ("ant",)}, "classes"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options(model: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(odt.OdtError, match=message):
        odt.personalize(model, samples([3] * 12), **options)


Y = np.zeros(4, np.int64)
BAD_LABELS = [
    (Y + 5, "new classes must have samples"),
    (Y - 1, "must be whole numbers"),
    (Y + 0.5, "must be whole numbers"),
    (Y[:3], "a class for each of the 4 samples"),
    (np.ones((4, 3)), "must be one-hot"),
    (np.zeros((4, 3, 2)), "must be labels"),
    (Y[:0], "holds none"),
    (np.array([], str), "holds none"),
    (np.array([object()] * 4), "must be labels"),
]


@pytest.mark.parametrize(("y", "message"), BAD_LABELS)
def test_bad_labels(model: Path, y: Any, message: str) -> None:
    with pytest.raises(odt.DataError, match=message):
        odt.personalize(model, (samples([0] * 4)[0], y))


@pytest.mark.parametrize("scheme", ["int8", "int16x8", "int8-weights", "int4-weights", "float16"])
def test_quantized_models_are_judged_as_eval_judges_them(
    model: Path, tmp_path: Path, scheme: Any
) -> None:
    """Accuracy and loss before and after are those of the model files, by `odt eval`."""
    new = tmp_path / "new.tflite"
    odt.quantize(model, TRAIN[0], scheme=scheme).model.save(model)
    store_of(model).unlink()
    x, y = samples(np.arange(300) % 3, seed=5)
    x += np.float32(3) * (y == 0)[:, None]
    result = odt.personalize(model, (x, y), held_back=0.5, learning_rate=0.01, out=new)
    assert result.kept, result
    assert result.held_back == 150
    rng, held = np.random.default_rng(0), []
    for k in range(3):  # drawn as the documentation of `held_back` says, by seed
        held.append(rng.permutation(np.flatnonzero(y == k))[:50])
    numbers = np.concatenate(held)
    np.save(tmp_path / "x.npy", x[numbers])
    np.save(tmp_path / "y.npy", y[numbers])
    files = "--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy"
    for file, figures in ((model, result.before), (new, result.after)):
        words = "--loss", "sparse-categorical-crossentropy", "--metric", "accuracy"
        said = CliRunner().invoke(main, list(map(str, ("eval", file, *files, *words)))).output
        loss, accuracy = map(float, re.findall(r"\] ([0-9.]+)", said))
        assert figures is not None
        assert figures["accuracy"] == pytest.approx(accuracy, abs=1e-4)
        assert figures["loss"] == pytest.approx(loss, abs=2e-3)


def test_features_of_integer_models_are_stored_as_real_numbers(model: Path) -> None:
    """A second run replays them as it replays those of the float model."""
    float_store = read_store(store_of(model))
    odt.quantize(model, TRAIN[0]).model.save(model)
    with pytest.raises(odt.DataError, match="was made for other layers"):
        odt.personalize(model, TRAIN, epochs=0)
    store_of(model).unlink()
    odt.personalize(model, TRAIN, epochs=0)
    for real, rounded in zip(float_store.classes, read_store(store_of(model)).classes, strict=True):
        assert np.abs(real.mean - rounded.mean).max() < 0.02 * np.abs(real.mean).max()
    result = odt.personalize(model, samples(np.arange(30) % 3, seed=8), epochs=1, held_back=0)
    assert result.replay_before is not None
    assert result.replay_before["accuracy"] > 0.8


def test_classes_beside_a_data_file_are_found_by_name(model: Path, tmp_path: Path) -> None:
    """Labels 0 and 1 of the file are cat and bee; the model's classes are ant, bee and cat."""
    store_of(model).unlink()
    x, y = samples([2, 1] * 6)
    np.save(tmp_path / "y.npy", (y == 1).astype(np.int32))
    spec = TensorSpec((), np.dtype(np.int32))
    beside = tmp_path / "y.npy.json"
    beside.write_text(Sidecar((spec,), 12, ("cat", "bee")).to_json())
    np.save(tmp_path / "x.npy", x)
    files = odt.DataSet(tmp_path / "x.npy", tmp_path / "y.npy")
    with pytest.raises(odt.OptionError, match=r"must have the classes beside .*cat, bee"):
        odt.personalize(model, files, epochs=0, classes=("ant", "bee", "dog"))
    odt.personalize(model, files, epochs=0, classes=NAMES[:3])
    store = read_store(store_of(model))
    assert [(c.name, c.seen) for c in store.classes] == [("ant", 0), ("bee", 6), ("cat", 6)]
    raw = tmp_path / "x.bin"
    raw.write_bytes(x.tobytes() + b"rest")
    longer = odt.DataSet(raw, tmp_path / "y.npy", ignore_rest=True)
    assert odt.personalize(model, longer, epochs=0, classes=NAMES[:3]).samples == 12


def test_power_loss_leaves_a_whole_model_and_a_usable_store(model: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(model.parent, old)

    def run() -> odt.Personalization:
        return odt.personalize(model, samples([3] * 12), epochs=1, held_back=0, forgetting=1)

    with power_loss() as moments:
        run()
    shutil.copytree(model.parent, new)
    models = [(folder / "m.tflite").read_bytes() for folder in (old, new)]
    found = []
    for chosen in range(moments.count):
        for path in old.iterdir():
            shutil.copy(path, model.parent)
        with power_loss(chosen) as cut:
            run()
        assert cut.count > chosen
        found.append(models.index(model.read_bytes()))
        classes = len(read_store(store_of(model)).classes)
        assert classes in (3, 4) if found[-1] == 0 else classes == 4, "never less than the model"
        if classes == 4 and not found[-1]:
            with pytest.warns(odt.OdtWarning, match="stored samples of 3 are left out"):
                again = run()
        else:
            again = run()
        assert again.new_classes == (() if found[-1] else ("3",))
    assert set(found) == {0, 1}, "the power was cut before and after the model was renamed"
    left = {model.name, store_of(model).name}
    assert set(os.listdir(model.parent)) == left, "the next run removes temporary files"
