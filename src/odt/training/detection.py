"""Training and evaluation of detectors on boxes: defaults, data, detections, their metrics."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.data.dataset import DataSet
from odt.core.data.protocol import SampleOrder, Scales
from odt.core.formats.flatbuffer.detection_postprocess import read_post_process
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.model.record import Record
from odt.core.options.session_options import BOX_METRICS
from odt.core.options.training_options import FOLLOW
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.runtime.runtime import Runtime
from odt.data import sources
from odt.data.run_samples import Samples
from odt.datasets.boxes.drawing import DrawnBox, detected_boxes, name_of, true_boxes
from odt.errors import DataError, OptionError, one_line
from odt.kernels.rows.opdef import Array
from odt.models.model import Model, file_of, lowered_of
from odt.tasks.average_precision import (
    AveragePrecision,
    count_overlaps,
    mean_average_precision,
)
from odt.tasks.box_counts import BoxCounts
from odt.tasks.box_data import BoxData, class_slots, mean_positives, open_boxes
from odt.tasks.center_f1 import count_centers
from odt.tasks.heads import head_operators
from odt.tasks.labels import slot_labels
from odt.tasks.recognition import ANCHORS, anchors_text, detector_of
from odt.tasks.stated_anchors import EXAMPLE, find_outputs
from odt.training.trainable import Trainable

F1 = ("f1", "f1_score")  # as users and the command line spell it
BATCH, RATE = 16, 1e-3


class Detection:
    """How boxes train a model.

    Attributes:
        detector: what the model is; prepared for the training data, and for the first data until
            then.
        names: names of the classes of the data; empty if they are not known.
        metrics: names of the metrics of detections, as the user spells them.
        usual_metrics: names of the metrics that fit the detector.

    Args:
        model: the model.
        metrics: names of metrics.

    Raises:
        OptionError: if the model is no detector.
    """

    def __init__(self, model: Model, metrics: Sequence[str] = ()) -> None:
        self._file = file_of(model)
        detector = detector_of(self._file)
        if detector is None:
            if find_outputs(self._file):
                raise OptionError(
                    "anchors",
                    f"must be given, such as {EXAMPLE}, since {self._file.path} holds none",
                )
            raise OptionError(
                "task",
                "boxes need a model that ends in TFLite_Detection_PostProcess, in probabilities of "
                "cells, or in codes and scores of anchors that `anchors=` states",
                self._file.path,
                "Detectors of other families do not train on boxes yet.",
            )
        self.detector = detector
        self.metrics = tuple(name for name in metrics if name in (*BOX_METRICS, *F1))
        self.usual_metrics = BOX_METRICS if detector.trains_heads else F1[:1]
        self.names: tuple[str, ...] = ()
        outputs = lowered_of(model).graphs.graph.outputs
        if not set(detector.tensors) <= set(outputs):
            raise OptionError("task", "boxes need outputs that train", self._file.path)
        self._outputs = [outputs.index(i) for i in detector.tensors]
        self._slots: tuple[int, ...] = ()
        self._data: tuple[BoxData, int, BoxData | None] | None = None

    def defaults(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns values of the options of `odt.Trainer` that a user left out.

        Args:
            options: the options of the user.
        """
        detector = self.detector
        values: dict[str, Any] = {"batch_size": BATCH}
        if has_quantized_activations(self._file):
            values["quant_ranges"] = FOLLOW
        if options.get("optimizer") in (None, "adam") and options.get("schedule") is None:
            values["learning_rate"] = RATE
        if detector.trains_heads:
            heads = head_operators(self._file.graph, detector.tensors)
            values["trainable"] = Trainable(operators=heads)
        empty = (None, (), Trainable())
        values = {name: value for name, value in values.items() if options.get(name) in empty}
        return values | self.default_losses(options)

    def default_losses(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns `output_losses` by output, unless a user gives losses.

        Args:
            options: the options of the user.

        Raises:
            OptionError: if a user gives losses for a detector that weighs single values.
        """
        if options.get("loss") is not None or options.get("output_losses"):
            if self.detector.scales is Scales.VALUES:
                rule = "must be left out for a detector whose anchors are stated"
                raise OptionError("loss, output_losses", rule)
            return {}
        losses = self.detector.losses
        pairs = zip(self._outputs, self.detector.tensors, strict=True)
        return {"output_losses": {str(k): losses[i] for k, i in pairs}}

    def open(
        self,
        x: Any,
        y: Any,
        model: SampleSpecs | Runtime,
        *,
        targets: bool = True,
        trains: bool = False,
    ) -> DataSet:
        """Opens samples with their boxes; arguments as of `Session.open`."""
        x, y, rest = sources.parts_of(x, y)
        data = sources.samples_of(sources.DataSet(x, None, rest), None, model)
        if y is None or not targets:
            return data
        boxes = open_boxes(y)
        if boxes.column.length != data.length:
            raise DataError(
                f"{boxes.column.name}: must have the boxes of all {data.length} samples, but has "
                f"those of {boxes.column.length}."
            )
        if boxes.names and self.names and boxes.names != self.names:
            raise DataError(
                f"{boxes.column.name}: must have the classes of the first data, "
                f"{', '.join(self.names)}, but got {', '.join(boxes.names)}."
            )
        if trains or not self._slots:
            self.names = boxes.names or self.names
            where = boxes.column.name
            labels = slot_labels(self._file, self.detector.slots)
            slots = class_slots(where, self.names, labels, self.detector.slots)
            mean = mean_positives(self.detector.prepared(slots, 1.0), boxes.column)
            self.detector = self.detector.prepared(slots, mean)
            self._slots = tuple(slots)
        # Losses are in the order of the outputs.
        order = sorted(range(len(self._outputs)), key=self._outputs.__getitem__)
        return BoxData(data.inputs, boxes.column, self.detector, order, len(self._slots))

    def limit_warning(self, data: DataSet) -> str:
        """Returns a warning if the file returns fewer boxes of a photo than data have, or ""."""
        post = read_post_process(self._file)
        assert isinstance(data, BoxData), "`open` gives no other data"
        (boxes,) = data.targets
        if post is None or boxes.spec.shape[0] <= post.max_detections:
            return ""
        most = data.most_boxes()
        if most <= post.max_detections:
            return ""
        return (
            f"Warning: {boxes.name}: a photo has {most} boxes, but {self._file.path} returns at "
            f"most {post.max_detections}. `max_detections={most}` changes that."
        )

    def batch_warning(self) -> str:
        """Returns a warning about metrics of detections, which batches do not give, or ""."""
        if not self.metrics:
            return ""
        return (
            f"Warning: {', '.join(self.metrics)}: not measured on batches. Give `evaluate` all "
            "samples as arrays or files."
        )

    def decode(self, outputs: Sequence[Array]) -> list[Array]:
        """Returns the detections of samples from all outputs that train."""
        return self.detector.decode([outputs[k] for k in self._outputs])

    def classes_line(self) -> str:
        """Returns the classes of the data, each with its slot in the model."""
        pairs = zip(self.names, self._slots, strict=True)
        return ", ".join(f"{one_line(name, 40)} in slot {slot}" for name, slot in pairs)

    def recorded(self, record: Record | None) -> Record | None:
        """Returns a preprocessing record with stated anchors, and slots of classes out of order.

        Args:
            record: record of the data; None for none.
        """
        if record is None:
            return None
        facts: dict[str, Any] = {}
        if self._slots != tuple(range(len(self._slots))):
            facts["slots"] = list(self._slots)
        if text := anchors_text(self._file):
            facts[ANCHORS] = text
        return replace(record, boxes={**record.boxes, **facts}) if facts else record

    def follow(self, data: DataSet, border: int = 0, second: DataSet | None = None) -> None:
        """Sets the data whose true boxes detections are compared with.

        Args:
            data: samples with numbers below the border.
            border: number of these samples; 0 for all.
            second: samples whose numbers follow; None for none.
        """
        assert isinstance(data, BoxData), "`open` gives no other data"
        assert second is None or isinstance(second, BoxData), "`open` gives no other data"
        self._data = data, border or data.length, second

    @property
    def has_boxes(self) -> bool:
        """Whether true boxes are known; not while a forecast measures the time of a run."""
        return self._data is not None

    @contextmanager
    def following(self, data: DataSet) -> Iterator[None]:
        """Sets the data for a `with` block, such as an evaluation between two epochs."""
        before = self._data
        self.follow(data)
        try:
            yield
        finally:
            self._data = before

    def follow_samples(self, samples: Samples) -> None:
        """Sets the samples of a training run as the data."""
        self.follow(samples.data, samples.count, samples.validation_set)

    def detections(self) -> "Detections":
        """Returns a new collection of detections."""
        return Detections(self)

    def boxes(self, number: int) -> Array:
        """Returns the true boxes (M, 5) of a sample by its number."""
        assert self._data is not None, "`follow` comes first"
        data, border, second = self._data
        if number >= border:
            assert second is not None, "there are samples behind the border"
            data, number = second, number - border
        return data.boxes(number)


class Detections:
    """Detections of samples, decoded from the outputs of each micro-batch.

    Attributes:
        rows: number of the sample → detections (K, 6): class, score, y1, x1, y2, x2.

    Args:
        detection: how boxes train the model.
    """

    def __init__(self, detection: Detection) -> None:
        self._detection = detection
        self.rows: dict[int, Array] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes; empty if they are not known."""
        return self._detection.names

    def see(self, numbers: SampleOrder, outputs: Sequence[Array]) -> None:
        """Decodes the outputs of samples; several threads may call it at once."""
        photos = self._detection.decode(outputs)
        self.rows.update(zip(np.asarray(numbers).tolist(), photos, strict=True))

    def average_precision(self) -> AveragePrecision:
        """Returns the average precision of the samples so far."""
        numbers = sorted(self.rows)
        boxes = [self._detection.boxes(n) for n in numbers]
        return mean_average_precision([self.rows[n] for n in numbers], boxes)

    def centers(self) -> BoxCounts:
        """Returns the counts of centers of the samples so far."""
        counts = (count_centers(rows, self._detection.boxes(n)) for n, rows in self.rows.items())
        return sum(counts, BoxCounts())

    def counts(self, number: int, least: float, label: int | None = None) -> BoxCounts:
        """Returns the counts of a sample: by overlaps, or by centers for a grid of cells.

        Args:
            number: number of the sample.
            least: smallest score of a detection.
            label: the class that counts; None for all.
        """
        rows, boxes = self.rows[number], self._detection.boxes(number)
        rows = rows[rows[:, 1] >= least]
        if label is not None:
            rows, boxes = (a[a[:, 0] == label] for a in (rows, boxes))
        count = count_centers if self._detection.detector.metric == F1[0] else count_overlaps
        return count(rows, boxes)

    def worst(self, least: float) -> list[int]:
        """Returns the numbers of the samples, those with the most missed and false boxes first.

        Args:
            least: smallest score of a detection.
        """
        counts = {number: self.counts(number, least) for number in sorted(self.rows)}
        return sorted(counts, key=lambda n: -counts[n].missed - counts[n].false)

    def labels(self) -> list[int]:
        """Returns the numbers of the classes of true boxes and detections, and of named ones."""
        rows = [a[:, 0] for n in self.rows for a in (self.rows[n], self._detection.boxes(n))]
        numbers = np.unique(np.concatenate(rows)) if rows else np.zeros(0)
        named = range(len(self.names))
        return sorted({*named, *(int(k) for k in numbers if k >= 0)})

    def per_class(self) -> str:
        """Returns a table of the average precision of each class, as text."""
        lines = ["class                      map   map50"]
        for number, values in self.average_precision().classes.items():
            name = one_line(name_of(number, self.names), 24)
            lines.append(f"{name:24s} {values[0]:6.4f}  {values[1]:6.4f}")
        return "\n".join(lines)

    def drawn(self, number: int, least: float) -> list[DrawnBox]:
        """Returns boxes to draw on a sample: the true ones, dashed, and detections.

        Args:
            number: number of the sample.
            least: smallest score of a detection.
        """
        rows = self.rows[number]
        true = true_boxes(self._detection.boxes(number), self.names, dashed=True)
        return [*true, *detected_boxes(rows[rows[:, 1] >= least], self.names)]

    def metrics(self) -> dict[str, float]:
        """Returns the metrics that are wanted, by name."""
        names = self._detection.metrics
        values: dict[str, float] = {}
        if not set(BOX_METRICS).isdisjoint(names):
            precision = self.average_precision()
            values = {"map": precision.map, "map50": precision.map50}
        if not set(F1).isdisjoint(names):
            values |= dict.fromkeys(F1, self.centers().f1)
        return {name: values[name] for name in names}
