"""Numbers of inputs and outputs of operators that odt treats without a row of kernels/ops."""

from collections.abc import Sequence

from odt.core.formats.flatbuffer.flatbuffer import DAMAGED
from odt.core.model.graph import ABSENT, Node
from odt.errors import ModelError

MANY = 10  # more inputs than any of these operators has
# Operator → possible numbers of inputs, and number of outputs.
ARITIES = {
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE", "DENSIFY", "READ_VARIABLE"), (range(1, 2), 1)),
    "VAR_HANDLE": (range(1), 1),
    "ASSIGN_VARIABLE": (range(2, 3), 0),
    "SVDF": (range(4, 6), 1),
    **{
        f"CUSTOM:{flex}TensorList{name}": (range(count, MANY), 1)
        for flex in ("Flex", "")
        for name, count in {
            "Reserve": 2,
            "FromTensor": 1,
            "SetItem": 3,
            "GetItem": 2,
            "Stack": 1,
        }.items()
    },
}


def check_arities(path: str, nodes: Sequence[Node]) -> None:
    """Checks numbers of inputs and outputs.

    Args:
        path: name of the file in messages.
        nodes: nodes as in the file.

    Raises:
        ModelError: if an operator has other numbers; names the first one.
    """
    for node in nodes:
        if node.op not in ARITIES:
            continue
        inputs, outputs = ARITIES[node.op]
        count = sum(i != ABSENT for i in node.inputs)
        if count in inputs and len(node.outputs) == outputs:
            continue
        most = inputs.stop - 1
        numbers = f"{most}" if inputs.start == most else f"{inputs.start} to {most}"
        raise ModelError(
            f"{path}: operator {node.origin} ({node.op}): must have {numbers} inputs and {outputs} "
            f"outputs, but got {count} and {len(node.outputs)}. {DAMAGED}"
        )
