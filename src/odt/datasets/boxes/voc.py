"""Pascal VOC: an XML file for each photo, as labelImg writes it.

`<object>` has a name and a `<bndbox>` in pixels. Coordinates are the edges of the box; the original
data set counts pixels from 1, most programs count from 0, and the files do not say which.
"""

from pathlib import PurePosixPath
from typing import Any

from odt.datasets.boxes.annotation import (
    DIFFICULT,
    SHAPE,
    AnnotationFile,
    Annotations,
    BoxFormat,
    PhotoBoxes,
)

CORNERS = ("xmin", "ymin", "xmax", "ymax")
OTHER_SHAPES = ("polygon", "robndbox", "segmentation")


def _fits(file: AnnotationFile) -> bool:
    return bool(file.content.tag == "annotation")


def _read(file: AnnotationFile, annotations: Annotations) -> None:
    root = file.content
    photo = annotations.photo(file, PurePosixPath(file.name).stem)
    photo.other_name = _text(root, "filename")
    photo.state_size(_text(root, "size/width"), _text(root, "size/height"))
    for number, item in enumerate(root.iterfind("object"), 1):
        _add(photo, f"object {number}", item)


def _add(photo: PhotoBoxes, row: str, item: Any) -> None:
    box = item.find("bndbox")
    if box is None and any(item.find(name) is not None for name in OTHER_SHAPES):
        photo.left_out.append(SHAPE)
    elif _text(item, "difficult") == "1":
        photo.left_out.append(DIFFICULT)
    else:
        corners = [_text(box, name) if box is not None else "" for name in CORNERS]
        photo.add(row, _text(item, "name"), corners)


def _text(element: Any, path: str) -> str:
    return (element.findtext(path) or "").strip()


FORMAT = BoxFormat("voc", "Pascal VOC", (".xml",), _fits, _read)
