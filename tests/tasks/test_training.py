"""Detectors learn boxes: losses, what trains, exports in LiteRT, refusals."""

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.datafiles import odt as run
from support.detectors import SIDE, grid_anchors, small_detector
from support.judges import litert
from support.square_photos import CLASSES, photos, saved

import odt
from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.flatbuffer.detection_postprocess import read_post_process
from odt.core.formats.reader import read_model
from odt.errors import DataError, OptionError
from odt.tasks.geometry import corners
from odt.tasks.matching import encode, match

pytestmark = pytest.mark.filterwarnings("ignore:.*training leaves out node")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(small_detector(len(CLASSES), seed=1))
    return path


def test_the_loss_is_that_of_ssd(model: Path) -> None:
    images, boxes = photos(5, 0)
    outputs = odt.predict(model, images)
    codes, scores = (np.asarray(a, np.float64) for a in outputs)
    anchors = grid_anchors()
    scales = np.array((10, 10, 5, 5))
    matches = [match(corners(anchors), rows[rows[:, 0] >= 0, 1:]) for rows in boxes]
    positives = np.mean([np.sum(m >= 0) for m in matches])
    total = 0.0
    for k, numbers in enumerate(matches):
        at = np.flatnonzero(numbers >= 0)
        targets = encode(boxes[k, numbers[at], 1:], anchors[at], scales)
        e = np.abs(codes[k, at] - targets)
        total += np.where(e < 1, e**2 / 2, e - 0.5).sum() / 4
        one_hot = np.zeros_like(scores[k])
        one_hot[at, 1 + boxes[k, numbers[at], 0].astype(int)] = 1  # column 0 is the background's
        q = np.where(one_hot == 1, scores[k], 1 - scores[k])
        total -= (np.where(one_hot == 1, 0.75, 0.25) * (1 - q) ** 2 * np.log(q)).sum()
    evaluation = odt.evaluate(model, images, boxes, task="boxes")
    assert evaluation.loss == pytest.approx(total / positives / len(images), rel=1e-5)


def test_a_detector_learns_and_its_export_is_a_drop_in(model: Path, tmp_path: Path) -> None:
    tests, path = photos(24, 2), tmp_path / "out.tflite"
    options: Any = {"trainable": odt.last(-1), "learning_rate": 0.01}
    with odt.Trainer(model, task="boxes", metrics=("map", "map50"), **options) as t:
        before = t.evaluate(*tests, verbose=0)
        t.fit(*photos(192, 1), epochs=20, seed=1)
        after = t.evaluate(*tests, verbose=0)
        t.export(path)
    assert after["loss"] < 0.5 * before["loss"]
    assert after["map50"] > before["map50"] + 0.6
    old, new = read_model(model), read_model(path)
    posts = read_post_process(old), read_post_process(new)
    assert posts[0] is not None
    assert posts[1] is not None
    assert posts[0].node == posts[1].node
    assert posts[0].anchors.tobytes() == posts[1].anchors.tobytes()
    for a, b in zip(old.graph.tensors, new.graph.tensors, strict=True):
        assert (a.name, a.spec) == (b.name, b.spec)
    detections = odt.evaluate(path, *tests, task="boxes").detections
    assert detections is not None
    boxes, classes, scores, _ = litert(path, [tests[0]])
    for k in range(len(tests[0])):
        best = detections.rows[k][0]
        assert scores[k, 0] == pytest.approx(best[1], abs=1e-5)
        assert boxes[k, 0] == pytest.approx(best[2:], abs=1e-4)
        assert classes[k, 0] == best[0]


def test_by_default_only_the_heads_train(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.tflite"
    with odt.Trainer(model, task="boxes", cache_frozen="ram") as trainer:
        history = trainer.fit(*photos(32, 1), epochs=3)
        trainer.export(path)
    losses = history.history["loss"]
    assert losses[-1] < losses[0]
    old, new = read_model(model).graph, read_model(path).graph
    outputs = {node.outputs[0]: node.inputs[1] for node in old.nodes if node.op == "CONV_2D"}
    values = [[np.asarray(graph.tensors[i].data) for graph in (old, new)] for i in outputs.values()]
    pairs = zip(outputs.values(), values, strict=True)
    changed = {i for i, (a, b) in pairs if not np.array_equal(a, b)}
    reshaped = {node.inputs[0] for node in old.nodes if node.op == "RESHAPE"}
    heads = {outputs[i] for i in reshaped}
    assert changed == heads
    assert len(outputs) == len(heads) + 3


def test_boxes_move_with_their_photos(tmp_path: Path) -> None:
    """Photos of which each right half is empty teach objects there, if they are flipped."""
    path = tmp_path / "m.tflite"
    path.write_bytes(cells())
    rng = np.random.default_rng(0)
    images = np.zeros((64, SIDE, SIDE, 3), np.float32)
    boxes = np.zeros((64, 1, 5), np.float32)
    for k, (y, x) in enumerate(rng.integers(0, (SIDE // 8, SIDE // 16), (64, 2)) * 8):
        images[k, y : y + 8, x : x + 8] = 1
        boxes[k, 0] = 0, y / SIDE, x / SIDE, (y + 8) / SIDE, (x + 8) / SIDE
    mirrored = images[:, :, ::-1].copy(), boxes.copy()
    mirrored[1][..., (2, 4)] = 1 - boxes[..., (4, 2)]
    with odt.Trainer(path, task="boxes", metrics="f1", learning_rate=3e-3) as trainer:
        trainer.fit(images, boxes, epochs=10, augment="flip", validation_data=mirrored)
        assert trainer.evaluate(*mirrored, verbose=0)["f1"] > 0.95


def test_weights_of_samples_multiply_those_of_positions(model: Path) -> None:
    images, boxes = photos(2, 0)
    one, other, both = (
        odt.evaluate(model, images, boxes, np.array(w, np.float32), task="boxes").loss
        for w in ((1, 0), (0, 1), (1, 3))
    )
    assert both == pytest.approx(one + 3 * other, rel=1e-5)


def test_the_command_finds_the_task_in_the_data(model: Path, tmp_path: Path) -> None:
    x, y = saved(tmp_path, "train", photos(20, 3))
    out = tmp_path / "out.tflite"
    files = ("--load-input", x, "--load-expected", y)
    exports = ("--epochs", 2, "--validation-split", 0.2, "--metric", "map", "--export-tflite", out)
    result = run("train", model, *files, *exports)
    assert result.exit_code == 0, result.output
    assert "detector: 160 anchors, 3 class slots, 10 detections\n" in result.stdout
    assert "classes: red in slot 0, green in slot 1, blue in slot 2\n" in result.stdout
    assert "val_map" in result.stdout
    evaluation = run("eval", out, *files, "--metric", "map50", "--per-class")
    assert evaluation.exit_code == 0, evaluation.output
    lines = evaluation.stdout.splitlines()
    assert "map50: " in lines[0]
    assert [line.split()[0] for line in lines[-3:]] == list(CLASSES)
    assert "red " in run("predict", out, "--load-input", x, "--min-score", 0).stdout


def test_classes_take_the_slots_of_their_names(model: Path, tmp_path: Path) -> None:
    x, y = saved(tmp_path, "train", photos(16, 3))
    with odt.Trainer(model, task="boxes") as trainer:
        trainer.fit(x, y)
        trainer.export(tmp_path / "first.tflite")
    other = saved(tmp_path, "other", photos(16, 4, classes=1), classes=["blue"])
    with odt.Trainer(tmp_path / "first.tflite", task="boxes") as trainer:
        trainer.fit(*other)
        assert trainer.session.detection is not None
        assert trainer.session.detection.classes_line() == "blue in slot 2"
        trainer.export(tmp_path / "second.tflite")
    result = run("predict", tmp_path / "second.tflite", "--load-input", x, "--min-score", 0)
    assert "blue " in result.stdout


def cells() -> bytes:
    """Returns a model of 4 × 4 cells, each of which sees its 8 × 8 pixels."""
    b = ModelBuilder("tflite", 3)
    x = b.add_input((1, SIDE, SIDE, 3))
    shape = (1, SIDE // 8, SIDE // 8, 16)
    w, bias = b.add_weight((16, 8, 8, 3), 192), b.add_constant(np.zeros(16, np.float32))
    x = b.add_operator(
        "CONV_2D", (x, w, bias), shape, stride_h=8, stride_w=8, fused_activation_function=1
    )
    shape = (*shape[:3], 1 + len(CLASSES))
    w, bias = b.add_weight((shape[3], 1, 1, 16), 16), b.add_constant(np.zeros(shape[3], np.float32))
    x = b.add_operator("CONV_2D", (x, w, bias), shape, stride_h=1, stride_w=1)
    return b.build(b.add_operator("SOFTMAX", (x,), shape, beta=1.0))


def test_cells_learn_centers(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(cells())
    tests = photos(24, 2)
    with odt.Trainer(path, task="boxes", metrics="f1", learning_rate=3e-3) as trainer:
        before = trainer.evaluate(*tests, verbose=0)["f1"]
        trainer.fit(*photos(128, 1), epochs=20, seed=1)
        after = trainer.evaluate(*tests, verbose=0)["f1"]
    assert after > max(0.7, before + 0.3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class": 3}, r"y: sample 1: classes must be whole numbers below 3, .*, but box 0 is 3"),
        ({"class": 0.5}, "sample 1: classes must be whole numbers"),
        ({"y2": 1.5}, "sample 1: boxes must be class, y1, x1, y2, x2 with y1 < y2 and x1 < x2"),
        ({"x1": 0.9, "x2": 0.9}, "sample 1: boxes must be class"),
        ({"y1": np.nan}, "sample 1: "),
    ],
)
def test_damaged_boxes_are_refused(model: Path, changes: Mapping[str, float], message: str) -> None:
    images, boxes = photos(3, 0)
    for name, value in changes.items():
        boxes[1, 0, ("class", "y1", "x1", "y2", "x2").index(name)] = value
    with odt.Trainer(model, task="boxes") as trainer, pytest.raises(DataError, match=message):
        trainer.fit(images, boxes, check_data=True)


def test_classes_that_the_data_do_not_name_are_refused(model: Path, tmp_path: Path) -> None:
    images, boxes = photos(3, 0, classes=1)
    other = boxes.copy()
    other[1, 0, 0] = 2  # the model has a slot for it
    one = saved(tmp_path, "one", (images, boxes), classes=["red"])
    rule = r"sample 1: classes must be whole numbers below 1, the number of classes, .* 0 is 2"
    with odt.Trainer(model, task="boxes") as trainer:
        trainer.fit(*one)
        with pytest.raises(DataError, match=rule):
            trainer.evaluate(images, other)
    wrong = saved(tmp_path, "wrong", (images, other), classes=["red"])
    with pytest.raises(DataError, match=rule):
        odt.evaluate(model, *wrong, task="boxes")


def test_a_warning_counts_boxes_without_rows_that_are_none(model: Path) -> None:
    images, boxes = photos(4, 0)
    rows = np.full((4, 20, 5), [-1, 0, 0, 0, 0], np.float32)
    rows[:, : boxes.shape[1]] = boxes
    with warnings.catch_warnings(record=True) as caught, odt.Trainer(model, task="boxes") as t:
        warnings.simplefilter("always")
        t.fit(images, rows)
    assert not [w for w in caught if "a photo has" in str(w.message)]
    rows[2, :11] = boxes[0, 0]
    with (
        odt.Trainer(model, task="boxes") as t,
        pytest.warns(odt.OdtWarning, match="y: a photo has 11 boxes, .* returns at most 10"),
    ):
        t.fit(images, rows)


def test_evaluations_between_epochs_leave_validation_as_it_is(model: Path) -> None:
    train, validation, test = photos(16, 1), photos(8, 2), photos(4, 3)
    options: Any = {"epochs": 2, "seed": 1, "validation_data": validation}

    class Tests(odt.Callback):
        def on_epoch_end(self, epoch: int, logs: Any) -> None:
            trainer.evaluate(*test)

    values = []
    for callbacks in ((), (Tests(),)):
        with odt.Trainer(model, task="boxes", metrics="map50") as trainer:
            history = trainer.fit(*train, callbacks=callbacks, **options)
            values.append(history.history["val_map50"])
    assert values[0] == values[1]


@pytest.mark.parametrize("boxes", [True, False])
def test_the_time_of_a_run_with_metrics_is_forecast(model: Path, boxes: bool) -> None:
    data = photos(32, 1) if boxes else ()
    length = None if boxes else 32
    options: Any = {"metrics": "map", "validation_split": 0.25, "data_length": length}
    forecast = odt.plan(model, *data, task="boxes", **options)
    assert forecast.time is not None


def test_batches_are_validated_on_boxes(model: Path) -> None:
    x, y = photos(16, 1)
    validation = photos(8, 2)
    batches = [(x[:8], y[:8]), (x[8:], y[8:])]
    with odt.Trainer(model, task="boxes", metrics="map50", batch_size=8) as trainer:
        history = trainer.fit(batches, validation_data=validation)
        assert history.history["val_map50"][-1] == trainer.evaluate(*validation)["map50"]


def test_metrics_that_batches_do_not_give_are_named(model: Path) -> None:
    x, y = photos(8, 1)
    with odt.Trainer(model, task="boxes", metrics="map50", batch_size=8) as trainer:
        calls: tuple[Callable[[], Mapping[str, float]], ...] = (
            lambda: trainer.train_on_batch(x, y),
            lambda: trainer.test_on_batch(x, y),
            lambda: trainer.evaluate([(x, y)]),
        )
        for call in calls:
            with pytest.warns(odt.OdtWarning, match="map50: not measured on batches"):
                assert set(call()) == {"loss"}
        with warnings.catch_warnings():
            warnings.simplefilter("error", odt.OdtWarning)
            assert "map50" in trainer.evaluate(x, y)


def test_targets_follow_the_data_that_train(model: Path, tmp_path: Path) -> None:
    """Data of an evaluation before the training do not change its loss."""
    images, boxes = photos(8, 1)
    crowded = np.repeat(boxes, 3, axis=1)
    crowded[:, :, 1:3] *= np.linspace(0.7, 1, crowded.shape[1], dtype=np.float32)[:, np.newaxis]
    data = saved(tmp_path, "train", (images, boxes))
    losses = []
    for before in ((), (images, crowded), (images, boxes)):
        with odt.Trainer(model, task="boxes", learning_rate=0.001) as trainer:
            if before:
                trainer.evaluate(*before)
            losses.append(trainer.fit(*data, seed=1).history["loss"][-1])
            assert trainer.session.detection is not None
            assert trainer.session.detection.names == CLASSES
    assert losses[0] == losses[1] == losses[2]


def test_other_data_and_models_are_refused(model: Path, tmp_path: Path) -> None:
    images, boxes = photos(3, 0)
    with odt.Trainer(model, task="boxes") as trainer:
        with pytest.raises(DataError, match=r"y: must hold boxes \(N, M, 5\), but a sample has"):
            trainer.fit(images, boxes[..., :4])
        with pytest.raises(DataError, match="must have the boxes of all 3 samples, but has"):
            trainer.fit(images, boxes[:2])
        with pytest.raises(DataError, match="must have the boxes of all 3 samples, but has"):
            trainer.fit(images, boxes[:0])
        with pytest.raises(OptionError, match=r"augment.*must keep boxes on their objects"):
            trainer.fit(images, boxes, augment="mixup")
    many = saved(tmp_path, "many", (images, boxes), classes=["a", "b", "c", "d"])
    with odt.Trainer(model, task="boxes") as trainer:
        with pytest.raises(DataError, match="at most 3 classes, those of the model, but got 4"):
            trainer.fit(*many)
        Path(f"{many[1]}.json").unlink()
        with pytest.raises(DataError, match="have the record that odt gen-datafile"):
            trainer.fit(*many)
    new = odt.NewData(str(tmp_path), f"{many[0]}.json")
    with pytest.raises(DataError, match="must be data files with boxes to evaluate a detector"):
        odt.evaluate(model, new, task="boxes")
    b = ModelBuilder("tflite")
    path = tmp_path / "dense.tflite"
    b.write(path, b.add_dense(b.add_input((1, 4)), 2))
    with pytest.raises(OptionError, match=r"task.*boxes need a model that ends in TFLite_Det"):
        odt.Trainer(path, task="boxes")


def test_a_checkpoint_keeps_its_options(model: Path, tmp_path: Path) -> None:
    data, path = photos(32, 1), tmp_path / "c.odt"
    with odt.Trainer(model, task="boxes", learning_rate=0.002, batch_size=8) as trainer:
        trainer.fit(*data, epochs=2)
        weights = {name: a.copy() for name, a in trainer.weights.items()}
    with odt.Trainer(model, task="boxes", learning_rate=0.002, batch_size=8) as trainer:
        trainer.fit(*data, epochs=1)
        trainer.save_checkpoint(path)
    with odt.Trainer(model, task="boxes", checkpoint=path) as trainer:
        assert trainer.session.recipe.info.batch_size == 8
        trainer.fit(*data, epochs=2)
        again = dict(trainer.weights)
    assert weights.keys() == again.keys()
    for name, a in weights.items():
        assert np.array_equal(a, again[name])


def test_check_reads_boxes(model: Path, tmp_path: Path) -> None:
    x, y = saved(tmp_path, "train", photos(8, 3))
    result = run(
        "check", model, "--load-input", x, "--load-expected", y, "--num-of-trainable-ops", -1
    )
    assert result.exit_code == 0, result.output
    assert "detector: 160 anchors, 3 class slots, 10 detections\n" in result.stdout
    assert "ok   finite differences: " in result.stdout
    assert result.stdout.endswith("The model can be trained.\n")


def test_plan_has_the_defaults_of_training(model: Path, tmp_path: Path) -> None:
    x, y = saved(tmp_path, "train", photos(8, 3))
    for words, caches in (
        (("--load-input", x, "--load-expected", y), True),
        (("--task", "boxes"), False),  # without a number of samples
        (("--task", "boxes", "--data-length", 8), True),
        (("--task", "boxes", "--data-length", 8, "--num-of-trainable-ops", -1), False),
    ):
        result = run("plan", model, *words, "--json")
        assert result.exit_code == 0, result.output
        numbers = json.loads(result.stdout)
        assert numbers["batch_size"] == 16
        assert (numbers["cache"] > 0) == caches


def test_metrics_of_boxes_are_those_of_the_detector(model: Path) -> None:
    data = photos(8, 3)
    assert list(odt.evaluate(model, *data, task="boxes").metrics) == ["map", "map50"]
    with (
        odt.Trainer(model, task="boxes", metrics="map") as trainer,
        pytest.warns(odt.OdtWarning, match="map: measured on validation samples alone"),
    ):
        trainer.fit(*data)
