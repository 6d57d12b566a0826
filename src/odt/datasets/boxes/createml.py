"""CreateML: a JSON list of photos, whose boxes have center, width and height in pixels."""

from odt.core.storage.reading import printable
from odt.datasets.boxes.annotation import AnnotationFile, Annotations, BoxFormat, PhotoBoxes

NAMES = ("image", "imagefilename")  # keys of the name of the photo
LISTS = ("annotations", "annotation")  # keys of its boxes


def _fits(file: AnnotationFile) -> bool:
    content = file.content
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(item, dict) and {*LISTS} & item.keys() for item in content)
    )


def _read(file: AnnotationFile, annotations: Annotations) -> None:
    for position, entry in enumerate(file.content):
        name = next((entry[key] for key in NAMES if isinstance(entry.get(key), str)), "")
        photo = annotations.photo(file, name)
        items = next(entry[key] for key in LISTS if key in entry)
        if not name or not isinstance(items, list):
            place = printable(name or f"entry {position + 1}")
            photo.fault(place, "must have the name of an image and a list of annotations")
            continue
        for number, item in enumerate(items, 1):
            _add(photo, f"{printable(name)}: box {number}", item)


def _add(photo: PhotoBoxes, row: str, item: object) -> None:
    values = item if isinstance(item, dict) else {}
    coordinates = values.get("coordinates")
    coordinates = coordinates if isinstance(coordinates, dict) else {}
    box = [coordinates.get(name) for name in ("x", "y", "width", "height")]
    photo.add_sized(row, values.get("label"), box, anchor=0.5)


FORMAT = BoxFormat("createml", "CreateML", (".json",), _fits, _read)
