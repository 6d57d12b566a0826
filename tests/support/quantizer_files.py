"""Copies of shipped files that LiteRT's quantizer takes."""

from pathlib import Path

from odt.core.export.model_tables import model_tables, packed_model
from odt.core.formats.reader import read_model


def for_quantizer(path: Path, folder: Path) -> Path:
    """Writes a copy of a file with a signature and with operators as of the newest schema.

    Without a signature, litert-quantizer takes no samples. It reads operator codes from
    `builtin_code` alone: an operator of a file from before 2020, whose code is in
    `deprecated_builtin_code`, would be ADD, code 0.
    """
    model = read_model(str(path))
    tables = model_tables(model)
    for code in tables["operator_codes"]:
        code.setdefault("builtin_code", code.get("deprecated_builtin_code", 0))
    signature = {"signature_key": b"serving_default", "subgraph_index": 0}
    for field, ends in (("inputs", model.graph.inputs), ("outputs", model.graph.outputs)):
        signature[field] = [
            {"name": f"{field}{k}".encode(), "tensor_index": i} for k, i in enumerate(ends)
        ]
    tables["signature_defs"] = [signature]
    out = folder / "signed.tflite"
    out.write_bytes(packed_model(model, tables))
    return out
