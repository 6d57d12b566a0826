"""New data prepared as a preprocessing record says: photos, sounds, tables, arrays."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from odt.core.data.array_columns import Quantizations
from odt.core.data.column import Column
from odt.core.data.dataset import DataSet, target_check
from odt.core.data.sidecar import read_sidecar
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.formats.reader import read_model
from odt.core.model.record import Record, is_channels_first, record_of
from odt.core.storage.reading import listed, reading
from odt.datasets.folders import Naming
from odt.datasets.open_source import format_of, open_source
from odt.datasets.preprocess import Preprocessing, Targets
from odt.datasets.recorded_steps import parse_steps
from odt.datasets.sounds import parse_sound
from odt.datasets.source import (
    NO_GAPS,
    MissingValueError,
    Part,
    SampleError,
    Source,
    missing_value,
)
from odt.datasets.source_format import Opening
from odt.datasets.splits import Pool, length_of
from odt.errors import DataError, ModelError
from odt.kernels.geometry.quantize import quantize
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import LABELS
from odt.kernels.rows.opdef import Array, TensorSpec

JSON = ".json"
# Format of a source → kind of its data; arrays may be of any kind.
KINDS = {"images": "image", "wav": "sound", "csv": "features", "tsv": "features",
         "text": "features", "parquet": "features", "tables": "features"}  # fmt: skip


def load_record(path: str) -> Record:
    """Reads the record of a JSON file, of the data file beside it, or of a model.

    Raises:
        DataError: if there is no record.
    """
    data = path.removesuffix(JSON)
    sidecar = read_sidecar(data) if os.path.exists(data + JSON) else None
    if sidecar is not None:
        with reading(data + JSON, "must hold a preprocessing record"):
            record = record_of(sidecar.record_content)
    else:
        try:
            record = read_record(read_model(path))
        except ModelError as e:
            raise DataError(
                f"{path}: must be the JSON file of training data or a model, but got: {e}"
            ) from e
    if record is None:
        raise DataError(
            f"{path}: holds no preprocessing record. Give the JSON file of the training data, "
            "such as `record=data/train.input.bin.json`."
        )
    return record


def open_new(
    opening: Opening,
    record: Record,
    *,
    new_classes: bool = False,
    labeled: bool = False,
    targets: bool = True,
    full_size: bool = False,
) -> Source:
    """Opens new data of the kind of a record, with labels if they have any, as one part "all".

    Args:
        opening: the source; options that the record has are taken from there.
        record: the record.
        new_classes: whether folders name classes that the record need not have.
        labeled: whether files without a class of the record are left out.
        targets: whether targets are read, if there are any.
        full_size: whether photos are read in their own size, and resized afterwards.

    Raises:
        DataError: if the source is of another kind, or cannot be opened.
    """
    steps = parse_steps(record.steps)
    keeps_color = steps.color != "grayscale"
    opening = replace(
        opening,
        table=replace(
            opening.table,
            like=record.table,
            classes=record.classes,
            **_windows(record),
            drop=steps.missing == "drop",
            inputs_only=not targets,
            drop_targets=record.table.get("missing target") == "drop",
        ),
        arrays=replace(
            opening.arrays,
            classes=record.classes,
            regression=None if record.classes else True,
            unlabelled=True,
            inputs_only=not targets,
        ),
        sound=parse_sound(record.sound),
        resize=steps.resize if keeps_color and not full_size else None,
        naming=Naming(
            unlabelled=bool(record.boxes),
            classes=None if new_classes else record.classes,
            labeled=labeled,
        ),
    )
    form = format_of(opening.path, opening)
    if opening.path.exists() and (kind := KINDS.get(form, record.kind)) != record.kind:
        raise _other_kind(opening.text, record, kind)
    source = open_source(opening, form)
    if source.kind != record.kind:
        raise _other_kind(source.name, record, source.kind)
    if record.kind == "features" and source.table and not record.table:
        raise DataError(f"{source.name}: must be arrays, as the training data, but is a table.")
    if [*source.parts] == ["all"]:
        return source
    return replace(source, parts={"all": Pool(list(source.parts.values()))})


def _other_kind(name: str, record: Record, kind: str) -> DataError:
    return DataError(
        f"{name}: must hold data of the kind {record.kind}, as the record says, but holds {kind}."
    )


def _windows(record: Record) -> dict[str, Any]:
    """Returns the options of windows over the rows of a table that a record has."""
    names = {"window": int, "stride": int, "horizon": int, "series": str}
    with reading("", "the preprocessing record must have windows of whole numbers"):
        return {n: kind(record.table[n]) for n, kind in names.items() if n in record.table}


def for_model(record: Record, spec: TensorSpec, *, quantized: bool = False) -> Preprocessing:
    """Returns the preprocessing of a record, with the shape and dtype of a model's input.

    Args:
        record: the record.
        spec: shape and dtype of one sample.
        quantized: whether the input is quantized, so that the result is real numbers.
    """
    steps = parse_steps(record.steps)
    dtype = np.dtype(np.float32) if quantized else spec.dtype
    channels_first = steps.channels_first
    if record.kind == "image" and len(spec.shape) == 3:  # the record may be that of another model
        is_ambiguous = spec.shape[0] in (1, 3)
        channels_first = is_channels_first(spec.shape) or (channels_first and is_ambiguous)
    return replace(
        steps, channels_first=channels_first, shape=spec.shape, flatten=False, dtype=dtype
    )


class SourceColumn(Column):
    """Inputs or targets of a source, read and preprocessed when they are needed."""

    __slots__ = ()

    def read(self, samples: Sequence[int] | slice | Array, out: Array) -> None:
        """Reads samples into `out`, one row each; arguments and errors as of Column.read."""
        numbers = range(*samples.indices(self.length)) if isinstance(samples, slice) else samples
        rows = out.reshape(len(out), -1, copy=False)
        for row, k in zip(rows, numbers, strict=True):
            values = self.rows[int(k)].reshape(-1)
            stored = self.quantization
            row[:] = values if stored is None else quantize(values, stored, row.dtype)


class _Inputs:
    """Preprocessed inputs by number."""

    def __init__(self, source: Source, part: Part, steps: Preprocessing) -> None:
        self._source = source
        self._part = part
        self._steps = steps

    def __getitem__(self, k: int) -> Array:
        try:
            return self._steps.apply(self._part.read(k).inputs[0])
        except MissingValueError as e:
            raise DataError(missing_value(self._source, self._part, k, e, NO_GAPS)) from e
        except SampleError:
            raise
        except DataError as e:
            raise DataError(f"{self._source.name}: {self._part.label_of(k)}: {e}.") from e


class _Targets:
    """Targets by number; labels are read without their samples."""

    def __init__(self, part: Part, targets: Targets) -> None:
        self._part = part
        self._targets = targets

    def __getitem__(self, k: int) -> Array:
        labels = self._part.labels
        return self._targets.apply(self._part.read(k).targets[0] if labels is None else labels[k])


def new_samples(
    source: Source,
    record: Record,
    inputs: Sequence[TensorSpec],
    losses: Sequence[tuple[str, TensorSpec]] = (),
    targets: Sequence[TensorSpec] = (),
    quantizations: Quantizations = (),
) -> DataSet:
    """Returns samples of a source for a model, preprocessed when they are read.

    Args:
        source: the source, with one part.
        record: its record.
        inputs: shape and dtype of one sample of each input of the model.
        losses: name of each loss and the output that it reads, to evaluate; empty to predict.
        targets: shape and dtype of one sample of the targets of each loss.
        quantizations: as in open_columns.

    Raises:
        DataError: if the model has several inputs, or targets are needed and there are none.
    """
    (part,) = source.parts.values()
    if len(inputs) != 1:
        raise DataError(
            f"{source.name}: the model must have one input, but has {len(inputs)}. Make data files "
            "with odt gen-datafile."
        )
    length = length_of(part)
    stored = quantizations[0] if quantizations else None
    steps = for_model(record, inputs[0], quantized=stored is not None)
    rows = cast(Any, _Inputs(source, part, steps))
    column = SourceColumn(f"{source.name}: input", inputs[0], length, rows, quantization=stored)
    if not losses:
        return DataSet([column])
    if len(losses) != 1 or not (source.classes or (length and part.read(0).targets)):
        raise DataError(
            f"{source.name}: must have targets to evaluate one output: folders that are named by "
            f"the classes ({listed(record.classes) or 'none'}), or target columns of a table."
        )
    ((name, output),) = losses
    if source.classes and len(source.classes) != max(2, *output.shape[-1:]):
        raise DataError(
            f"{source.name}: the model must have an output for each of {len(source.classes)} "
            f"classes of the record, but has {output}."
        )
    one_hot = LOSSES[name].targets != LABELS
    labels = cast(Any, _Targets(part, Targets(source.classes, one_hot)))
    expected = SourceColumn(f"{source.name}: expected output", targets[0], length, labels)
    return DataSet([column], [expected], [target_check(name, output)])
