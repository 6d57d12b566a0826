"""Predictions of dropped photos, sounds and rows by the model of a run."""

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from odt.core.data.sidecar import read_sidecar
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.model.record import Record
from odt.core.storage.closing import Closing
from odt.data.new_data import NewData, OpenedData
from odt.dataclass import dataclass
from odt.datasets.boxes.drawing import LEAST_SCORE
from odt.datasets.new_data import load_record
from odt.errors import OdtError
from odt.evaluation.detected import detection_reader
from odt.evaluation.evaluation import class_names
from odt.evaluation.prediction import ModelPredictor
from odt.kernels.rows.opdef import Array
from odt.live.files import with_name
from odt.models.model import Model, file_of
from odt.runs.run import BEST, Run
from odt.runs.run_model import late_option, model_of, read_model
from odt.runs.sample_origin import Columns

MAX_SAMPLES = 20  # of one file that are predicted
ARRAYS = (".npy", ".npz", ".h5", ".bin")  # files of samples that need no preprocessing


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table before preprocessing.

    Attributes:
        columns: the columns.
        names: names of the numbers of a sample; a column of words has several numbers.
        numbers: the numbers.
    """

    columns: Columns
    names: Sequence[str]
    numbers: Array


@dataclass(frozen=True, slots=True)
class Prediction:
    """Outputs of a model for one sample.

    Attributes:
        label: name of the sample.
        names: names of the classes or targets; empty for none.
        are_classes: whether the outputs are those of classes.
        outputs: first output of the model, flat.
        detections: what a detector finds, (K, 6): class, score, y1, x1, y2, x2 as fractions of the
            input; None for other models.
        kind: kind of the data: image, sound or features; empty for arrays.
        shape: shape of the model's input.
        values: the model's input, preprocessed, flat.
        row: the sample as a row of a table; None for other data.
    """

    label: str
    names: Sequence[str]
    are_classes: bool
    outputs: Array
    detections: Array | None
    kind: str
    shape: tuple[int, ...]
    values: Array
    row: TableRow | None


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions for the samples of a file.

    Attributes:
        name: name of the file.
        samples: the first samples of the file, at most MAX_SAMPLES.
        count: number of samples in the file.
        model: the model that was used, in words.
        notes: notes about the samples.
    """

    name: str
    samples: Sequence[Prediction]
    count: int
    model: str
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    """A model of a run, in memory.

    Attributes:
        trained: path of the trained model; empty for the weights of the best epoch.
        stamp: path, time and size of its file.
        model: the model.
        record: its own preprocessing record; None for none.
        predictor: computes its outputs.
    """

    trained: str
    stamp: tuple[str, int, int]
    model: Model
    record: Record | None
    predictor: ModelPredictor


class RunModel(Closing):
    """The model of a run, loaded again when its file changes; one thread at a time may use it.

    It is the trained model or, until that is written, the model with the weights of the best epoch.
    """

    def __init__(self) -> None:
        self._loaded: _LoadedModel | None = None

    def predict(self, run: Run, path: Path, name: str) -> Predictions:
        """Predicts the samples of a file, as `odt predict` does.

        Args:
            run: the run.
            path: the file: a photo, a sound, a table, an archive of them, or arrays.
            name: name of the file for the user.

        Raises:
            OdtError: if there is no model yet, or the file does not fit it.
        """
        model = self._load(run)
        path_of_record = _data_record(run, model.record if model.trained else None)
        record = load_record(path_of_record) if path_of_record else model.record
        notes: list[str] = []
        x: Any = str(path)
        if path.suffix.lower() not in ARRAYS:
            x = NewData(str(path), path_of_record)
        data, opened = model.predictor.open(x, notes.append)
        names = record.targets if record else class_names(run.recipe.get("load-input"), None)
        file, tensors = file_of(model.model), model.predictor.output_tensors
        reader = detection_reader(file, tensors, record, LEAST_SCORE)
        if reader is not None:
            names = reader.names
        column = data.inputs[0]
        values = np.empty((1, column.spec.size), column.spec.dtype)
        samples = []
        # Outputs are computed when they are asked for: those of later samples are not.
        for k, outputs in enumerate(islice(model.predictor.run(data), MAX_SAMPLES)):
            column.read([k], values)
            y = outputs[0].reshape(-1).copy()
            detections = reader.rows(outputs)[0] if reader else None
            samples.append(
                Prediction(
                    label=_label_of(opened, k, name, data.length),
                    names=names if reader or len(names) == y.size else (),
                    are_classes=record is None or _has_classes(record),
                    outputs=y,
                    detections=detections,
                    kind=record.kind if record and opened else "",
                    shape=column.spec.shape,
                    values=values[0].copy(),
                    row=_row_of(opened, record, k, values.size),
                )
            )
        if opened is not None:
            opened.show_remarks(notes.append)
        notes = [with_name(note, path, name) for note in notes]
        used = os.path.basename(model.trained) or f"weights of {BEST}, the best epoch so far"
        return Predictions(name, samples, data.length, used, notes)

    def close(self) -> None:
        """Ends the worker threads."""
        if self._loaded is not None:
            self._loaded.predictor.close()
        self._loaded = None

    def _load(self, run: Run) -> _LoadedModel:
        """Returns the model, loaded again if its file is another than before.

        The run may write the trained model at any time, so that its path is looked up only once.
        """
        trained = model_of(run)
        path = trained or str(run.path / BEST)
        try:
            status = os.stat(path)
        except FileNotFoundError:
            raise OdtError(
                f"{run.path.name}: must have completed an epoch to predict, but has not. Wait for "
                "the first epoch."
            ) from None
        stamp = path, status.st_mtime_ns, status.st_size
        if self._loaded is not None and self._loaded.stamp == stamp:
            return self._loaded
        self.close()
        if not trained and (option := late_option(run)):
            raise OdtError(
                f"{run.path.name}: with the option {option}, the model must be complete to "
                "predict. Wait for the end of the run."
            )
        model = read_model(run, trained)
        record = read_record(file_of(model))
        predictor = ModelPredictor(model, batch_size=1)
        self._loaded = _LoadedModel(trained, stamp, model, record, predictor)
        return self._loaded


def record_of(run: Run) -> Record | None:
    """Returns the preprocessing record of a run, also before there is a trained model.

    Raises:
        OdtError: if the file that may hold it cannot be read.
    """
    trained = model_of(run)
    stored = read_record(file_of(trained)) if trained else None
    path = _data_record(run, stored)
    if path is not None:
        return load_record(path)
    model = run.recipe.get("model")
    return read_record(file_of(str(model))) if model and not trained else stored


def _data_record(run: Run, stored: Record | None) -> str | None:
    """Returns the path of the training data if their JSON file has the record of a run.

    The record in the trained model comes first, as in `odt predict`, and that of the model before
    training, which may be of other data, last.

    Args:
        run: the run.
        stored: record of the trained model; None for none.
    """
    path = run.recipe.get("load-input")
    if stored is not None or not isinstance(path, str):
        return None
    sidecar = read_sidecar(path)
    return path if sidecar and "kind" in sidecar.recipe else None


def _has_classes(record: Record) -> bool:
    """Whether outputs are those of classes, of which a sample has one or several."""
    return bool(record.classes) or record.loss.startswith("binary")


def _label_of(opened: OpenedData | None, k: int, name: str, count: int) -> str:
    """Returns the name of a sample: that of the file, or its place in it if there are several."""
    if count == 1:
        return name
    return opened.label(k) if opened else f"sample {k}"


def _row_of(opened: OpenedData | None, record: Record | None, k: int, size: int) -> TableRow | None:
    """Returns a sample as the row of a table; None for other samples."""
    if opened is None or record is None or len(opened.source.columns) != size:
        return None
    names = opened.source.columns
    (part,) = opened.source.parts.values()
    with suppress(OdtError):
        return TableRow(Columns(names, record.table), names, part.read(k).inputs[0].reshape(-1))
    return None
