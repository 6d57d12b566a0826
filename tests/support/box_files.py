"""Photos with boxes, and annotation files of them as other programs write these."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from support.datafiles import jpeg

Box: TypeAlias = tuple[str, float, float, float, float]  # class, x1, y1, x2, y2 in pixels

# Photo → width, height and boxes.
PHOTOS: dict[str, tuple[int, int, list[Box]]] = {
    "a.png": (40, 30, [("dog", 4, 3, 20, 15), ("cat", 1, 0, 40, 30)]),
    "b.png": (24, 48, [("cat", 6, 12, 18, 36)]),
    "c.png": (16, 16, []),
    "d.png": (33, 21, [("dog", 0, 0, 11, 7), ("dog", 11, 7, 33, 14), ("ant", 3, 3, 9, 20)]),
}
CLASSES = ("ant", "cat", "dog")
TUTORIAL = "filename,width,height,class,xmin,ymin,xmax,ymax"  # columns of a table
ROWS = 3  # of the photo with most boxes


def expected(classes: Sequence[str] = CLASSES) -> np.ndarray:
    """The boxes of all photos (4, 3, 5), computed from PHOTOS."""
    targets = np.zeros((len(PHOTOS), ROWS, 5), np.float32)
    targets[:, :, 0] = -1
    for target, (width, height, boxes) in zip(targets, PHOTOS.values(), strict=True):
        for row, (label, x1, y1, x2, y2) in zip(target, boxes, strict=False):
            row[:] = (classes.index(label), y1 / height, x1 / width, y2 / height, x2 / width)
    return targets


def write_photos(folder: Path) -> Path:
    """Writes the photos, one color each."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, (name, (width, height, _)) in enumerate(PHOTOS.items()):
        (folder / name).write_bytes(jpeg(np.full((height, width, 3), 50 * k, np.uint8)))
    return folder


def voc_object(label: str, x1: float, y1: float, x2: float, y2: float, more: str = "") -> str:
    """An object of Pascal VOC, with other elements."""
    return (
        f"<object><name>{label}</name>{more}<bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin>"
        f"<xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
    )


def voc(name: str, width: int, height: int, objects: str) -> str:
    """An annotation of Pascal VOC."""
    return (
        f"<annotation><filename>{name}</filename><size><width>{width}</width>"
        f"<height>{height}</height><depth>3</depth></size>{objects}</annotation>"
    )


def write_voc(folder: Path) -> Path:
    """Writes a file for each photo with boxes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (width, height, boxes) in PHOTOS.items():
        objects = "".join(voc_object(*box) for box in boxes)
        (folder / name).with_suffix(".xml").write_text(voc(name, width, height, objects))
    return folder


def write_coco(folder: Path) -> Path:
    """Writes one file, whose ids are neither in order nor without gaps."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = dict(zip(CLASSES, (3, 7, 44), strict=True))
    images = [
        {"id": 90 - k, "file_name": f"photos/{name}", "width": width, "height": height}
        for k, (name, (width, height, _)) in enumerate(PHOTOS.items())
    ]
    items = [
        {"id": 5 * k, "image_id": 90 - n, "category_id": ids[label], "iscrowd": 0,
         "bbox": [x1, y1, x2 - x1, y2 - y1], "segmentation": [[x1, y1, x2, y1, x2, y2]]}
        for n, (_, _, boxes) in enumerate(PHOTOS.values())
        for k, (label, x1, y1, x2, y2) in enumerate(boxes, 10 * n)
    ]  # fmt: skip
    categories = [{"id": ids[name], "name": name} for name in ("dog", "ant", "cat")]
    content = {"annotations": items, "images": images, "categories": categories}
    (folder / "instances.json").write_text(json.dumps(content))
    return folder


def write_yolo(folder: Path) -> Path:
    """Writes a file for each photo, empty for one without boxes, and data.yaml."""
    (folder / "labels").mkdir(parents=True, exist_ok=True)
    for name, (width, height, boxes) in PHOTOS.items():
        lines = [
            f"{CLASSES.index(label)} {(x1 + x2) / 2 / width!r} {(y1 + y2) / 2 / height!r} "
            f"{(x2 - x1) / width!r} {(y2 - y1) / height!r}\n"
            for label, x1, y1, x2, y2 in boxes
        ]
        (folder / "labels" / name).with_suffix(".txt").write_text("".join(lines))
    names = "".join(f"  {k}: {name}\n" for k, name in enumerate(CLASSES))
    (folder / "data.yaml").write_text(f"train: images\nnc: 3\nnames:  # of boxes\n{names}")
    return folder


def write_csv(folder: Path, columns: str = TUTORIAL) -> Path:
    """Writes one table with these columns; a photo without boxes is not in it."""
    folder.mkdir(parents=True, exist_ok=True)
    names = TUTORIAL.split(",")
    lines = [columns]
    for photo, (width, height, boxes) in PHOTOS.items():
        for box in boxes:
            values = dict(zip(names, (photo, width, height, *box), strict=True))
            values["cell_type"] = box[0]
            lines.append(",".join(str(values[name]) for name in columns.split(",")))
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def write_other_csv(folder: Path) -> Path:
    """Writes a table in another order, without the sizes of photos."""
    return write_csv(folder, "filename,cell_type,xmin,xmax,ymin,ymax")


def write_model_maker(folder: Path) -> Path:
    """Writes the table of TFLite Model Maker, without a header; it has photos without boxes."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for photo, (width, height, boxes) in PHOTOS.items():
        start = f"UNASSIGNED,gs://bucket/{photo}"
        for label, x1, y1, x2, y2 in boxes:
            corners = (x1 / width, y1 / height, x2 / width, y2 / height)
            left, top, right, bottom = (repr(value) for value in corners)
            lines.append(f"{start},{label},{left},{top},,,{right},{bottom},,")
        if not boxes:
            lines.append(f"{start},,,,,,,,,")
    (folder / "all.csv").write_text("\n".join(lines) + "\n")
    return folder


def write_edge_impulse(folder: Path) -> Path:
    """Writes bounding_boxes.labels, in which a photo without boxes has no key."""
    folder.mkdir(parents=True, exist_ok=True)
    boxes = {
        photo: [
            {"label": label, "x": x1, "y": y1, "width": x2 - x1, "height": y2 - y1}
            for label, x1, y1, x2, y2 in boxes
        ]
        for photo, (_, _, boxes) in PHOTOS.items()
        if boxes
    }
    content = {"version": 1, "type": "bounding-box-labels", "boundingBoxes": boxes}
    (folder / "bounding_boxes.labels").write_text(json.dumps(content))
    return folder


def write_createml(folder: Path) -> Path:
    """Writes a list of photos with centers of boxes."""
    folder.mkdir(parents=True, exist_ok=True)
    content = [
        {
            "image": photo,
            "annotations": [
                {
                    "label": label,
                    "coordinates": {
                        "x": (x1 + x2) / 2, "y": (y1 + y2) / 2,
                        "width": x2 - x1, "height": y2 - y1,
                    },
                }
                for label, x1, y1, x2, y2 in boxes
            ],
        }
        for photo, (_, _, boxes) in PHOTOS.items()
    ]  # fmt: skip
    (folder / "annotations.json").write_text(json.dumps(content))
    return folder
