"""Edge Impulse: bounding_boxes.labels, a JSON file beside the photos of a folder.

Boxes have x, y of the top left corner, width and height in pixels. Photos without a key have none.
"""

from odt.core.storage.reading import printable
from odt.datasets.boxes.annotation import AnnotationFile, Annotations, BoxFormat, PhotoBoxes
from odt.errors import DataError

KIND = "bounding-box-labels"
KEY = "boundingBoxes"


def _fits(file: AnnotationFile) -> bool:
    content = file.content
    return isinstance(content, dict) and (content.get("type") == KIND or KEY in content)


def _read(file: AnnotationFile, annotations: Annotations) -> None:
    photos = file.content.get(KEY)
    if not isinstance(photos, dict):
        raise DataError(f"{file.where}: {KEY} must be an object with a list for each photo.")
    for name, items in photos.items():
        photo = annotations.photo(file, name)
        if not isinstance(items, list):
            photo.fault("", f"{printable(name)}: must have a list of boxes")
            continue
        for number, item in enumerate(items, 1):
            _add(photo, f"{printable(name)}: box {number}", item)


def _add(photo: PhotoBoxes, row: str, item: object) -> None:
    values = item if isinstance(item, dict) else {}
    box = [values.get(name) for name in ("x", "y", "width", "height")]
    photo.add_sized(row, values.get("label"), box)


FORMAT = BoxFormat("edge-impulse", "Edge Impulse", (".labels", ".json"), _fits, _read)
