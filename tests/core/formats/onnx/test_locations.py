"""Names of files with external data, in every message of ONNX that may hold tensors."""

import pytest
from support.onnx_files import message, tensor

from odt.core.formats.onnx.locations import external_locations, relocations
from odt.core.formats.protobuf import ProtobufError


def external(name: str, location: str) -> bytes:
    return tensor(name, [0.0] * 4, "external", (location, "0", "16"))


def model(first: str, inner: str) -> bytes:
    """Tensors in initializers, attributes, graphs of attributes, functions and training graphs."""
    tensors = message((1, "values"), (5, external("c", first)), (10, external("d", inner)))
    pairs = message((1, external("s", first)), (2, external("i", inner)))
    sparse = message((1, "sparse"), (22, pairs), (23, pairs))
    constant = message((4, "Constant"), (5, tensors), (5, sparse))
    branch = message((5, external("b", inner)), (5, tensor("raw", [1.0])), (15, pairs))
    branches = message((1, "then_branch"), (6, branch), (11, branch), (20, 5))
    choice = message((4, "If"), (5, branches))
    graph = message((1, constant), (1, choice), (5, external("w", first)), (2, "graph"))
    function = message((1, "f"), (7, choice), (11, tensors))
    training = message((1, branch), (2, branch))
    return message((1, 8), (7, graph), (8, message((2, 17))), (20, training), (25, function))


def renamed(data: bytes, names: dict[str, str]) -> bytes:
    out, at = bytearray(), 0
    for offset, size, new in sorted(relocations(memoryview(data), names), key=lambda p: p[0]):
        out += data[at:offset] + bytes(new)
        at = offset + size
    return bytes(out + data[at:])


@pytest.mark.parametrize("new", ["v", "w" * 100, "w" * 20_000])
def test_names_change_everywhere(new: str) -> None:
    data = model("w.data", "deep/b.data")
    assert external_locations(memoryview(data)) == ("w.data", "deep/b.data")
    assert renamed(data, {"w.data": new}) == model(new, "deep/b.data")
    assert renamed(data, {"w.data": new, "deep/b.data": "b"}) == model(new, "b")
    assert renamed(renamed(data, {"deep/b.data": new}), {new: "deep/b.data"}) == data


def test_names_that_stay_need_no_patch() -> None:
    data = memoryview(model("w.data", "b.data"))
    assert relocations(data, {"w.data": "w.data", "other": "x"}) == []


def test_damaged_graphs_are_refused() -> None:
    branch = message((1, "then_branch"), (6, b"\x0a\x7f"), (20, 5))
    data = message((1, 8), (7, message((1, message((5, branch))))))
    with pytest.raises(ProtobufError, match="damaged"):
        external_locations(memoryview(data))
