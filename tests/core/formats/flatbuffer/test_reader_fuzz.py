"""Damaged models give a Model or a ModelError in bounded time: some here, more in accept."""

import time
from contextlib import suppress
from pathlib import Path

import flatbuffers
import pytest
from support.damaged_integers import packed_net
from support.limits import SECONDS
from support.lowering import lower
from support.mutations import mutations
from support.paths import MODELS

from odt.core.export.format_edit import format_edit
from odt.core.formats.flatbuffer.metadata_edit import edit_metadata
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.training_info import METADATA_NAME
from odt.errors import ModelError, OdtError

SMALL = [p for p in sorted(MODELS.glob("*.*[te]")) if p.stat().st_size < 100_000]


def survives(data: bytes, number: int) -> bool:
    """Whether it is still a model; anything but a ModelError is a failure."""
    begin = time.process_time()
    model, error = None, ""
    try:
        model = parse_model(memoryview(data), "damaged")
        stored_training_info(model)
        format_edit(model, "circle" if model.format == "tflite" else "tflite")
        edit_metadata(model, {METADATA_NAME: bytes(92)}, b"CIR0")
    except ModelError as e:
        error = str(e)
    assert time.process_time() - begin < SECONDS, number
    assert "\n" not in error, number
    if error or model is None:
        assert error.startswith("damaged: "), number
        return False
    for tensor in model.graph.tensors:
        if tensor.data is not None and tensor.spec.dtype.kind != "V":
            assert tensor.data.shape == tensor.spec.shape, number
            assert tensor.data.dtype == tensor.spec.dtype, number
    return True


def damage(path: Path, count: int, seed: int) -> None:
    whole = [survives(d, i) for i, d in enumerate(mutations(path.read_bytes(), count, seed))]
    assert 0 < sum(whole) < count, "mutations must be neither harmless nor all fatal"


@pytest.mark.parametrize("path", SMALL, ids=lambda p: p.name)
def test_damaged_models(path: Path) -> None:
    damage(path, 2000 // len(SMALL) + 1, seed=0)


@pytest.mark.accept
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.*[te]")), ids=lambda p: p.name)
def test_damaged_models_at_length(path: Path) -> None:
    damage(path, 20_000 // len(list(MODELS.glob("*.*[te]"))) + 1, seed=1)


@pytest.mark.parametrize(
    "count", [300, pytest.param(20_000, marks=pytest.mark.accept)], ids=["some", "many"]
)
def test_damaged_scales_of_blocks_and_new_types(count: int, tmp_path: Path) -> None:
    packed_net(tmp_path / "packed.tflite")
    read = lowered = 0
    for number, data in enumerate(mutations((tmp_path / "packed.tflite").read_bytes(), count, 4)):
        begin, error = time.process_time(), ""
        try:
            model = parse_model(memoryview(data), "damaged")
            read += 1
            lower(dequantize_weights(model).graph, 2)
            lowered += 1
        except OdtError as e:
            error = str(e)
        assert error.isprintable(), number
        assert time.process_time() - begin < SECONDS, number
    assert 0 < lowered < read < count


@pytest.mark.parametrize("path", SMALL, ids=lambda p: p.name)
def test_damaged_models_are_lowered_or_refused(path: Path) -> None:
    for data in mutations(path.read_bytes(), 100, seed=2):
        with suppress(OdtError):
            lower(parse_model(memoryview(data), "damaged").graph, 2)


def repeated(count: int, text: str) -> bytes:
    """A model whose tensor list names one table over and over."""
    builder = flatbuffers.Builder(1024)
    name = builder.CreateString(text)
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(3, name, 0)
    tensor = builder.EndObject()
    builder.StartVector(4, count, 4)
    for _ in range(count):
        builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, tensors, 0)
    graph = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(2, graphs, 0)
    builder.Finish(builder.EndObject(), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize(("count", "text"), [(100_000, "x"), (1000, "\n" * 60_000), (300_000, "")])
def test_lists_that_share_their_entries_cost_no_time(count: int, text: str) -> None:
    assert not survives(repeated(count, text), count)


@pytest.mark.parametrize("at", [0, 5_000_000])
def test_ten_megabytes_of_anything(at: int) -> None:
    data = bytearray(10_000_000)
    data[4:8] = b"TFL3"
    data[:4] = at.to_bytes(4, "little")
    assert not survives(bytes(data), at)
    data[8:] = b"\xff" * (len(data) - 8)
    assert not survives(bytes(data), at)
