"""Rewrites a file so that CONV_2D has filters of int4 instead of int2, which LiteRT computes."""

from collections.abc import Collection

from odt.core.export.model_tables import (
    buffer_entry,
    drop_unused_buffers,
    model_tables,
    rewritten,
)
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.model.model import Model
from odt.core.model.packed_integers import int2_as_int4, pack_integers, unpack_constants


def with_int4_filters(model: Model, filters: Collection[int]) -> Model:
    """Returns a model of the same function, whose constants of int2 are int4.

    Args:
        model: the model.
        filters: the constants, as from `int2_filters`.
    """
    tables = model_tables(model)
    unpacked = unpack_constants(model.graph).tensors
    for i in filters:
        integers, quantization = unpacked[i].data, int2_as_int4(model.quantization[i])
        assert integers is not None, "filters are constants"
        number, k = model.place(i)
        tensor = tables["subgraphs"][number]["tensors"][k]
        tensor["type"] = code_of("TensorType", "INT4", model.format)
        tensor["buffer"] = len(tables["buffers"])
        tables["buffers"].append(buffer_entry(pack_integers(4 * integers, 4)))
        scales = tensor["quantization"]
        scales["scale"], scales["zero_point"] = quantization.scale, quantization.zero_point
    drop_unused_buffers(tables)
    return rewritten(model, tables)
