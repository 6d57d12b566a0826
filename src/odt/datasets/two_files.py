"""A data set in two files, one for training and one for testing, with the classes of the first."""

from dataclasses import replace

from odt.core.storage.reading import listed
from odt.datasets.labels import RelabeledPart
from odt.datasets.open_source import open_source
from odt.datasets.source import Source
from odt.datasets.source_format import Opening
from odt.errors import DataError


def with_test_source(training: Source, opening: Opening) -> Source:
    """Returns the training data with the samples of a second source as the part `test`.

    Args:
        training: a source of one part, which becomes the part `train`.
        opening: the second source. Columns and words of a table are those of the first.

    Raises:
        DataError: if a source has parts of its own, or the second has other classes.
    """
    table = replace(opening.table, like=training.table, classes=training.classes)
    testing = open_source(replace(opening, table=table))
    for source in (training, testing):
        if [*source.parts] != ["all"]:
            raise DataError(
                f"{source.name}: must come in one piece beside `test_source=`, but has "
                f"{listed(source.parts)}."
            )
    other = [name for name in testing.classes if name not in training.classes]
    if other or bool(testing.classes) != bool(training.classes):
        raise DataError(
            f"{testing.name}: must have the classes of {training.name} "
            f"({listed(training.classes) or 'none'}), but got {listed(testing.classes) or 'none'}."
        )
    part = testing.parts["all"]
    if testing.classes != training.classes:
        part = RelabeledPart(part, [training.classes.index(c) for c in testing.classes])
    origin = {**training.origin, "test source": testing.name}
    files = (*training.files, *testing.files)
    parts = {"train": training.parts["all"], "test": part}
    return replace(
        training,
        parts=parts,
        origin=origin,
        files=files,
        overlap=0,
        notes=(*training.notes, *testing.notes),
        remarks={**training.remarks, **testing.remarks},
        faults=(*training.faults, *(f"{testing.name}: {fault}" for fault in testing.faults)),
    )
