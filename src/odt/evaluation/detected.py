"""Detections in new photos or data files, as `odt predict` prints and draws them."""

import io
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np

from odt.core.data.dataset import DataSet
from odt.core.formats.flatbuffer.detection_postprocess import read_post_process
from odt.core.model.model import Model
from odt.core.model.record import Record
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import unwritable
from odt.data.new_data import OpenedData
from odt.dataclass import dataclass
from odt.datasets.boxes.drawing import detected_boxes, draw_boxes, name_of
from odt.datasets.contact_sheet import picture
from odt.datasets.pictures import Resize, pillow, to_rgb
from odt.datasets.recorded_steps import parse_steps
from odt.errors import DataError, one_line
from odt.kernels.rows.opdef import Array
from odt.tasks.box_data import class_slots
from odt.tasks.detector import Detector
from odt.tasks.labels import recorded_slots, slot_labels
from odt.tasks.recognition import anchors_text, detector_of

MAX_NAME = 80  # characters of a class name
SUFFIXES = (".png", ".jpg", ".jpeg")
SHORT_SIDE = 300  # pixels to which a drawn picture's shorter side is enlarged, if it has fewer
LONG_SIDE = 4096  # most pixels of the longer side of an enlarged picture


@dataclass(frozen=True, slots=True)
class DetectionReader:
    """Makes detections of the outputs of a model.

    Attributes:
        detector: the detector that the model is.
        outputs: positions of its tensors among the outputs.
        names: names of its classes.
        least: smallest score of a detection that is shown.
    """

    detector: Detector
    outputs: tuple[int, ...]
    names: tuple[str, ...]
    least: float

    def rows(self, outputs: Sequence[Array]) -> list[Array]:
        """Returns the detections (K, 6) of each sample: class, score, y1, x1, y2, x2."""
        rows = self.detector.decode([outputs[k] for k in self.outputs])
        return [r[r[:, 1] >= self.least] for r in rows]

    def line(self, rows: Array, height: int, width: int) -> str:
        """Describes the detections of a sample: class, score, and x1, y1, x2, y2 in pixels.

        Args:
            rows: detections (K, 6).
            height: height of the sample.
            width: its width.
        """
        texts = (
            f"{one_line(name_of(int(label), self.names), MAX_NAME)} {score:.4f} "
            f"({x1 * width:.0f}, {y1 * height:.0f}, {x2 * width:.0f}, {y2 * height:.0f})"
            for label, score, y1, x1, y2, x2 in rows.tolist()
        )
        return ", ".join(texts) or "nothing"


def detection_reader(
    file: Model,
    tensors: Sequence[int],
    record: Record | None,
    least: float,
    *,
    asked: bool = False,
) -> DetectionReader | None:
    """Returns what makes detections of a model's outputs; None for a model that is no detector.

    A grid of cells may also be a segmentation: it is a detector if its record says so, or the user.

    Args:
        file: the model.
        tensors: tensors of its outputs.
        record: preprocessing record of the data; None for none.
        least: smallest score of a detection.
        asked: whether the user asks for boxes.

    Raises:
        ModelError: if the model's post-processing operator is damaged.
    """
    detector = detector_of(file)
    if detector is None or not set(detector.tensors) <= set(tensors):
        return None
    boxes = record.boxes if record else {}
    if not (boxes or asked or anchors_text(file) or read_post_process(file)):
        return None
    names, labels = tuple(boxes.get("classes", ())), slot_labels(file, detector.slots)
    if 0 < len(names) <= detector.slots:  # as in training on data of this record
        slots = recorded_slots(boxes) or class_slots(file.path, names, labels, detector.slots)
        if max(slots) < detector.slots:
            detector = detector.prepared(slots, 1.0)
    return DetectionReader(
        detector, tuple(tensors.index(i) for i in detector.tensors), names or labels, least
    )


class SamplePictures:
    """Pictures of samples and their detections; new photos have their own size.

    Args:
        data: inputs of the samples, of one column.
        opened: the new data that hold them, read in full size; None for data files.
        record: their preprocessing record; None for data files.
    """

    def __init__(self, data: DataSet, opened: OpenedData | None, record: Record | None) -> None:
        self._column = data.inputs[0]
        self._part = None
        self._resize: Resize | None = None
        if opened is not None and record is not None:
            (self._part,) = opened.source.parts.values()
            self._resize = parse_steps(record.steps).resize

    def place(self, number: int, rows: Array) -> tuple[Array, Array]:
        """Returns a sample's picture (H, W, 3) and its detections (K, 6), as fractions of it.

        Args:
            number: number of the sample.
            rows: its detections, as fractions of the model's input.
        """
        if self._part is None:
            spec = self._column.spec
            row = np.empty((1, spec.size), spec.dtype)
            self._column.read([number], row)
            return picture(row[0], spec.shape), rows
        pixels = to_rgb(self._part.read(number).inputs[0])
        if self._resize is not None:
            placed = self._resize.original_boxes(rows[:, 2:], *pixels.shape[:2])
            rows = np.concatenate((rows[:, :2], np.clip(placed, 0, 1)), axis=1)
        return pixels, rows


class BoxPictures:
    """Writes pictures with boxes.

    Args:
        path: file of the picture of one sample; a folder for several, which is created.
        names: names of the classes.
        labels: name of each sample, such as the path of its photo in a folder.
        source: the samples: a file, folder or archive.

    Raises:
        MissingPackageError: if Pillow is not installed.
        DataError: if there are several samples for one file, the folder cannot be created, or a
            picture would replace a photo of the source.
    """

    def __init__(
        self, path: Path, names: Sequence[str], labels: Sequence[str], source: Path
    ) -> None:
        self._image = pillow()
        self._names = names
        if path.suffix.lower() in SUFFIXES:
            if len(labels) != 1:
                raise DataError(
                    f"{path}: must be a folder for {len(labels)} pictures, but got the name of a "
                    "file."
                )
            self._paths = [path]
            return
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise DataError(unwritable(path, e, "folder")) from e
        self._paths = [path / f"{name}.png" for name in picture_names(labels)]
        present = {p.resolve() for p in self._paths if p.exists()}
        if present:
            folder = source if source.is_dir() else source.parent
            replaced = sorted(present & {(folder / label).resolve() for label in labels})
            if replaced:
                raise DataError(
                    f"{path}: must be a folder in which no picture replaces a photo, but "
                    f"{replaced[0].name} is one. Give another folder."
                )

    def write(self, number: int, pixels: Array, rows: Array) -> None:
        """Writes the picture of a sample.

        Args:
            number: number of the sample.
            pixels: the picture (H, W, 3).
            rows: its detections (K, 6).
        """
        image = self._image.fromarray(np.ascontiguousarray(pixels))
        scale = min(SHORT_SIDE / min(image.size), LONG_SIDE / max(image.size))
        if scale > 1:
            image = image.resize(tuple(round(n * scale) for n in image.size))
        draw_boxes(image, detected_boxes(rows, self._names))
        path = self._paths[number]
        data = io.BytesIO()
        image.save(data, "PNG" if path.suffix.lower() == ".png" else "JPEG")
        write_atomically(path, [data.getvalue()], DataError)


def picture_names(labels: Sequence[str]) -> list[str]:
    """Returns a name for the picture of each sample, without folders and suffix.

    Pictures of the same name, such as those of a.png and a.jpg, get a number: a, a-2.

    Args:
        labels: name of each sample.
    """
    names: dict[str, None] = {}
    for label in labels:
        parts = Path(label).with_suffix("").parts
        name = first = "-".join(part for part in parts if part not in ("..", "/"))
        numbers = count(2)
        while name in names:
            name = f"{first}-{next(numbers)}"
        names[name] = None
    return [*names]
