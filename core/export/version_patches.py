"""Raises versions of operators in place, where they are too low for the trained weights.

Runtimes of 2024 read only the first scale of FULLY_CONNECTED with int8 weights that have one for
each unit. Earlier writers gave such operators a version that these runtimes accept.
"""

import struct
from collections.abc import Iterator

from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer, Table
from odt.core.formats.flatbuffer.flatbuffer_edit import Patch
from odt.core.formats.flatbuffer.operator_options import operator_name
from odt.core.formats.flatbuffer.operator_versions import builtin_code, operands_version
from odt.core.formats.flatbuffer.schema_tables import unpack
from odt.core.formats.flatbuffer.slots import (
    ModelSlot,
    OperatorCodeSlot,
    OperatorSlot,
    SubGraphSlot,
)
from odt.core.model.model import Model
from odt.kernels.rows.quantized_index import QUANTIZED

HYBRID = frozenset(op for op, row in QUANTIZED.items() if row.hybrid)


def version_patches(model: Model) -> Iterator[Patch]:
    """Yields patches for versions of operators on real numbers that read weights of integers.

    Version 1 has no bytes in a file, and stays.
    """
    root = FlatBuffer(model.path, model.data).root()
    codes = list(root.tables(ModelSlot.OPERATOR_CODES, "operator code"))
    names = [operator_name(builtin_code(unpack(t, "OperatorCode"))) for t in codes]
    if not set(names).intersection(HYBRID):
        return
    versions: dict[int, int] = {}
    for graph in root.tables(ModelSlot.SUBGRAPHS, "subgraph"):
        tensors = list(graph.tables(SubGraphSlot.TENSORS, "tensor"))
        for operator in graph.tables(SubGraphSlot.OPERATORS, "operator"):
            k = operator.number(OperatorSlot.OPCODE_INDEX, "I")
            if k < len(names) and names[k] in HYBRID:
                version = _needed_version(str(names[k]), operator, tensors)
                versions[k] = max(versions.get(k, 1), version)
    for k, version in versions.items():
        place = codes[k].place(OperatorCodeSlot.VERSION, 4)
        if place and codes[k].number(OperatorCodeSlot.VERSION) < version:
            yield place, struct.pack("<i", version)


def _needed_version(op: str, operator: Table, tensors: list[Table]) -> int:
    """The version that an operator needs; 1 if its weights are no integers."""
    inputs = operator.numbers(OperatorSlot.INPUTS, "inputs")
    outputs = operator.numbers(OperatorSlot.OUTPUTS, "outputs")
    if any(not 0 <= i < len(tensors) for i in (*inputs[:2], *outputs)) or len(inputs) < 2:
        return 1
    x, w = (unpack(tensors[i], "Tensor") for i in inputs[:2])
    if x.get("type", 0) or not w.get("type", 0):
        return 1
    return operands_version(op, [x, w, None][: len(inputs)], [x], unpack(operator, "Operator"))
