"""The wire format of protocol buffers: numbers, fields, limits."""

import pytest
from support.onnx_files import message, varint

from odt.core.formats import protobuf
from odt.core.formats.protobuf import (
    Field,
    MessageReader,
    ProtobufError,
    Span,
    Table,
    read_fields,
    read_packed,
    read_varint,
)

INNER: Table = {1: Field("a", "int")}
TABLE: Table = {
    1: Field("number", "int"),
    2: Field("numbers", "int", many=True),
    3: Field("name", "text"),
    4: Field("inner", INNER),
    5: Field("inners", INNER, many=True),
    6: Field("raw", "bytes"),
    7: Field("f", "float"),
    8: Field("doubles", "double", many=True),
}
EDGES = [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)]  # of numbers


def read(data: bytes) -> protobuf.Message:
    return MessageReader(memoryview(data)).read(Span(0, len(data)), TABLE)


@pytest.mark.parametrize("value", EDGES)
def test_numbers_are_signed_and_have_64_bits(value: int) -> None:
    assert read(message((1, value))) == {"number": value}
    assert read_varint(memoryview(varint(value)), 0, 10)[0] == value % 2**64


def test_packed_and_single_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "BLOCK", 16)  # bytes; the longest numbers have 10
    single = message(*((2, n) for n in EDGES))
    packed = message((2, b"".join(map(varint, EDGES))))
    for data, count in ((single, 1), (packed, 1), (single + packed, 2), (packed * 2, 2)):
        reader = MessageReader(memoryview(data))
        values = reader.read(Span(0, len(data)), TABLE)["numbers"]
        assert reader.numbers(values).tolist() == EDGES * count
    assert MessageReader(memoryview(b"")).numbers([]).tolist() == []
    assert read_packed(memoryview(b""), Span(0, 0)).tolist() == []


@pytest.mark.parametrize("at", [0, 1, 15, 16, 40])
def test_packed_numbers_end_within_their_field(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "BLOCK", 16)
    for fault in (b"\x80", b"\x80" * 10 + b"\1", b"\x80" * 30):
        data = memoryview(b"." + b"\1" * at + fault)
        with pytest.raises(ProtobufError, match=f"without an end at byte {at + 1}$"):
            read_packed(data, Span(1, len(data) - 1))


def test_messages_text_and_unknown_fields() -> None:
    inner = message((1, 9))
    data = message((3, "né"), (4, inner), (5, inner), (5, inner), (77, b"unknown"), (78, 1.5))
    assert read(data) == {"name": "né", "inner": {"a": 9}, "inners": [{"a": 9}] * 2}


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"\x80" * 11, "must end within 10 bytes"),
        (b"\x80", "must end within 10 bytes"),
        (b"\x02\x01a", "a number above 0"),
        (b"\x0b", "wire type of a field must be 0, 1, 2 or 5, but got 3"),
        (b"\x1a\x05abc", "must end with its message, at byte 5, but got 5 bytes"),
        (message((4, b""), (4, b"")), "must have one inner, but got two"),
        (message((3, 1)), "name must have wire type 2, but got 0"),
        (message((1, b"1")), "number must have wire type 0, but got 2"),
        (message((2, 1.5)), "numbers must have wire type 0, but got 5"),
        (message((6, 1.5)), "raw must have wire type 2, but got 5"),
        (message((7, b"")), "f must have wire type 5, but got 2"),
        (b"\x39" + bytes(8), "f must have wire type 5, but got 1"),
        (message((8, 1.5)), "doubles must have wire type 1, but got 5"),
        (message((8, bytes(12))), "doubles must have 8 bytes for each number, but got 12"),
    ],
)
def test_faults_name_rule_and_values(data: bytes, rule: str) -> None:
    with pytest.raises(ProtobufError, match=rule):
        read(data)


def test_fields_before_a_fault_are_yielded() -> None:
    data = message((1, 5), (3, "ab")) + b"\x80"
    fields = read_fields(memoryview(data), Span(0, len(data)))
    assert [next(fields)[0], next(fields)[0]] == [1, 3]
    with pytest.raises(ProtobufError):
        next(fields)


def test_depth_and_number_of_fields_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    nested: dict[int, Field] = {}
    nested[1] = Field("inner", nested)
    data = b""
    for _ in range(protobuf.MAX_DEPTH + 2):
        data = message((1, data))
    with pytest.raises(ProtobufError, match="at most 32 deep"):
        MessageReader(memoryview(data)).read(Span(0, len(data)), nested)
    monkeypatch.setattr(protobuf, "MAX_FIELDS", 100)
    assert len(read(message(*[(2, 0)] * 100))["numbers"]) == 100
    with pytest.raises(ProtobufError, match="at most 100 fields"):
        read(message(*[(2, 0)] * 101))
