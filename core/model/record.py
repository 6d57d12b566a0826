"""The preprocessing record: how inputs were made from photos, sounds or tables, as JSON values.

It is stored in the JSON file next to a data file, and in the metadata entry ODT_PREPROCESSING of a
model that was trained on the data. src/odt/datasets applies it to new data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from odt.core.storage.json_text import json_text, parse_json
from odt.dataclass import dataclass
from odt.errors import DataError

ENTRY = "ODT_PREPROCESSING"  # of a model's metadata
FORMAT, VERSION = "odt-preprocessing", 1
KINDS = ("image", "sound", "features")
CHANNELS_FIRST = "channels first"  # of the step "axes"
MAX_BYTES = 1 << 26  # of an entry


@dataclass(frozen=True, slots=True)
class Record:
    """Preprocessing of the inputs of a data set.

    Attributes:
        kind: image, sound or features.
        steps: steps in order, as Preprocessing.describe gives them.
        classes: class names by label; empty if the targets are values.
        tags: names of the values of a target, if it is no class.
        sound: settings of the conversion of sound files; empty for other kinds.
        table: columns of a table and options for reading it; empty for other sources.
        boxes: for targets that are boxes: class names (`classes`), the format of the annotations
            (`source`), and how many boxes were left out; empty for other targets.
        loss: loss with which a model was trained, if a user gave one; empty in data files.
    """

    kind: str
    steps: tuple[Mapping[str, Any], ...] = ()
    classes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    sound: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    boxes: Mapping[str, Any] = field(default_factory=dict)
    loss: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model's outputs: classes or tags."""
        return self.classes or self.tags

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the model's outputs: classes, tags, or the target columns of a table."""
        columns = self.table.get("columns", [])
        return self.names or tuple(
            str(c["name"]) for c in columns if isinstance(c, dict) and c.get("role") == "target"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the record as JSON values; leaves out empty parts."""
        values = {
            "kind": self.kind,
            "preprocessing": [dict(step) for step in self.steps],
            "classes": list(self.classes),
            "tags": list(self.tags),
            "sound": dict(self.sound),
            "table": dict(self.table),
            "boxes": dict(self.boxes),
            "loss": self.loss,
        }
        return {name: value for name, value in values.items() if value or name == "preprocessing"}

    def to_bytes(self) -> bytes:
        """The metadata entry of a model."""
        content = {"format": FORMAT, "version": VERSION, **self.to_json()}
        return json_text(content, ensure_ascii=False).encode("utf-8", "backslashreplace")


def is_channels_first(shape: Sequence[int]) -> bool:
    """Whether the shape of an image is (C, H, W), as in models from PyTorch, not (H, W, C)."""
    return len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3)


def record_of(content: Mapping[str, Any]) -> Record | None:
    """Reads a record from a JSON object, which may hold other values; None without a record.

    Raises:
        ValueError: if a part has the wrong type.
    """
    if "kind" not in content:
        return None
    kind = content["kind"]
    steps = content.get("preprocessing", [])
    classes, tags = content.get("classes", []), content.get("tags", [])
    sound, table = content.get("sound", {}), content.get("table", {})
    boxes = content.get("boxes", {})
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}")
    if not isinstance(steps, list) or not all(isinstance(s, dict) and "step" in s for s in steps):
        raise ValueError("preprocessing must be a list of steps")
    if not all(isinstance(values, dict) for values in (sound, table, boxes)):
        raise ValueError("sound, table and boxes must be objects")
    for names in (classes, tags, boxes.get("classes", [])):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("classes and tags must be lists of names")
    loss = content.get("loss", "")
    if not isinstance(loss, str):
        raise ValueError("loss must be a name")
    # The former name of the step in files of odt before 0.1.
    steps = [{**step, "step": "color"} if step["step"] == "colour" else step for step in steps]
    return Record(kind, tuple(steps), tuple(classes), tuple(tags), sound, table, boxes, loss)


def parse_record(name: str, data: bytes) -> Record:
    """Reads the metadata entry of a model.

    Args:
        name: name of the model in messages.
        data: bytes of the entry.

    Raises:
        DataError: if the entry is not a record of this version.
    """
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"{len(data)} bytes")
        content = parse_json(data.decode())
        if (content["format"], content["version"]) != (FORMAT, VERSION):
            raise ValueError("another format or version")
        record = record_of(content)
        if record is None:
            raise ValueError("no kind")
    except Exception as e:  # JSON may be anything
        raise DataError(
            f"{name}: its metadata entry {ENTRY} must be JSON of format {FORMAT} {VERSION}, but "
            f"got: {type(e).__name__}: {str(e)[:160]}."
        ) from e
    return record
