"""A preprocessing record in a model: its entries, the label file, and what other runtimes say."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.judges import litert, onert, random_inputs
from support.mutations import mutations
from support.paths import MODELS

from odt.core.export.exporter import add_training_info, export_model, remove_training_info
from odt.core.export.record_metadata import differing_normalization
from odt.core.formats.flatbuffer.appended_zip import appended_archive, offset_patches
from odt.core.formats.flatbuffer.metadata_edit import edit_metadata
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.formats.flatbuffer.tflite_metadata import (
    NAME,
    associated_file,
    read_metadata,
    read_record,
)
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.model.record import ENTRY, Record, parse_record
from odt.core.model.training_info import TrainingInfo
from odt.errors import DataError

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
WAND = MODELS / "tflm-magic-wand-float.tflite"
PHOTOS = Record(
    "image",
    (
        {"step": "color", "to": "rgb"},
        {"step": "resize", "height": 32, "width": 32, "method": "area", "fit": "crop"},
        {"step": "scale", "to": "0..1"},
        {"step": "mean and std", "mean": [0.5, 0.25, 0.0], "std": [0.5, 1.0, 2.0]},
        {"step": "dtype", "dtype": "float32"},
    ),
    (*(f"class {k}" for k in range(9)), "größer"),
)
SOUNDS = Record("sound", ({"step": "mean and std", "mean": [3.0], "std": [2.0]},), tuple("abcd"))


def exported(model: Model, path: Path, record: Record, file_format: str | None = None) -> Model:
    export_model(model, {}, path, file_format, record=record)
    return read_model(path)


def strict_archive(path: Path) -> dict[str, bytes]:
    """Files of the appended archive, found by offsets from the beginning of the file alone."""
    data = path.read_bytes()
    end = data.rindex(b"PK\5\6")
    count, _, start = struct.unpack_from("<HII", data, end + 10)
    found = {}
    for _ in range(count):
        assert data[start : start + 4] == b"PK\1\2"
        name, extra, comment = struct.unpack_from("<3H", data, start + 28)
        nbytes, local = struct.unpack_from("<I", data, start + 20)[0], 0
        (local,) = struct.unpack_from("<I", data, start + 42)
        assert data[local : local + 4] == b"PK\3\4"
        begin = local + 30 + sum(struct.unpack_from("<2H", data, local + 26))
        found[data[start + 46 : start + 46 + name].decode()] = data[begin : begin + nbytes]
        start += 46 + name + extra + comment
    return found


@pytest.mark.parametrize("source", [RESNET, MODELS / "test_onnx.circle"], ids=lambda p: p.name)
def test_a_record_is_read_back_and_all_other_bytes_stay(source: Path, tmp_path: Path) -> None:
    path = tmp_path / f"new{source.suffix}"
    new = exported(read_model(source), path, PHOTOS)
    assert read_record(new) == PHOTOS
    assert source.read_bytes() in path.read_bytes()
    assert [n for n in new.metadata if n not in (ENTRY, NAME)] == [*read_model(source).metadata]
    assert (NAME in new.metadata) == (source.suffix == ".tflite")


def test_normalization_and_labels_are_in_the_form_of_tflite(tmp_path: Path) -> None:
    new = exported(read_model(RESNET), tmp_path / "m.tflite", PHOTOS)
    content = read_metadata(new)
    assert content is not None
    (graph,) = content["subgraph_metadata"]
    (tensor,), (output,) = graph["input_tensor_metadata"], graph["output_tensor_metadata"]
    (unit,) = tensor["process_units"]
    pixels = np.array([0.0, 100.0, 255.0])[:, None]
    wanted = (pixels / 255 - [0.5, 0.25, 0.0]) / [0.5, 1.0, 2.0]
    options = unit["options"]
    np.testing.assert_allclose((pixels - options["mean"]) / options["std"], wanted, atol=1e-6)
    np.testing.assert_allclose(tensor["stats"]["min"], wanted[0], atol=1e-6)
    np.testing.assert_allclose(tensor["stats"]["max"], wanted[2], atol=1e-6)
    assert tensor["content"]["content_properties"] == {"color_space": 1}
    (file,) = output["associated_files"]
    assert file["type"] == 2
    labels = strict_archive(tmp_path / "m.tflite")[file["name"].decode()]
    assert labels.decode().splitlines() == list(PHOTOS.classes)


@pytest.mark.parametrize(("source", "record"), [(RESNET, PHOTOS), (WAND, SOUNDS)])
def test_litert_and_onert_run_it_as_before(source: Path, record: Record, tmp_path: Path) -> None:
    x = random_inputs(source, 3)
    before = litert(source, x)
    exported(read_model(source), tmp_path / "m.tflite", record)
    exported(read_model(source), tmp_path / "new.circle", record, "circle")
    np.testing.assert_array_equal(litert(tmp_path / "m.tflite", x)[0], before[0])
    np.testing.assert_allclose(
        onert(tmp_path / "new.circle", x, tmp_path)[0].reshape(before[0].shape),
        before[0],
        atol=1e-5,
    )


def test_the_same_record_again_changes_no_byte(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{k}.tflite" for k in range(3))
    model = exported(read_model(RESNET), first, PHOTOS)
    exported(model, second, PHOTOS)
    assert first.read_bytes() == second.read_bytes()
    other = Record("image", PHOTOS.steps[:3], PHOTOS.classes)
    new = exported(model, third, other)
    assert read_record(new) == other
    assert associated_file(new, "odt-labels.txt").decode().splitlines() == list(PHOTOS.classes)
    assert len(third.read_bytes()) < len(first.read_bytes()) + 256
    mean = read_metadata(new)["subgraph_metadata"][0]["input_tensor_metadata"][0]  # type: ignore[index]
    assert mean["process_units"][0]["options"]["std"].tolist() == [255.0]


def test_training_info_and_record_stand_together(tmp_path: Path) -> None:
    source = MODELS / "test_onnx.circle"
    plus, both, bare = (tmp_path / f"{n}.circle" for n in ("plus", "both", "bare"))
    add_training_info(read_model(source), TrainingInfo(loss="mean_squared_error"), plus)
    new = exported(read_model(plus), both, SOUNDS)
    assert set(new.metadata) >= {"CIRCLE_TRAINING", ENTRY}
    remove_training_info(new, bare)
    assert read_record(read_model(bare)) == SOUNDS
    assert "CIRCLE_TRAINING" not in read_model(bare).metadata
    removed = edit_metadata(read_model(bare), {ENTRY: None}, b"CIR0")
    assert bare.read_bytes()[removed.begin :] == source.read_bytes()


def foreign(path: Path, mean: list[float], tmp_path: Path) -> Model:
    """A model with TFLite Model Metadata of another author, and its archive at the end."""
    record = Record("image", ({"step": "mean and std", "mean": mean, "std": [64.0]},), ("x", "y"))
    new = exported(read_model(path), tmp_path / "draft.tflite", record)
    data = (tmp_path / "draft.tflite").read_bytes()
    author = data.index(b"\3\0\0\0odt\0")
    new_data = data[: author + 4] + b"her" + data[author + 7 :]
    file = io.BytesIO(new_data)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("labels.txt", "\n".join(PHOTOS.classes))
        archive.writestr("readme.txt", "by her")
    (tmp_path / "foreign.tflite").write_bytes(file.getvalue())
    assert NAME in new.metadata
    model = read_model(tmp_path / "foreign.tflite")
    return parse_model(_without(model), model.path)


def _without(model: Model) -> memoryview:
    """The model without odt's own entry: its name is another one."""
    name = ENTRY.encode()
    return memoryview(bytes(model.data).replace(name, b"X" + name[1:]))


def test_metadata_and_files_of_others_survive(tmp_path: Path) -> None:
    model = foreign(RESNET, [10.0], tmp_path)
    old = bytes(model.buffer(model.metadata[NAME]))
    new = exported(model, tmp_path / "new.tflite", PHOTOS)
    assert bytes(new.buffer(new.metadata[NAME])) == old
    assert read_record(new) == PHOTOS
    files = strict_archive(tmp_path / "new.tflite")
    assert (files["labels.txt"].decode().splitlines(), files["readme.txt"]) == (
        list(PHOTOS.classes),
        b"by her",
    )
    assert differing_normalization(model, PHOTOS) == (
        "mean 10 and std 64",
        "mean 127.5,63.75,0 and std 127.5,255,510",
    )


def test_metadata_of_others_is_a_record(tmp_path: Path) -> None:
    record = read_record(foreign(RESNET, [10.0], tmp_path))
    assert record is not None
    assert record.kind == "image"
    steps = {step["step"]: step for step in record.steps}
    assert (steps["resize"]["height"], steps["resize"]["width"]) == (32, 32)
    assert (steps["mean and std"]["mean"], steps["mean and std"]["std"]) == ([10.0], [64.0])
    assert read_record(read_model(RESNET)) is None


def test_any_bytes_of_metadata_are_a_record_or_none(tmp_path: Path) -> None:
    record = Record("image", PHOTOS.steps, ("a", "b", "c", "d"))
    model = exported(read_model(WAND), tmp_path / "m.tflite", record)
    at, size = model.spans[model.metadata[NAME]]
    data = bytes(model.data).replace(ENTRY.encode(), b"X" * len(ENTRY))
    records = 0
    for changed in mutations(data[at : at + size], 300, seed=1):
        damaged = data[:at] + changed[:size].ljust(size, b"\0") + data[at + size :]
        records += read_record(parse_model(memoryview(damaged), "damaged")) is not None
    assert records > 20


def test_an_archive_may_count_from_its_own_beginning() -> None:
    own, whole = io.BytesIO(), io.BytesIO(b"model" * 20)
    for file in (own, whole):
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(zipfile.ZipInfo("labels.txt"), "cat")
    appended = b"model" * 20 + own.getvalue()
    assert whole.getvalue() != appended
    for data in (whole.getvalue(), appended):
        assert appended_archive(memoryview(data)) == own.getvalue()
    assert offset_patches(memoryview(appended), 8) == []
    assert appended_archive(memoryview(b"model" * 20)) == b""


def test_archives_that_lie_are_left_alone() -> None:
    file = io.BytesIO(b"model" * 20)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("a", "b")
    data = bytearray(file.getvalue())
    assert len(offset_patches(memoryview(bytes(data)), 8)) == 2
    for at in range(100, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        for place, new in offset_patches(memoryview(bytes(damaged)), 8):
            assert 100 <= place <= len(data) - len(new)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b"{}", b'{"format":"odt-preprocessing","version":2,"kind":"image"}',
     b'{"format":"odt-preprocessing","version":1,"kind":"image","classes":[1]}',
     b'{"format":"odt-preprocessing","version":1,"kind":"smell"}',
     b'{"format":"odt-preprocessing","version":1,"kind":"image","preprocessing":[1]}'],
)  # fmt: skip
def test_a_damaged_record_is_one_line(data: bytes) -> None:
    with pytest.raises(DataError, match=r"^m.tflite: its metadata entry ODT_PREPROCESSING must"):
        parse_record("m.tflite", data)
