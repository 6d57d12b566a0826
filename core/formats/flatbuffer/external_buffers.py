"""Names the files with the values of tensors that a TFLite file leaves to other files.

Source: ExternalBuffer and ExternalBufferGroup in the schema of LiteRT 2.3.0.
"""

from collections.abc import Mapping, Sequence

from odt.core.formats.flatbuffer.flatbuffer import DAMAGED, Table
from odt.core.formats.flatbuffer.slots import (
    ExternalBufferGroupSlot,
    ExternalBufferSlot,
    ModelSlot,
)
from odt.core.model.graph import MAX_NAME, Tensor, label
from odt.errors import ModelError, one_line

MAX_FILES = 4  # in a message
INSIDE = "Convert the model again with its weights inside: odt reads one file."


def external_error(
    graph: Table, tensors: Sequence[Tensor], external: Mapping[int, int]
) -> ModelError:
    """Returns the error about tensors whose values are in other files.

    Args:
        graph: table of the subgraph.
        tensors: its tensors.
        external: tensor → number of its external buffer.
    """
    root = graph.source.root()
    groups = [
        one_line(table.string(ExternalBufferGroupSlot.NAME, "name"), MAX_NAME)
        for table in root.tables(ModelSlot.EXTERNAL_BUFFER_GROUPS, "external buffer group")
    ]
    group_of = {
        table.number(ExternalBufferSlot.ID, "I"): table.number(ExternalBufferSlot.GROUP, "I")
        for table in root.tables(ModelSlot.EXTERNAL_BUFFERS, "external buffer")
    }
    names: dict[str, None] = {}
    for i, number in external.items():
        group = group_of.get(number, len(groups))
        if group >= len(groups):
            return graph.error(
                f"{label(tensors, i)}: its external buffer must be in the model's list and belong "
                f"to one of {len(groups)} groups, but got number {number}",
                DAMAGED,
            )
        names[groups[group]] = None
    files = [f'"{name}"' for name in names]
    if len(files) > MAX_FILES:
        files[MAX_FILES:] = [f"{len(files) - MAX_FILES} more"]
    first, others = label(tensors, next(iter(external))), len(external) - 1
    beside = f" and {others} more" if others else ""
    plural = "s" if len(names) > 1 else ""
    return graph.error(
        f"{first}{beside}: values must be in the model, but are in the file{plural} "
        f"{', '.join(files)} beside it",
        INSIDE,
    )
