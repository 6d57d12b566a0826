"""YOLO: a text file for each photo with a line for each box, and names of classes in another file.

A line is a class number, then x and y of the center, width and height as fractions of the photo.
The names are in `names` of data.yaml, or one a line in classes.txt.
"""

import csv
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePosixPath

from odt.core.storage.reading import listed, printable
from odt.datasets.boxes.annotation import SHAPE, AnnotationFile, Annotations, BoxFormat, finite
from odt.errors import DataError

LISTS = ("classes.txt", "obj.names")  # files with a name in each line
NAMES = re.compile(r"names\s*:.*")  # the key in a YAML file
ITEM = re.compile(r"- |\d+\s*:")  # of a list or a mapping
COMMENT = re.compile(r"(?:^|\s)#.*")


def _fits(file: AnnotationFile) -> bool:
    name = PurePosixPath(file.name).name
    if name in LISTS:
        return True
    if name.endswith((".yaml", ".yml")):
        return any(NAMES.fullmatch(line.rstrip()) for line in file.content)
    words: list[str] = next((line.split() for line in file.content if line.strip()), [])
    return name.endswith(".txt") and len(words) >= 5 and finite(words[1:]) is not None


def _read(file: AnnotationFile, annotations: Annotations) -> None:
    annotations.in_pixels = False
    path = PurePosixPath(file.name)
    if path.name in LISTS or path.suffix != ".txt":
        names = _class_list(file.content) if path.name in LISTS else _yaml_names(file)
        if annotations.classes not in ((), names):
            raise DataError(
                f"{file.where}: must have the classes of the other files, "
                f"{listed(annotations.classes)}, but has {listed(names)}."
            )
        annotations.classes = names
        return
    photo = annotations.photo(file, path.stem)
    for number, line in enumerate(file.content, 1):
        words = line.split()
        if not words:
            continue
        row = f"line {number}"
        if len(words) > 5 and len(words) % 2:  # x and y of at least three corners
            photo.left_out.append(SHAPE)
        elif len(words) != 5 or not words[0].isdecimal() or len(words[0]) > 9:
            photo.fault(row, f"must be a class number and four numbers, but is {printable(line)}")
        else:
            photo.add_sized(row, int(words[0]), words[1:], anchor=0.5)


def _class_list(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.strip() for line in lines if line.strip())


def _yaml_names(file: AnnotationFile) -> tuple[str, ...]:
    """Returns the `names` of a YAML file: a list or a mapping, in one line or several.

    Raises:
        DataError: if they have another form.
    """
    lines = [COMMENT.sub("", line).rstrip() for line in file.content]
    first = next(k for k, line in enumerate(lines) if NAMES.fullmatch(line))
    text = lines[first].partition(":")[2].strip()
    following = [line.strip() for line in lines[first + 1 :] if line.strip()]
    if text:
        end = next((k for k, line in enumerate(following) if line[-1] in "]}"), -1)
        text = " ".join([text, *following[: 0 if text[-1] in "]}" else end + 1]])
        items = _inline_items(text)
    else:
        items = [*takewhile(ITEM.match, following)]
    names: dict[int, str] = {}
    for position, item in enumerate(items):
        number, colon, name = item.partition(":")
        if item.startswith("- "):
            names[position] = _unquoted(item[2:])
        elif number.strip().isdecimal() and colon:
            names[int(number)] = _unquoted(name)
    if len(names) < len(items) or not names or sorted(names) != [*range(len(names))]:
        raise DataError(
            f"{file.where}: names must be a list, or a mapping of 0, 1, … to names, but is "
            f"{printable(text or listed(following))}."
        )
    return tuple(names[k] for k in range(len(names)))


def _inline_items(text: str) -> list[str]:
    """Returns the items of a list or mapping in brackets, each as in a line of its own."""
    if len(text) < 2 or text[0] + text[-1] not in ("[]", "{}"):
        return []
    inner = text[1:-1].strip().removesuffix(",")
    quote = "'" if "'" in inner else '"'
    items = next(csv.reader([inner], quotechar=quote, skipinitialspace=True), [])
    return items if text[0] == "{" else [f"- {item}" for item in items]


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


FORMAT = BoxFormat("yolo", "YOLO", (".txt", ".names", ".yaml", ".yml"), _fits, _read)
