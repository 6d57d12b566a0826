"""QUANTIZE and DEQUANTIZE in the tables of a model."""

from typing import Any

from odt.core.formats.flatbuffer.schema_tables import code_of


def conversion(codes: list[dict[str, Any]], op: str, x: int, y: int) -> dict[str, Any]:
    """Returns the table Operator of a QUANTIZE or DEQUANTIZE from tensor x to tensor y.

    Args:
        codes: tables OperatorCode of the model, to which that of the operator is added if it is
            new.
        op: the operator.
        x, y: input and output.
    """
    return {
        "opcode_index": code_index(codes, op),
        "inputs": [x],
        "outputs": [y],
        "builtin_options_type": code_of("BuiltinOptions", f"{op.capitalize()}Options"),
        "builtin_options": {},
    }


def code_index(codes: list[dict[str, Any]], op: str) -> int:
    """Returns the index of an operator of version 1 in the operator codes; adds it if it is new."""
    number = code_of("BuiltinOperator", op)
    code = {"builtin_code": number, "deprecated_builtin_code": min(number, 127)}
    if code not in codes:
        codes.append(code)
    return codes.index(code)
