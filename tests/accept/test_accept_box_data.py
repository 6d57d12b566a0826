"""Boxes of published photos: counts, and the same bytes from annotations in every format."""

import csv
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from support.accept_data import complete

pytestmark = pytest.mark.accept

CLASSES = ("Platelets", "RBC", "WBC")
PHOTOS, BOXES, MOST = 364, 4886, 30
EDGES = ("xmin", "ymin", "xmax", "ymax")


def run(*words: object) -> str:
    """Runs odt; returns what it prints."""
    command = [sys.executable, "-m", "odt", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the blood cells, with annotations of Pascal VOC and a table."""
    folder = tmp_path_factory.mktemp("cells")
    with zipfile.ZipFile(complete("data", "boxes", "bccd.zip")) as archive:
        archive.extractall(folder)
    return folder / "bccd"


def make(cells: Path, boxes: Path, out: Path) -> tuple[str, bytes]:
    """Makes all samples; returns what is printed, and the targets."""
    args = ("--source", cells / "BCCD/JPEGImages", "--boxes", boxes, "--split", "all=1.0")
    text = run("gen-datafile", *args, "--size", "32x32", "--dtype", "uint8", "-o", out)
    return text, (out / "all.output.bin").read_bytes()


def test_blood_cells_give_the_same_boxes_from_every_format(cells: Path, tmp_path: Path) -> None:
    text, targets = make(cells, cells / "BCCD/Annotations", tmp_path / "voc")
    array = np.frombuffer(targets, np.float32).reshape(PHOTOS, MOST, 5)
    assert np.count_nonzero(array[:, :, 0] >= 0) == BOXES
    line = "2 boxes without area left out: BloodImage_00338.jpg, BloodImage_00343.jpg."
    assert text.count(line) == 1
    assert make(cells, cells / "test.csv", tmp_path / "csv")[1] == targets
    write_others(cells, tmp_path)
    for form in ("coco", "yolo", "table"):
        assert make(cells, tmp_path / form, tmp_path / f"{form}-data")[1] == targets


def write_others(cells: Path, out: Path) -> None:
    """Writes the boxes as COCO, YOLO and the table of a tutorial."""
    for form in ("coco", "yolo", "table"):
        (out / form).mkdir()
    images: list[object] = []
    items: list[object] = []
    rows: list[list[object]] = []
    for number, path in enumerate(sorted((cells / "BCCD/Annotations").glob("*.xml"))):
        root = ElementTree.parse(path).getroot()
        width, height = (int(root.findtext(f"size/{n}") or 0) for n in ("width", "height"))
        photo = f"{path.stem}.jpg"
        images.append({"id": number, "file_name": photo, "width": width, "height": height})
        lines = []
        for item in root.iter("object"):
            name = item.findtext("name") or ""
            x1, y1, x2, y2 = edges = [int(item.findtext(f"bndbox/{n}") or 0) for n in EDGES]
            label, w, h = CLASSES.index(name), x2 - x1, y2 - y1
            items.append({"id": len(items), "image_id": number, "category_id": label + 1,
                          "bbox": [x1, y1, w, h], "iscrowd": 0})  # fmt: skip
            rows.append([photo, width, height, name, *edges])
            numbers = ((x1 + x2) / 2 / width, (y1 + y2) / 2 / height, w / width, h / height)
            lines.append(" ".join(map(repr, (label, *numbers))))
        (out / f"yolo/{path.stem}.txt").write_text("\n".join(lines))
    (out / "yolo/classes.txt").write_text("\n".join(CLASSES))
    categories = [{"id": k, "name": name} for k, name in enumerate(CLASSES, 1)]
    content = {"images": images, "annotations": items, "categories": categories}
    (out / "coco/instances.json").write_text(json.dumps(content))
    with open(out / "table/labels.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["filename", "width", "height", "class", *EDGES])
        writer.writerows(rows)


def test_lists_of_the_blood_cells_are_splits(cells: Path, tmp_path: Path) -> None:
    folder = cells / "BCCD"
    run("gen-datafile", "--source", folder, "--boxes", folder, "--size", "32x32", "-o", tmp_path)
    sizes = {s: (tmp_path / f"{s}.output.bin").stat().st_size for s in ("train", "test")}
    assert sizes == {"train": 205 * MOST * 20, "test": 72 * MOST * 20}


def test_raccoons_give_the_same_boxes_from_both_formats(tmp_path: Path) -> None:
    with zipfile.ZipFile(complete("data", "boxes", "raccoon.zip")) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "raccoon"
    for boxes in ("annotations", "data"):
        args = ("--source", folder / "images", "--boxes", folder / boxes, "--split", "all=1.0")
        text = run("gen-datafile", *args, "--size", "32x32", "-o", tmp_path / boxes)
        assert "all: 200 samples" in text
        assert "boxes: raccoon 217" in text
    first, second = (tmp_path / f"{boxes}/all.output.bin" for boxes in ("annotations", "data"))
    assert first.read_bytes() == second.read_bytes()
