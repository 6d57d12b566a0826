"""Training info goes in and out of a file, and all the rest of the file stays."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from circle_schema.v0_10 import circle as schema
from support.paths import GOLDEN, MODELS

from odt.core.export.exporter import add_training_info, export_model, remove_training_info
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.model.training_info import TrainingInfo
from odt.errors import ModelError

FILES = sorted(MODELS.glob("*.*[te]"))  # .tflite, .circle
SINE = MODELS / "tflm-hello-world-sine-float.tflite"
INFO = TrainingInfo(
    loss="mean_squared_error",
    optimizer="sgd",
    learning_rate=0.01,
    reduction="sum",
    batch_size=4,
    trainable_ops=(0,),
)
INFO_OF_ALL = TrainingInfo(loss="mean_squared_error")
OTHER = TrainingInfo(loss="categorical_crossentropy", hyper_parameters={"beta_1": 0.5})


def stored(model: Model) -> TrainingInfo:
    info = stored_training_info(model)
    assert info is not None
    return TrainingInfo(**info.as_dict())


def plain(value: Any) -> Any:
    """All tables of an unpacked model, as lists and dictionaries."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, list):
        return [plain(v) for v in value]
    if hasattr(value, "__dict__"):
        return {type(value).__name__: {k: plain(v) for k, v in vars(value).items()}}
    return value


def tables(path: Path) -> dict[str, Any]:
    """Every table of the file as circle-schema reads it, by the fields of Model."""
    unpacked = schema.Model.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    return {k: plain(v) for k, v in vars(unpacked).items()}


@pytest.mark.parametrize("source", FILES, ids=lambda p: p.name)
def test_every_table_is_there_as_before_and_the_info_besides(source: Path, tmp_path: Path) -> None:
    plus = tmp_path / "plus.circle"
    add_training_info(read_model(source), INFO, plus)
    before, after = tables(source), tables(plus)
    entry, buffer = after["metadata"].pop(), after["buffers"].pop()
    assert entry["MetadataT"] == {"name": b"CIRCLE_TRAINING", "buffer": len(after["buffers"])}
    assert buffer["BufferT"]["data"][4:8] == b"CTR0"
    before["metadata"] = before["metadata"] or []
    assert after == before
    assert stored(read_model(plus)) == INFO
    assert read_model(plus).format == "circle"


def test_the_bytes_of_the_file_are_all_there(tmp_path: Path) -> None:
    source = GOLDEN / "mnist" / "model.circle"
    add_training_info(read_model(source), INFO, tmp_path / "plus.circle")
    assert (tmp_path / "plus.circle").read_bytes().endswith(source.read_bytes())


def test_a_second_info_takes_the_place_of_the_first(tmp_path: Path) -> None:
    plus, again = tmp_path / "plus.circle", tmp_path / "again.circle"
    add_training_info(read_model(SINE), INFO, plus)
    add_training_info(read_model(plus), OTHER, again)
    assert stored(read_model(again)).loss == OTHER.loss
    assert stored(read_model(again)).hyper_parameters == {"beta_1": 0.5}
    add_training_info(read_model(again), INFO, again)  # over itself
    assert again.read_bytes() == plus.read_bytes()


def test_removing_gives_the_file_back(tmp_path: Path) -> None:
    source, path = GOLDEN / "mnist" / "model.circle", tmp_path / "m.circle"
    add_training_info(read_model(source), INFO, path)
    remove_training_info(read_model(path), path)
    assert path.read_bytes() == source.read_bytes()
    remove_training_info(read_model(path), path)  # nothing to remove
    assert path.read_bytes() == source.read_bytes()


def repacked(path: Path) -> bytes:
    """The file as tools write it that unpack a model and pack it again, such as onert's."""
    unpacked = schema.Model.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    builder = flatbuffers.Builder(1024)
    builder.Finish(unpacked.Pack(builder), b"CIR0")
    return bytes(builder.Output())


def test_the_info_of_another_tool_is_replaced_and_removed(tmp_path: Path) -> None:
    theirs, ours, none = (tmp_path / f"{n}.circle" for n in ("theirs", "ours", "none"))
    add_training_info(read_model(SINE), INFO, ours)
    theirs.write_bytes(repacked(ours))
    add_training_info(read_model(theirs), OTHER, ours)
    names = [m["MetadataT"]["name"] for m in tables(ours)["metadata"]]
    assert names.count(b"CIRCLE_TRAINING") == 1
    assert stored(read_model(ours)).loss == OTHER.loss
    for path in (theirs, ours):
        remove_training_info(read_model(path), none)
        assert stored_training_info(read_model(none)) is None
        assert tables(none)["subgraphs"] == tables(SINE)["subgraphs"]
        assert tables(none)["metadata"] == tables(SINE)["metadata"]


def test_weights_and_info_can_be_written_at_once(tmp_path: Path) -> None:
    model = read_model(SINE)
    tensors = model.graph.tensors
    i = next(i for i, t in enumerate(tensors) if t.data is not None and t.spec.size == 256)
    values = np.arange(256, dtype=np.float32)
    for _ in range(2):  # the second time the file has a front
        export_model(model, {i: values}, tmp_path / "plus.circle", info=INFO)
        model = read_model(tmp_path / "plus.circle")
        assert stored(model) == INFO
        data = model.graph.tensors[i].data
        assert data is not None
        np.testing.assert_array_equal(data.reshape(-1), values)
        values = values + 1


def with_unknown_fields() -> bytes:
    """A model whose root has two fields more than the schema: a number and a text."""
    builder = flatbuffers.Builder(64)
    text = builder.CreateString("from a later schema")
    builder.StartObject(7)
    graph = builder.EndObject()
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    builder.StartObject(10)
    builder.PrependUOffsetTRelativeSlot(2, graphs, 0)
    builder.PrependUint32Slot(8, 0xFFFFFFF1, 0)
    builder.PrependUOffsetTRelativeSlot(9, text, 0)
    builder.Finish(builder.EndObject(), b"CIR0")
    return bytes(builder.Output())


def test_fields_of_a_later_schema_survive_in_the_root(tmp_path: Path) -> None:
    path = tmp_path / "later.circle"
    path.write_bytes(with_unknown_fields())
    add_training_info(read_model(path), INFO_OF_ALL, path)
    root = flatbuffers.table.Table(path.read_bytes(), struct.unpack("<I", path.read_bytes()[:4])[0])
    assert root.Get(flatbuffers.number_types.Uint32Flags, root.Pos + root.Offset(20)) == 0xFFFFFFF1
    assert root.String(root.Pos + root.Offset(22)) == b"from a later schema"
    assert stored(read_model(path)).loss == "mean_squared_error"


@pytest.mark.parametrize("nbytes", [8, 3000])
def test_a_root_whose_fields_are_not_within_it_is_refused(nbytes: int, tmp_path: Path) -> None:
    data, path = bytearray(with_unknown_fields()), tmp_path / "wrong.circle"
    root = struct.unpack_from("<I", data, 0)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    struct.pack_into("<H", data, vtable + 2, nbytes)
    path.write_bytes(data)
    with pytest.raises(ModelError, match=f"bytes for its fields, but got {nbytes}"):
        add_training_info(read_model(path), INFO_OF_ALL, path)
    assert path.read_bytes() == data


def with_data_behind() -> bytes:
    """A model as those beyond 2 GiB are: one constant, its bytes behind the flatbuffer."""
    model = schema.Model.ModelT()
    graph, tensor = schema.SubGraph.SubGraphT(), schema.Tensor.TensorT()
    tensor.shape, tensor.buffer = [4], 1
    graph.tensors, graph.inputs, graph.outputs, graph.operators = [tensor], [], [0], []
    model.subgraphs, model.buffers = [graph], [schema.Buffer.BufferT(), schema.Buffer.BufferT()]
    data = np.array([1, 2, 3, 4], "<f4").tobytes()
    model.buffers[1].size = len(data)
    offset = 2**40
    for _ in range(2):  # the second time the offset is known
        model.buffers[1].offset = offset
        builder = flatbuffers.Builder(64)
        builder.Finish(model.Pack(builder), b"CIR0")
        packed = bytes(builder.Output())
        packed += bytes(-len(packed) % 16)
        offset = len(packed)
    return packed + data


def test_absolute_offsets_follow_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "large.circle"
    source = with_data_behind()
    path.write_bytes(source)
    for info in (INFO, OTHER):
        chosen = TrainingInfo(loss=info.loss)
        add_training_info(read_model(path), chosen, path)
        model = read_model(path)
        assert stored(model).loss == info.loss
        data = model.graph.tensors[0].data
        assert data is not None
        np.testing.assert_array_equal(data, [1, 2, 3, 4])
    remove_training_info(read_model(path), path)
    assert path.read_bytes() == source


# onert ends the process on some errors, and its paths are short: it runs in one of its own.
ASK_ONERT = """
import json
from onert.experimental import train

info = train.session("plus.circle").train_info
loss = info.loss_info
print(json.dumps({
    "optimizer": info.opt.name.lower(),
    "learning_rate": info.learning_rate,
    "batch_size": info.batch_size,
    "loss": loss.loss.name.lower(),
    "reduction": loss.reduction_type.name.lower(),
    "last": info.num_of_trainable_ops,
}))
"""


def ask_onert(info: TrainingInfo, folder: Path) -> subprocess.CompletedProcess[str]:
    """What onert reads from a circle+ of three operators."""
    pytest.importorskip("onert")
    model = read_model(GOLDEN / "mlp_sm" / "model.circle")
    add_training_info(model, info, folder / "plus.circle")
    command = [sys.executable, "-c", ASK_ONERT]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("info", "last"),
    [
        (TrainingInfo(loss="categorical_crossentropy", batch_size=5), -1),
        (TrainingInfo(loss="mean_squared_error", optimizer="sgd", trainable_ops=()), 0),
        (TrainingInfo(loss="mean_squared_error", reduction="sum", trainable_ops=(1, 2)), 2),
    ],
)
def test_onert_reads_what_is_written(info: TrainingInfo, last: int, tmp_path: Path) -> None:
    asked = ask_onert(info, tmp_path)
    assert asked.returncode == 0, asked.stderr
    read = json.loads(asked.stdout.splitlines()[-1])
    assert read.pop("learning_rate") == pytest.approx(info.learning_rate)
    assert read == {
        "optimizer": info.optimizer,
        "batch_size": info.batch_size,
        "loss": info.loss,
        "reduction": info.reduction,
        "last": last,
    }


def test_onert_has_no_number_for_operators_that_are_not_the_last(tmp_path: Path) -> None:
    assert "INVALID_STATE" in ask_onert(INFO, tmp_path).stderr
