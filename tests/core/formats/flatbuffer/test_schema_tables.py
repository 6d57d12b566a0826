"""Tables of the schema are those that the published classes of Circle and TFLite read and write."""

from importlib import metadata
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from circle_schema.v0_10 import circle
from support.mutations import mutations
from support.paths import GOLDEN, MODELS
from write_circle_schema import LITERT_VERSION, PAGE, RENAMED, page

from odt.core.formats.flatbuffer.flatbuffer import CIRCLE, TFLITE, FlatBuffer
from odt.core.formats.flatbuffer.schema_tables import (
    ENUMERATIONS_OF,
    NUMBERS,
    TABLES_OF,
    TEXT,
    Field,
    fields_of,
    pack,
    unpack,
)
from odt.errors import ModelError
from odt.schemas.circle import ENUMERATIONS, TABLES, TFLITE_TABLES

FILES = [*sorted(MODELS.glob("*.tflite")), MODELS / "while_000.circle"]
FILES += [GOLDEN / "mnist" / "model.circle", MODELS / "test_onnx.circle"]
CIRCLE_NAMES = {new: old for old, new in RENAMED.items()}

OTHERWISE = {  # in the package tflite
    ("OperatorCode", "builtin_code"),  # the package reads deprecated_builtin_code too
}
NO_WHEEL = "ai-edge-litert has no wheel for this Python"


def litert() -> Any:
    """The classes of LiteRT's schema."""
    return pytest.importorskip("ai_edge_litert.schema_py_generated", reason=NO_WHEEL)


def test_the_tables_are_those_of_the_packages() -> None:
    """Run python tools/write_circle_schema.py if this fails."""
    litert()
    if metadata.version("ai-edge-litert") != LITERT_VERSION:
        pytest.skip(f"needs ai-edge-litert {LITERT_VERSION}")
    assert page() == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["BuiltinOperator", "BuiltinOptions", "BuiltinOptions2"])
def test_the_names_of_tflite_are_circles(name: str) -> None:
    members = vars(getattr(tflite, name)).items()
    wanted = {(v, k) for k, v in members if isinstance(v, int) and not k.startswith("__")}
    assert len(wanted) > 20
    assert wanted <= ENUMERATIONS[name].items()


@pytest.mark.parametrize("name", ["TensorType", "QuantizationDetails", "BuiltinOperator"])
def test_the_codes_of_tflite_are_those_of_litert(name: str) -> None:
    """Circle's UINT4 has another code than TFLite's, and its scales of blocks, too."""
    members = vars(getattr(litert(), name)).items()
    wanted = {v: k for k, v in members if isinstance(v, int) and not k.startswith("__")}
    codes = ENUMERATIONS_OF[TFLITE][name]
    assert {code: n for code, n in codes.items() if code >= 0} == wanted


def value_of(field: Field) -> Any:
    """A value that is not the field's default, and other than those of its neighbors."""
    number = field.slot + 3
    if field.is_vector:
        return [True, False] if field.kind == "?" else [number, number + 1]
    if field.kind == TEXT:
        return b"text %d" % number
    return not field.default if field.kind == "?" else type(field.default)(number)


def methods(view: Any, field: Field, circle_name: bool) -> Any:
    """What a generated class reads for a field; None if its schema is older than the field."""
    name = CIRCLE_NAMES.get(field.name, field.name) if circle_name else field.name
    camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    read = getattr(view, f"{camel}AsNumpy" if field.is_vector else camel, None)
    return read() if read else None


@pytest.mark.parametrize("name", sorted(TABLES))
def test_generated_classes_read_what_is_packed(name: str) -> None:
    """Slots, types and defaults of every table of numbers and strings."""
    fields = fields_of(name)
    unions = {f"{f.name}_type" for f in fields if f.kind in ENUMERATIONS}
    plain = [f for f in fields if f.kind in (*NUMBERS, TEXT) and f.name not in unions]
    for values in ({f.name: value_of(f) for f in plain}, {}):
        builder = flatbuffers.Builder()
        builder.Finish(pack(builder, name, values))
        data = bytes(builder.Output())
        for package in (circle, tflite):
            if not hasattr(package, name) or (package is tflite and name in TFLITE_TABLES):
                continue
            theirs = getattr(package, name)
            view = getattr(theirs, name, theirs).GetRootAs(data)
            for field in plain:
                found = methods(view, field, package is circle)
                if package is tflite and (name, field.name) in OTHERWISE:
                    continue
                if found is None:
                    assert package is tflite or field.kind == TEXT
                elif field.is_vector:
                    assert np.array_equal(found, values.get(field.name, 0)), field
                else:
                    assert found == values.get(field.name, field.default), field
        assert unpack(FlatBuffer("m", memoryview(data)).root(), name).keys() >= values.keys()


@pytest.mark.parametrize("name", sorted(TFLITE_TABLES))
def test_classes_of_litert_read_what_is_packed(name: str) -> None:
    """Slots, types and defaults of the tables of TFLite that differ from Circle's."""
    fields = fields_of(name, TFLITE)
    plain = [f for f in fields if f.kind in (*NUMBERS, TEXT)]
    for values in ({f.name: value_of(f) for f in plain}, {}):
        builder = flatbuffers.Builder()
        builder.Finish(pack(builder, name, values, TFLITE), b"TFL3")
        data = bytes(builder.Output())
        view = getattr(litert(), name).GetRootAs(data)
        for field in plain:
            actual = methods(view, field, False)
            if field.is_vector:
                assert np.array_equal(actual, values.get(field.name, 0)), field
            else:
                assert actual == values.get(field.name, field.default), field
        assert unpack(FlatBuffer("m", memoryview(data)).root(), name).keys() >= values.keys()


def test_the_schema_follows_the_identifier_of_the_file() -> None:
    """Slot 10 of a tensor is a number of 4 bytes in TFLite files, and of one byte in Circle's."""
    for schema, identifier, field in (
        (TFLITE, b"TFL3", "external_buffer"),
        (CIRCLE, b"CIR0", "compression_type"),
    ):
        assert field in {f.name for f in fields_of("Tensor", schema) if f.slot == 10}
        builder = flatbuffers.Builder()
        builder.Finish(pack(builder, "Tensor", {field: 1}, schema), identifier)
        root = FlatBuffer("m", memoryview(bytes(builder.Output()))).root()
        assert unpack(root, "Tensor") == {field: 1}
    assert TABLES_OF[TFLITE].keys() > TABLES_OF[CIRCLE].keys()


def plain_object(value: Any) -> Any:
    """The fields of an object that circle-schema unpacked."""
    if isinstance(value, list):
        return [plain_object(v) for v in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "__dict__"):
        return {k: plain_object(v) for k, v in vars(value).items()}
    return value


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_model_is_the_same_when_it_is_written_again(path: Any) -> None:
    data = path.read_bytes()
    builder = flatbuffers.Builder()
    source = FlatBuffer("m", memoryview(data))
    values = unpack(source.root(), "Model")
    builder.Finish(pack(builder, "Model", values, source.schema), data[4:8])
    classes = litert() if source.schema == TFLITE else circle.Model
    before, after = (
        plain_object(classes.ModelT.InitFromPackedBuf(d)) for d in (data, builder.Output())
    )
    assert after == before


def test_damaged_bytes_give_tables_or_one_refusal() -> None:
    data, sound = (MODELS / "tflm-hello-world-sine-float.tflite").read_bytes(), 0
    for mutant in mutations(data, 300, seed=6):
        try:
            unpack(FlatBuffer("m", memoryview(mutant)).root(), "Model")
            sound += 1
        except ModelError:
            continue
    assert 0 < sound < 300
