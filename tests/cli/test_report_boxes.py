"""Reports and tables of detectors: figures are those of LiteRT's detections."""

import base64
import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.datafiles import odt
from support.detectors import SIDE, small_detector
from support.judges import litert
from support.square_photos import Photos, photos, saved

from odt.kernels.rows.opdef import Array

TESTS: Photos = photos(12, 5, classes=1)
LEAST = 0.5  # score of a detection that counts
Counts = tuple[int, int, int]  # true boxes, missed, false


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a detector of one class, for which LiteRT's suppression is odt's, and test data."""
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "m.tflite").write_bytes(small_detector(1, seed=1))
    x, y = saved(folder, "train", photos(96, 1, classes=1), classes=["<red>"])
    saved(folder, "test", TESTS, classes=["<red>"])
    words = ["--load-input", x, "--load-expected", y, "--metric", "map", "--epochs", 6]
    words += ["--learning-rate", 0.01, "--num-of-trainable-ops", -1, "--validation-split", 0.25]
    done = odt("train", folder / "m.tflite", *words, "--run-dir", folder / "run")
    assert done.exit_code == 0, done.output
    return folder


def files_of(folder: Path) -> list[object]:
    return [
        "--load-input",
        folder / "test.input.bin",
        "--load-expected",
        folder / "test.output.bin",
    ]


@pytest.fixture(scope="module")
def detections(folder: Path) -> list[Array]:
    """Boxes of LiteRT for each test photo, the best first."""
    boxes, _, scores, _ = litert(folder / "run" / "model.tflite", [TESTS[0]])
    return [b[s >= LEAST] for b, s in zip(boxes, scores, strict=True)]


def counts_of(detections: Array, rows: Array) -> Counts:
    """The counts of a photo: a detection takes the free box that it overlaps most."""
    free = [row[1:] for row in rows if row[0] >= 0]
    boxes, false = len(free), 0
    for d in detections:
        ious = []
        for b in free:
            sides = np.minimum(d[2:], b[2:]) - np.maximum(d[:2], b[:2])
            inner = np.prod(np.maximum(sides, 0))
            ious.append(inner / (np.prod(d[2:] - d[:2]) + np.prod(b[2:] - b[:2]) - inner))
        if ious and max(ious) >= 0.5:
            free.pop(int(np.argmax(ious)))
        else:
            false += 1
    return boxes, len(free), false


@pytest.fixture(scope="module")
def counts(detections: list[Array]) -> list[Counts]:
    return [*map(counts_of, detections, TESTS[1])]


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    out = folder / "report.html"
    done = odt("report", folder / "run", *files_of(folder), "--wrong", 5, "-o", out)
    assert done.exit_code == 0, done.output
    return out.read_text(encoding="utf-8")


def cells(text: str, table: str) -> list[list[str]]:
    content = re.search(rf'<table id="{table}">(.*?)</table>', text)
    assert content is not None
    return [re.findall("<td>(.*?)</td>", row) for row in content[1].split("<tr>")[2:]]


def test_classes_are_counted(folder: Path, text: str, counts: list[Counts]) -> None:
    boxes, missed, false = map(sum, zip(*counts, strict=True))
    assert 0 < missed < boxes
    assert false
    row, everything = cells(text, "classes")
    found = boxes - missed
    assert row[4:] == everything[4:] == [*map(str, (boxes, found, missed, false))]
    assert row[0] == "&lt;red&gt;"
    assert float(row[3]) == pytest.approx(2 * found / (2 * found + missed + false), abs=1e-4)
    done = odt("eval", folder / "run" / "model.tflite", *files_of(folder))
    printed = re.findall(r"map(?:50)?: (?:\[0\] )?([\d.]+)", done.stdout)
    assert [float(v) for v in row[1:3]] == pytest.approx([*map(float, printed)], abs=1e-4)


def test_the_photos_with_most_faults_come_first(text: str, counts: list[Counts]) -> None:
    figures = re.findall(r'<figure class="sample">(.*?)</figure>', text)
    order = sorted(range(len(counts)), key=lambda k: -counts[k][1] - counts[k][2])
    shown = [[int(v) for v in re.findall("<b>(.*?)</b>", figure)] for figure in figures]
    assert shown == [[k, *counts[k]] for k in order[:5]]


def test_photos_have_their_boxes_and_name_them(text: str, detections: list[Array]) -> None:
    figures = re.findall(r'<figure class="sample">(.*?)</figure>', text)
    for figure in figures:
        label = re.search('aria-label="sample ([0-9]+); true: (.*?); detected: (.*?)"', figure)
        assert label is not None
        k = int(label[1])
        true = TESTS[1][k][TESTS[1][k][:, 0] >= 0, 1:]
        assert label[2] == ", ".join(["&lt;red&gt;"] * len(true))
        words = re.findall(r"&lt;red&gt; [01]\.\d\d", label[3])
        assert len(words) == len(detections[k])
        assert words or label[3] == "nothing"
        for kind, boxes in (("true", true), ("detected", detections[k])):
            pattern = f'class="{kind}" x="(.*?)" y="(.*?)" width="(.*?)" height="(.*?)"'
            drawn = [[*map(float, values)] for values in re.findall(pattern, figure)]
            clipped = np.clip(boxes, 0, 1) * SIDE
            expected = [[x1, y1, x2 - x1, y2 - y1] for y1, x1, y2, x2 in clipped.tolist()]
            assert np.array(sorted(drawn)) == pytest.approx(np.array(sorted(expected)), abs=0.02)
        image = re.search('href="data:image/png;base64,(.*?)"', figure)
        assert image is not None
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(image[1]))))
        assert pixels.shape == (SIDE, SIDE, 3)
        a = TESTS[0][k]
        assert pixels == pytest.approx((a - a.min()) / (a.max() - a.min()) * 255, abs=1)


def test_the_page_has_a_chart_of_the_metric_and_no_folder(folder: Path, text: str) -> None:
    assert ">map</text>" in text
    assert str(folder) not in text
    rows = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    best = min(rows, key=lambda row: row["val_loss"])
    assert f"val_map at the best epoch<b>{best['val_map']:.4g}" in text


def test_a_run_that_has_not_ended_has_the_weights_of_its_best_epoch(
    folder: Path, tmp_path: Path
) -> None:
    for path in (folder / "run").iterdir():
        if path.name != "model.tflite":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    done = odt("report", tmp_path)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    best = min(row["val_loss"] for row in rows)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"24 validation samples, loss {best:.6g}, weights of best.odt." in text


def test_eval_lists_the_photos_with_most_faults(
    folder: Path, tmp_path: Path, counts: list[Counts]
) -> None:
    table, sheet = tmp_path / "samples.csv", tmp_path / "sheet.png"
    words = ("eval", folder / "run" / "model.tflite", *files_of(folder))
    done = odt(*words, "--wrong", 4, "--per-sample", table, "--sheet", sheet)
    assert done.exit_code == 0, done.output
    rows = [*csv.reader(table.read_text().splitlines())]
    assert rows[0] == ["sample", "boxes", "missed", "false", "loss"]
    assert [[*map(int, row[:4])] for row in rows[1:]] == [[k, *c] for k, c in enumerate(counts)]
    loss = re.search(r"loss: (?:\[0\] )?([\d.]+)", done.stdout)
    assert loss is not None
    assert np.mean([float(row[4]) for row in rows[1:]]) == pytest.approx(float(loss[1]), rel=1e-3)
    order = sorted(range(len(counts)), key=lambda k: -counts[k][1] - counts[k][2])[:4]
    lines = done.stdout.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith("sample "))
    assert [line.split() for line in lines[start + 1 : start + 5]] == [rows[1 + k] for k in order]
    assert f"{sheet}: these 4 samples with true boxes (dashed)" in done.stdout
    assert Image.open(sheet).size == (2 * 244 + 4, 2 * 258 + 4)


@pytest.mark.parametrize("option", [("--confusion",), ("--confusion-csv", "c.csv")])
def test_boxes_have_no_confusion_matrix(folder: Path, option: tuple[str, ...]) -> None:
    done = odt("eval", folder / "run" / "model.tflite", *files_of(folder), *option)
    assert done.exit_code == 1
    assert "--confusion, --confusion-csv: must be left out for boxes" in done.stderr
