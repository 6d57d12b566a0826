"""Models that are taken apart and put together; messages as the tests' own writer makes them."""

from pathlib import Path

import numpy as np
import pytest
from support import onnx_files
from support.paths import TESTS

from odt.core.formats.onnx import writer
from odt.core.formats.onnx.reader import parse_onnx
from odt.core.formats.onnx.writer import Parts
from odt.core.formats.protobuf import Span, read_fields
from odt.errors import ModelError

GOLDEN = [TESTS / "golden" / "onnx" / f"{name}.onnx" for name in ("mlp", "mobile")]


def fields(data: bytes) -> list[tuple[int, bytes | int]]:
    """Numbers and contents of the fields of a message, in the order of the numbers."""
    found = read_fields(memoryview(data), Span(0, len(data)))
    each = ((n, data[v.offset : v.end] if isinstance(v, Span) else v) for n, _, v in found)
    return sorted(each, key=lambda field: field[0])


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_model_keeps_its_bytes(path: Path) -> None:
    data = path.read_bytes()
    again = b"".join(Parts.from_bytes(memoryview(data)).chunks())
    graphs = [dict(fields(a))[writer.MODEL_GRAPH] for a in (data, again)]
    assert [f for f in fields(data) if f[0] != 7] == [f for f in fields(again) if f[0] != 7]
    first, second = (fields(g) for g in graphs if isinstance(g, bytes))
    assert first == second
    parse_onnx(memoryview(again), "again")


def test_messages_are_those_of_the_tests_writer() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert writer.tensor("w", values) == onnx_files.tensor("w", values)
    assert writer.value_info("x", np.dtype(np.float32), ("N", 3)) == onnx_files.value("x", ("N", 3))
    node = writer.node("Gemm", ["a", "b"], ["y"], "n", attributes={"transB": 1, "alpha": 0.5})
    other = onnx_files.node("Gemm", ["a", "b"], ["y"], name="n", transB=1, alpha=0.5)
    assert [f for f in fields(other) if f != (7, b"")] == fields(node)
    assert writer.message((1, -1)) == b"\x08" + b"\xff" * 9 + b"\x01"


def test_a_model_that_is_too_large_is_refused() -> None:
    huge = np.broadcast_to(np.zeros(1, np.uint8), (1 << 31,)).data
    with pytest.raises(ModelError, match="must have less than 2 GiB"):
        Parts([], [], {"w": huge}, {}, {}, {}, []).chunks()
