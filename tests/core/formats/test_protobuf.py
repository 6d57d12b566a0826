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
    read_varint,
)

INNER: Table = {1: Field("a", "int")}
TABLE: Table = {
    1: Field("number", "int"),
    2: Field("numbers", "int", many=True),
    3: Field("name", "text"),
    4: Field("inner", INNER),
    5: Field("inners", INNER, many=True),
}


def read(data: bytes) -> protobuf.Message:
    return MessageReader(memoryview(data)).read(Span(0, len(data)), TABLE)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)])
def test_numbers_are_signed_and_have_64_bits(value: int) -> None:
    assert read(message((1, value))) == {"number": value}
    assert read_varint(memoryview(varint(value)), 0, 10)[0] == value % 2**64


def test_packed_and_single_numbers_are_the_same() -> None:
    single = message((2, 5), (2, -7), (2, 300))
    packed = message((2, varint(5) + varint(-7) + varint(300)))
    assert read(single) == read(packed) == {"numbers": [5, -7, 300]}
    assert read(single + packed)["numbers"] == [5, -7, 300] * 2


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
        (message((3, 1)), "name must have the wire type of its kind, but got 0"),
        (message((1, b"1")), "number must have the wire type of its kind, but got 2"),
    ],
)
def test_faults_name_rule_and_values(data: bytes, rule: str) -> None:
    with pytest.raises(ProtobufError, match=rule):
        read(data)


def test_fields_before_a_fault_are_yielded() -> None:
    data = message((1, 5), (3, "ab")) + b"\x80"
    found = []
    with pytest.raises(ProtobufError):
        found += [number for number, _, _ in read_fields(memoryview(data), Span(0, len(data)))]
    fields = read_fields(memoryview(data), Span(0, len(data)))
    assert [next(fields)[0], next(fields)[0]] == [1, 3]


def test_depth_and_number_of_fields_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    nested: dict[int, Field] = {}
    nested[1] = Field("inner", nested)
    data = b""
    for _ in range(protobuf.MAX_DEPTH + 2):
        data = message((1, data))
    with pytest.raises(ProtobufError, match="at most 32 deep"):
        MessageReader(memoryview(data)).read(Span(0, len(data)), nested)
    monkeypatch.setattr(protobuf, "MAX_FIELDS", 100)
    with pytest.raises(ProtobufError, match="at most 100 fields"):
        read(message((2, bytes(101))))
