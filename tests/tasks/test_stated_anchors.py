"""Detectors like BlazeFace, whose anchors the user states."""

from pathlib import Path

import numpy as np
import pytest
from support.blaze import ANCHORS, COUNT, SIDE, VALUES, small_blaze
from support.datafiles import odt as run
from support.judges import litert
from support.random_boxes import random_boxes
from support.square_photos import photos, saved

import odt
from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.reader import read_model
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array
from odt.tasks.average_precision import mean_average_precision
from odt.tasks.geometry import corners
from odt.tasks.matching import match
from odt.tasks.stated_anchors import StatedAnchorDetector, find_outputs, recognize


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(small_blaze())
    return path


def detector(classes: int = 1, text: str = ANCHORS) -> StatedAnchorDetector:
    return recognize(parse_model(memoryview(small_blaze(classes)), "m.tflite"), text)


def encoded(found: StatedAnchorDetector, boxes: Array) -> list[Array]:
    shapes = [(len(boxes), COUNT, n) for n in (VALUES, found.slots)]
    targets = [np.full(shape, 7, np.float32) for shape in shapes * 2]
    found.encode(boxes, targets)
    return targets


def test_anchors_are_those_of_mediapipe() -> None:
    """Centers in the order of the layers; sizes by hand from the formula of the calculator."""
    anchors = detector().anchors
    assert str(detector()) == f"{COUNT} anchors, 1 class slot"
    assert COUNT == 4 * 4 * 2 + 2 * 2 * 6
    # The second cell of the first row; then the cell below the first, after a row of four.
    assert anchors[2, :2] == pytest.approx((0.125, 0.375))
    assert anchors[8, :2] == pytest.approx((0.375, 0.125))
    assert anchors[32, :2] == pytest.approx((0.25, 0.25))
    first, second, third = 0.1484375, 0.1484375 + 0.6015625 / 3, 0.1484375 + 2 * 0.6015625 / 3
    assert anchors[:2, 2] == pytest.approx((first, (first * second) ** 0.5))
    sizes = second, (second * third) ** 0.5, third, (third * 0.75) ** 0.5, 0.75, 0.75**0.5
    assert anchors[32:38, 2] == pytest.approx(sizes)
    assert anchors[32:38, 3] == pytest.approx(sizes)
    assert not np.ptp(anchors[32:38, :2], axis=0).any()


def test_codes_are_pixels_and_decode_to_the_boxes() -> None:
    rng = np.random.default_rng(3)
    boxes = np.full((6, 4, 5), -1, np.float32)
    for rows in boxes:
        rows[:2] = random_boxes(rng, 2)
        rows[:2, 0] = rng.integers(0, 2, 2)
    found = detector(2).prepared((1, 0), 3.0)
    codes, classes, code_weights, class_weights = encoded(found, boxes)
    assert not codes[..., 4:].any()
    assert not code_weights[..., 4:].any()
    for k, rows in enumerate(boxes):
        matches = match(corners(found.anchors), rows[:2, 1:])
        assert ((matches >= 0) == (code_weights[k, :, 0] > 0)).all()
        for at in np.flatnonzero(matches >= 0):
            label, y1, x1, y2, x2 = rows[matches[at]].tolist()
            y, x = found.anchors[at, :2].tolist()
            center = (x1 + x2) / 2 - x, (y1 + y2) / 2 - y
            expected = np.array((*center, x2 - x1, y2 - y1)) * SIDE
            assert codes[k, at, :4] == pytest.approx(expected, abs=1e-4)
            assert classes[k, at, 1 - int(label)] == 1
    assert (class_weights == COUNT * 2 / 3).all()
    detections = found.decode([codes, np.where(classes == 1, 50, -50).astype(np.float32)])
    true = [rows[rows[:, 0] >= 0] for rows in boxes]
    assert mean_average_precision(detections, true).map == pytest.approx(1)


@pytest.mark.parametrize("classes", [1, 2])
def test_the_loss_counts_boxes_and_classes_alone(tmp_path: Path, classes: int) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(small_blaze(classes))
    images, boxes = photos(5, 0, classes)
    outputs = odt.predict(path, images)
    codes, logits = (np.asarray(a, np.float64) for a in outputs)
    found = detector(classes)
    total, positives = 0.0, 0
    for k, rows in enumerate(boxes):
        matches = match(corners(found.anchors), rows[rows[:, 0] >= 0, 1:])
        at = np.flatnonzero(matches >= 0)
        positives += len(at)
        targets = np.zeros_like(logits[k])
        for anchor in at:
            label, y1, x1, y2, x2 = rows[matches[anchor]].tolist()
            y, x = found.anchors[anchor, :2].tolist()
            box = ((x1 + x2) / 2 - x, (y1 + y2) / 2 - y, x2 - x1, y2 - y1)
            e = np.abs(codes[k, anchor, :4] * 10 / SIDE - 10 * np.array(box))
            total += np.where(e < 1, e**2 / 2, e - 0.5).mean()
            targets[anchor, int(label)] = 1
        p = 1 / (1 + np.exp(-logits[k]))
        q = np.where(targets == 1, p, 1 - p)
        total -= (np.where(targets == 1, 0.75, 0.25) * (1 - q) ** 2 * np.log(q)).sum()
    stated = odt.load_model(path, anchors=ANCHORS)
    loss = odt.evaluate(stated, images, boxes, task="boxes").loss
    assert loss == pytest.approx(total / positives, rel=1e-5)


def test_heads_learn_boxes_and_weights_of_points_stay(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.tflite"
    stated = odt.load_model(model, anchors=ANCHORS)
    with odt.Trainer(stated, task="boxes", learning_rate=0.01) as trainer:
        losses = trainer.fit(*photos(64, 1, 1), epochs=8, seed=1).history["loss"]
        trainer.export(path)
    assert losses[-1] < 0.8 * losses[0]
    old, new = read_model(model).graph, read_model(path).graph
    heads = 0
    for node in old.nodes:
        if node.op != "CONV_2D":
            continue
        pairs = [[np.asarray(g.tensors[i].data) for g in (old, new)] for i in node.inputs[1:]]
        for a, b in pairs:
            if len(a) == 24:
                assert a.tobytes() == b.tobytes()
            elif len(a) % VALUES == 0:
                rows, changed = (x.reshape(-1, VALUES, x[0].size) for x in (a, b))
                assert rows[:, 4:].tobytes() == changed[:, 4:].tobytes()
                assert not np.array_equal(rows[:, :4], changed[:, :4])
                heads += 1
    assert heads == 4
    images, _ = photos(3, 2, 1)
    for a, b in zip(litert(path, [images]), odt.predict(path, images), strict=True):
        assert a == pytest.approx(b, abs=1e-4)


def test_all_layers_learn_to_find_objects(model: Path) -> None:
    tests = photos(24, 2, 1)
    stated = odt.load_model(model, anchors=ANCHORS)
    options = {"trainable": odt.last(-1), "learning_rate": 0.01}
    with odt.Trainer(stated, task="boxes", metrics="map50", **options) as trainer:  # type: ignore[arg-type]
        before = trainer.evaluate(*tests, verbose=0)["map50"]
        trainer.fit(*photos(192, 1, 1), epochs=20, seed=1, augment="flip")
        after = trainer.evaluate(*tests, verbose=0)["map50"]
    assert after > before + 0.4


def test_the_file_that_training_writes_knows_its_anchors(model: Path, tmp_path: Path) -> None:
    files = saved(tmp_path, "train", photos(16, 3, 1), classes=["red"])
    given = ("--load-input", files[0], "--load-expected", files[1])
    out = tmp_path / "out.tflite"
    refused = run("train", model, *given)
    assert refused.exit_code == 1
    assert "--anchors: must be given, such as mediapipe:8,16,16,16" in refused.output
    stated = ("--anchors", ANCHORS)
    result = run("train", model, *stated, *given, "--epochs", 1, "--export-tflite", out)
    assert result.exit_code == 0, result.output
    assert f"detector: {COUNT} anchors, 1 class slot\n" in result.stdout
    evaluation = run("eval", out, *given, "--metric", "map")
    assert "map: " in evaluation.stdout
    assert "red " in run("predict", out, "--load-input", files[0], "--min-score", 0).stdout
    checked = run("check", model, *stated, *given)
    assert checked.exit_code == 0, checked.output
    assert "ok   finite differences" in checked.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mediapipe:8,16", f"must give the {COUNT} anchors of .*, which gives 20 or 40"),
        ("mediapipe:8,x", "must be mediapipe: and the strides of the layers"),
        ("mediapipe:0", "must be mediapipe: and the strides of the layers"),
        ("mediapipe:" + "8" * 5000, "must be mediapipe: and the strides of the layers"),
        ("8,16,16,16", "must be mediapipe: and the strides of the layers"),
    ],
)
def test_other_anchors_are_refused(model: Path, text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        odt.load_model(model, anchors=text)


def test_a_model_with_a_number_beside_is_no_detector() -> None:
    b = ModelBuilder("tflite")
    x = b.add_input((1, 8, 8, 3))
    axes = b.add_constant(np.arange(4, dtype=np.int32))
    number = b.add_operator("SUM", (x, axes), ())
    y = b.add_operator("RESHAPE", (x, b.add_constant(np.array((1, 48, 4), np.int32))), (1, 48, 4))
    assert find_outputs(parse_model(memoryview(b.build(y, number)), "m.tflite")) is None


def test_one_anchor_a_cell_is_recognized() -> None:
    """56 anchors are also those of seven layers of one cell each, with two anchors."""
    found = detector(text="mediapipe:" + ",".join(["16"] * 7))
    assert len(found.anchors) == COUNT
    assert found.anchors[:2, 2] == pytest.approx((0.1484375, (0.1484375 * 0.2486979) ** 0.5))
    single = detector(text="mediapipe:" + ",".join(["16"] * 14))
    assert len(single.anchors) == COUNT
    assert single.anchors[:2, 2] == pytest.approx((0.1484375, 0.1484375 + 0.6015625 / 13))


def test_other_losses_are_refused(model: Path) -> None:
    stated = odt.load_model(model, anchors=ANCHORS)
    with pytest.raises(OptionError, match="must be left out for a detector whose anchors"):
        odt.Trainer(stated, task="boxes", loss="mean_squared_error")
