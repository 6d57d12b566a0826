"""What each format of annotations may hold beside plain boxes, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.box_files import (
    CLASSES,
    expected,
    write_coco,
    write_createml,
    write_csv,
    write_edge_impulse,
    write_model_maker,
    write_photos,
    write_voc,
    write_yolo,
)
from support.datafiles import made, refused, samples, sidecar

from odt.datasets.boxes.box_source import open_with_boxes
from odt.datasets.picture_files import decode_picture
from odt.datasets.tree import open_tree
from odt.errors import DataError

ALL = ("--source", "p", "--boxes", "b", "--split", "all=1.0", "--no-shuffle", "--size", "8x8")


@pytest.fixture(autouse=True)
def _photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has photos in p."""
    monkeypatch.chdir(tmp_path)
    write_photos(Path("p"))


def run(*args: object) -> str:
    """Makes all samples; returns what is printed."""
    return made(*ALL, *args, "-o", "o").output


def fault(*args: object) -> str:
    """Returns the error of a run."""
    return refused(*ALL, *args, "-o", "f")


def targets() -> np.ndarray:
    return samples(Path("o/all.output.bin"))


def edit(path: str, change: Callable[[Any], object]) -> None:
    """Changes the value of a JSON file."""
    content = json.loads(Path(path).read_text())
    change(content)
    Path(path).write_text(json.dumps(content))


def test_coco_leaves_out_crowds_and_polygons_alone() -> None:
    write_coco(Path("b"))
    box = {"image_id": 88, "category_id": 3, "bbox": [1, 1, 5, 5]}
    extra = [
        {**box, "id": 901, "iscrowd": 1, "segmentation": {"size": [16, 16], "counts": [256]}},
        {**box, "id": 902, "bbox": []},
        {"id": 903, "image_id": 88, "category_id": 3, "segmentation": [[1, 1, 5, 1, 5, 5]]},
        {**box, "id": 904, "attributes": {"rotation": 30.5}},
        {**box, "id": 905, "bbox": [1, 1, 0, 5]},
    ]
    edit("b/instances.json", lambda c: c["annotations"].extend(extra))
    lines = run().splitlines()
    for text in ("1 box without area", "1 crowd", "3 polygons or rotated boxes"):
        assert sum(f": {text} left out: c.png" in line for line in lines) == 1
    assert np.array_equal(targets(), expected())


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda c: c["annotations"][0].update(image_id=5), "annotation 0: must have an image_id"),
        (lambda c: c["annotations"][0].update(category_id=5), "must have a category_id of categ"),
        (
            lambda c: c["annotations"][0].update(category_id=[]),
            "category_id of categories, but has",
        ),
        (lambda c: c["images"][0].update(id=[1]), "images must have an id each, but got [1]"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 3]), "must have four finite coordinates"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 3, 1e999]), "must have four finite"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 3, 10**400]), "must have four finite"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 3, True]), "must have four finite"),
        (lambda c: c["images"][0].update(width=41), "must state the size of the photo"),
        (lambda c: c["images"][0].update(file_name="z.png"), "1 annotation is of none: b/inst"),
        (lambda c: c["images"].append(c["images"][0]), "images must have an id each, but got 90"),
        (lambda c: c["categories"].append({"id": 5, "name": "dog"}), "must name each class once"),
        (lambda c: c.update(images=[]), "annotation 0: must have an image_id of images"),
        (lambda c: c.update(images={}), "images must be a list of objects"),
    ],
)
def test_wrong_coco_is_refused(change: Callable[[Any], object], rule: str) -> None:
    write_coco(Path("b"))
    edit("b/instances.json", change)
    line = fault()
    assert rule in line
    assert "b/instances.json" in line or "b: " in line


def test_files_of_coco_are_splits_by_name() -> None:
    write_coco(Path("b"))
    content = json.loads(Path("b/instances.json").read_text())
    Path("b/instances.json").unlink()
    for name, keep in (("train2017", (90, 87)), ("val2017", (89, 88))):
        part = {
            **content,
            "images": [i for i in content["images"] if i["id"] in keep],
            "annotations": [a for a in content["annotations"] if a["image_id"] in keep],
        }
        Path(f"b/instances_{name}.json").write_text(json.dumps(part))
    made("--source", "p", "--boxes", "b", "--size", "8x8", "-o", "o")
    assert np.array_equal(samples(Path("o/train.output.bin")), expected()[[0, 3]])
    assert np.array_equal(samples(Path("o/validation.output.bin")), expected()[[1, 2]])
    edit("b/instances_val2017.json", lambda c: c["categories"].pop())
    assert "must have the categories of the other files, ant, cat, dog" in fault()


def test_annotations_beside_photos_of_the_same_name() -> None:
    """As Roboflow writes COCO: each split has a folder with photos and one file."""
    write_coco(Path("b"))
    for split in ("train", "valid"):
        write_photos(Path("r") / split)
        edit("b/instances.json", lambda c: [i.update(file_name=i["file_name"][-5:])
                                            for i in c["images"]])  # fmt: skip
        Path("r", split, "_annotations.coco.json").write_text(Path("b/instances.json").read_text())
    made("--source", "r", "--boxes", "r", "--size", "8x8", "--no-shuffle", "-o", "o")
    for split in ("train", "validation"):
        assert np.array_equal(samples(Path(f"o/{split}.output.bin")), expected())


@pytest.mark.parametrize(
    "text",
    [
        "names: [ant, 'cat', \"dog\"]\n",
        "names: ['ant', 'cat',\n  'dog']  # all\nnc: 3\n",
        "nc: 3\nnames: {2: dog, 0: ant, 1: cat}\n",
        "names:\n- ant\n- 'cat'\n- \"dog\"\nval: x\n",
        "names:\n  0: ant\n  # two more\n\n  1: cat\n  2: dog\nroboflow:\n  version: 3\n",
    ],
)
def test_yaml_names_classes(text: str) -> None:
    write_yolo(Path("b"))
    Path("b/data.yaml").write_text(text)
    run()
    assert sidecar(Path("o/all.output.bin"))["boxes"]["classes"] == [*CLASSES]
    assert np.array_equal(targets(), expected())


@pytest.mark.parametrize("text", ["names: 3\n", "names: {0: ant, 2: cat}\n", "names: []\n",
                                  "names:\n  ant: 0\n", "names: [a, b\n"])  # fmt: skip
def test_other_yaml_is_refused(text: str) -> None:
    write_yolo(Path("b"))
    Path("b/data.yaml").write_text(text)
    assert "b/data.yaml: names must be a list, or a mapping" in fault()


def test_yolo_classes_by_a_list_or_an_option() -> None:
    write_yolo(Path("b"))
    Path("b/data.yaml").unlink()
    assert "b: classes must have names, but are numbers" in fault()
    run("--classes", "ant,cat,dog")
    assert np.array_equal(targets(), expected())
    Path("b/labels/classes.txt").write_text("ant\ncat\ndog\n")
    run()
    assert np.array_equal(targets(), expected())
    run("--classes", "dog,cat,ant")
    assert np.array_equal(targets(), expected(("dog", "cat", "ant")))


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("3 0.5 0.5 0.1 0.1", "line 2: must have a class number below 3, but has 3"),
        ("-1 0.5 0.5 0.1 0.1", "line 2: must be a class number and four numbers"),
        ("dog 0.5 0.5 0.1 0.1", "line 2: must be a class number and four numbers"),
        ("0 0.5 0.5 0.1 0.1 0.9", "line 2: must be a class number and four numbers"),
        ("0 0.5 0.5 0.1 nan", "line 2: must have four finite coordinates"),
        ("0 0.9 0.5 0.5 0.1", "line 2: must be inside the photo, 0 … 1, but has x 0.65 … 1.15"),
        ("0 0.5 0.5 1e-9 0.1", "line 2: must have an area, but has x 0.5 … 0.5 and y 0.45 … 0.55"),
    ],
)
def test_wrong_lines_of_yolo_are_refused(line: str, rule: str) -> None:
    write_yolo(Path("b"))
    Path("b/labels/c.txt").write_text(f"0 0.5 0.5 0.1 0.1\n{line}\n")
    error = fault()
    assert "b/labels/c.txt: " in error
    assert rule in error


def test_yolo_leaves_out_polygons() -> None:
    write_yolo(Path("b"))
    Path("b/labels/c.txt").write_text("0 0.1 0.1 0.2 0.1 0.2 0.2\n1 0 0 1 0 1 1 0 1\n")
    assert "2 polygons or rotated boxes left out: c.png, c.png." in run()
    assert np.array_equal(targets(), expected())


def test_a_table_may_have_fractions_of_open_images() -> None:
    rows = [
        f"{name},x,{label},1,{x1 / w!r},{x2 / w!r},{y1 / h!r},{y2 / h!r}"
        for name, w, h, label, x1, y1, x2, y2 in (
            ("a", 40, 30, "dog", 4, 3, 20, 15), ("b", 24, 48, "cat", 6, 12, 18, 36))
    ]  # fmt: skip
    header = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax"
    Path("b").mkdir()
    Path("b/boxes.csv").write_text("\n".join([header, *rows]))
    note = "2 photos without an annotation in b, taken as without boxes: c.png, d.png."
    assert note in run("--classes", "ant,cat,dog")
    assert np.array_equal(targets()[:, 0], [*expected()[:2, 0], [-1, 0, 0, 0, 0],
                                            [-1, 0, 0, 0, 0]])  # fmt: skip


def test_sets_of_model_maker_are_splits() -> None:
    rows = [f"{s},{n}.png,dog,0,0,,,0.5,0.25,," for s, n in
            (("TRAIN", "a"), ("VALIDATION", "b"), ("TEST", "c"), ("TRAIN", "d"))]  # fmt: skip
    Path("all.csv").write_text("\n".join(rows))
    made("--source", "p", "--boxes", "all.csv", "--size", "8x8", "-o", "o")
    counts = {s: len(samples(Path(f"o/{s}.output.bin"))) for s in ("train", "validation", "test")}
    assert counts == {"train": 2, "validation": 1, "test": 1}
    assert samples(Path("o/test.output.bin")).tolist() == [[[0, 0, 0, 0.25, 0.5]]]


def test_rows_of_tables_are_named() -> None:
    write_csv(Path("b"))
    text = Path("b/labels.csv").read_text()
    for row, rule in (
        ("c.png,16,16,dog,1,x,2,2", "line 8: must have four finite coordinates, but has 1, x"),
        ("c.png,16,16,,1,1,2,2", "line 8: must have a class"),
        ("c.png,15,16,dog,1,1,2,2", "must state the size of the photo"),
        ("z.png,16,16,dog,1,1,2,2", "1 annotation is of none: b/labels.csv: z.png"),
        (",16,16,dog,1,1,2,2", "line 8: must name a photo"),
    ):
        Path("b/labels.csv").write_text(f"{text}{row}\n")
        line = fault()
        assert "b/labels.csv" in line
        assert rule in line


@pytest.mark.parametrize("write", [write_edge_impulse, write_createml])
def test_wrong_boxes_of_small_formats_are_refused(write: Callable[[Path], Path]) -> None:
    write(Path("b"))
    (path,) = Path("b").iterdir()
    text = path.read_text()
    path.write_text(text.replace('"dog"', "null", 1))
    assert "a.png: box 1: must have a class" in fault()
    path.write_text(text.replace('"width": 16', '"width": NaN', 1))
    assert "a.png: box 1: must have four finite coordinates" in fault()
    path.write_text(text.replace('"width": 16', '"width": 1600', 1))
    assert "a.png: box 1: must be inside the photo, 40×30 pixels" in fault()


def test_several_formats_are_refused() -> None:
    write_voc(Path("b"))
    write_csv(Path("b"))
    line = fault()
    assert "must have one format, but have Pascal VOC (4 files such as a.xml), CSV" in line
    assert "CSV (labels.csv). Give the file or folder of one of them." in line
    made("--source", "p", "--boxes", "b/labels.csv", "--size", "8x8", "-o", "o")
    Path("b/labels.csv").write_text("a,b\n1,2\n")  # another table
    Path("b/classes.txt").write_text("x\n")  # and names alone
    run()


def test_files_that_are_no_annotations_are_refused() -> None:
    Path("b").mkdir()
    Path("b/notes.json").write_text('{"a": 1}')
    assert "b: must hold boxes (Pascal VOC, COCO, YOLO, CSV, Edge Impulse, CreateML)" in fault()
    Path("b/notes.json").write_text('{"a": ' + "[" * 100_000)
    assert "b/notes.json: must be JSON, but got" in fault()
    Path("b/notes.json").write_text("[" * 5)
    assert "b/notes.json: must be JSON, but got" in fault()


def test_photos_of_one_name_in_two_folders_need_a_path() -> None:
    for folder in ("one", "two"):
        write_photos(Path("s") / folder)
    write_voc(Path("b"))
    args = ("--split", "all=1.0", "--size", "8x8", "-o", "o")
    line = refused("--source", "s", "--boxes", "b", *args)
    assert "must name one photo, but a may be one/a.png, two/a.png" in line
    for folder in ("one", "two"):
        write_voc(Path("c") / folder)
    made("--source", "s", "--boxes", "c", "--no-shuffle", *args)
    assert np.array_equal(targets(), np.concatenate([expected(), expected()]))


WRITERS = (write_voc, write_coco, write_yolo, write_csv, write_model_maker, write_edge_impulse,
           write_createml)  # fmt: skip
PIECES = (
    b"null",
    b"-",
    b"1e999",
    b"9" * 400,
    b"[",
    b"{}",
    b'"',
    b"<a>",
    b"&lt;",
    b"\0",
    b",",
    b"nan",
)


@pytest.mark.parametrize("write", WRITERS)
def test_damaged_annotations_are_read_or_refused_in_one_line(write: Callable[[Path], Path]) -> None:
    write(Path("b"))
    tree = open_tree(Path("p"))
    paths = [path for path in sorted(Path("b").rglob("*.*")) if path.stat().st_size]
    random = np.random.default_rng(3)
    messages = []
    for _ in range(80):
        path = paths[random.integers(len(paths))]
        content = path.read_bytes()
        at = int(random.integers(len(content)))
        removed = int(random.integers(0, 12))
        piece = PIECES[random.integers(len(PIECES))] if random.random() < 0.7 else b""
        path.write_bytes(content[:at] + piece + content[at + removed :])
        try:
            source = open_with_boxes(tree, decode_picture, Path("b"))
            for part in source.parts.values():
                for k in range(part.length or 0):
                    part.read(k)
        except DataError as e:
            messages.append(str(e))
        path.write_bytes(content)
    assert len(messages) > 20
    assert not any("\n" in message for message in messages)
