"""New photos, sounds and tables, prepared like the training data of a model."""

from collections.abc import Callable
from typing import TypeAlias

from odt.arguments import checked_arguments
from odt.core.data.dataset import DataSet
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.model.model import Model
from odt.core.model.record import Record
from odt.core.runtime.runtime import Runtime
from odt.dataclass import dataclass
from odt.datasets.new_data import load_record, new_samples, open_new
from odt.datasets.source import Source
from odt.datasets.source_format import Opening
from odt.errors import OdtError

Show: TypeAlias = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class NewData:
    """New photos, sounds or a table, which are prepared like the training data of a model.

    Attributes:
        source: path of an image, a sound, a table, or a folder or archive of files; to evaluate,
            a folder of photos or sounds has one folder for each class.
        record: path of the JSON file of training data, or of another model, whose preprocessing
            record is used; None for the record in the model.
    """

    source: str
    record: str | None = None

    @checked_arguments
    def record_for(self, model: Model) -> Record:
        """Returns the preprocessing record.

        Args:
            model: the model file that is given the data.

        Raises:
            OdtError: if there is none.
        """
        record = load_record(self.record) if self.record else read_record(model)
        if record is None:
            raise OdtError(
                f"{model.path}: must hold a preprocessing record for `source=`, but has none. Give "
                "that of its training data, such as `record=data/train.input.bin.json`."
            )
        return record


@dataclass(frozen=True, slots=True)
class OpenedData:
    """New data that are opened for a model.

    Attributes:
        samples: the samples, prepared when they are read.
        source: the data.
        label: sample → its file or place, or its number if samples have no names.
    """

    samples: DataSet
    source: Source
    label: Callable[[int], str]

    def show_remarks(self, show: Show | None) -> None:
        """Shows what was done to the samples that were read: cut, resampled.

        Args:
            show: called with each note; None for none.
        """
        if show is not None:
            for remark in self.source.remark_notes():
                show(remark)


def open_source(
    path: str,
    record: Record,
    show: Show | None = None,
    *,
    new_classes: bool = False,
    labeled: bool = False,
    targets: bool = True,
    full_size: bool = False,
) -> Source:
    """Opens new data of the kind of a record.

    Args:
        path: the data.
        record: the record.
        show: called with each note about the data.
        new_classes: whether folders name classes that the record need not have.
        labeled: whether files without a class of the record are left out.
        targets: whether targets are read, if there are any.
        full_size: whether photos are read in their own size, and resized afterwards.

    Raises:
        DataError: if the data are of another kind, or cannot be opened.
    """
    source = open_new(
        Opening(path),
        record,
        new_classes=new_classes,
        labeled=labeled,
        targets=targets,
        full_size=full_size,
    )
    if show is not None:
        for note in source.notes:
            show(note)
    return source


def open_labeled(path: str, record: Record, specs: Runtime, show: Show | None) -> OpenedData:
    """Opens new data with targets, to evaluate a model.

    Args:
        path: the data.
        record: the record.
        specs: specs of the model's samples.
        show: called with each note about the data.

    Raises:
        DataError: if the data do not fit the model, or have no targets.
    """
    source = open_source(path, record, show, labeled=True)
    (part,) = source.parts.values()
    targets = specs.losses, specs.target_specs
    samples = new_samples(source, record, specs.input_specs, *targets, specs.quantizations)
    return OpenedData(samples, source, part.label_of)


def open_inputs(
    path: str, record: Record, specs: Runtime, show: Show | None, *, full_size: bool = False
) -> OpenedData:
    """Opens new data without targets; arguments and errors as of `open_source`.

    Args:
        path: the data.
        record: the record.
        specs: specs of the model's samples.
        show: called with each note about the data.
        full_size: whether photos are read in their own size, and resized afterwards.
    """
    source = open_source(path, record, show, targets=False, full_size=full_size)
    (part,) = source.parts.values()
    samples = new_samples(source, record, specs.input_specs, quantizations=specs.quantizations)
    numbered = source.kind == "features" and not source.origin.get("left out")
    return OpenedData(samples, source, str if numbered else part.label_of)
