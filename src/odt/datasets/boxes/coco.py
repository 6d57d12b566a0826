"""COCO: one JSON file with images, categories and annotations.

A `bbox` is x, y of the top left corner, width and height in pixels. Categories are numbered in the
order of their ids. Crowds, and annotations that are only polygons or masks, are left out.
"""

from collections.abc import Mapping
from typing import Any

from odt.core.storage.reading import listed, printable
from odt.datasets.boxes.annotation import (
    CROWD,
    SHAPE,
    AnnotationFile,
    Annotations,
    BoxFormat,
    PhotoBoxes,
)
from odt.errors import DataError


def _fits(file: AnnotationFile) -> bool:
    content = file.content
    return isinstance(content, dict) and {"images", "annotations"} <= content.keys()


def _read(file: AnnotationFile, annotations: Annotations) -> None:
    images, items, categories = (
        _objects(file, name) for name in ("images", "annotations", "categories")
    )
    _check_ids(file, "images", images, (int, str))
    _check_ids(file, "categories", categories, (int,))
    names = {
        category["id"]: str(category.get("name", "")).strip()
        for category in sorted(categories, key=lambda category: int(category["id"]))
    }
    classes = tuple(names.values())
    if annotations.classes not in ((), classes):
        raise DataError(
            f"{file.where}: must have the categories of the other files, "
            f"{listed(annotations.classes)}, but has {listed(classes)}."
        )
    annotations.classes = classes
    photos: dict[int | str, PhotoBoxes] = {}
    for image in images:
        photo = annotations.photo(file, str(image.get("file_name", "")))
        photo.state_size(image.get("width"), image.get("height"))
        photos[image["id"]] = photo
    for position, item in enumerate(items):
        row = f"annotation {printable(item.get('id', position))}"
        image_id, category_id = _id(item.get("image_id")), _id(item.get("category_id"))
        if image_id not in photos:
            raise DataError(
                f"{file.where}: {row}: must have an image_id of images, but has "
                f"{printable(item.get('image_id'))}."
            )
        _add(photos[image_id], row, names.get(category_id), item)


def _add(photo: PhotoBoxes, row: str, name: str | None, item: Mapping[str, Any]) -> None:
    if item.get("iscrowd"):
        photo.left_out.append(CROWD)
    elif not item.get("bbox") or _is_rotated(item):
        photo.left_out.append(SHAPE)
    elif name is None:
        category = printable(item.get("category_id"))
        photo.fault(row, f"must have a category_id of categories, but has {category}")
    else:
        photo.add_sized(row, name, item["bbox"] if isinstance(item["bbox"], list) else ())


def _is_rotated(item: Mapping[str, Any]) -> bool:
    """Whether a box is rotated, which CVAT writes as an attribute."""
    attributes = item.get("attributes")
    return isinstance(attributes, dict) and bool(attributes.get("rotation"))


def _objects(file: AnnotationFile, name: str) -> list[dict[str, Any]]:
    """Returns the objects of a list in the file."""
    items = file.content.get(name, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise DataError(f"{file.where}: {name} must be a list of objects.")
    return items


def _check_ids(
    file: AnnotationFile, name: str, items: list[dict[str, Any]], types: tuple[type, ...]
) -> None:
    """Raises DataError unless each object has an id of its own, of one of the types."""
    seen: set[object] = set()
    for item in items:
        number = item.get("id")
        if type(number) not in types or number in seen:
            got = f"{printable(number)} twice" if _id(number) in seen else printable(number)
            raise DataError(f"{file.where}: {name} must have an id each, but got {got}.")
        seen.add(number)


def _id(value: object) -> object:
    """Returns a value of JSON if it may be an id; None for a list or an object."""
    return None if isinstance(value, list | dict) else value


FORMAT = BoxFormat("coco", "COCO", (".json",), _fits, _read)
