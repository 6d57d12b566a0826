"""Reading of ONNX files: storage of weights, external data, damaged files."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.onnx_files import OnnxFile, message, mlp, tensor, value, varint

from odt.core.formats import protobuf
from odt.core.formats.reader import read_model
from odt.core.model.graph import Tensor
from odt.errors import ModelError, OptionError

WEIGHTS = np.arange(6, dtype=np.float32).reshape(2, 3)


def constants(path: Path) -> dict[str, Tensor]:
    return {t.name: t for t in read_model(path).graph.tensors if t.data is not None}


def external(folder: Path, *where: str) -> Path:
    """Writes y = x + w, with w in another file."""
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 2, 3)))
    file.outputs.append(value("y", ("N", 2, 3)))
    file.initializers.append(tensor("w", WEIGHTS, "external", where))
    file.add("Add", "x", "w")
    return file.write(folder / "m.onnx")


@pytest.mark.parametrize("storage", ["raw", "packed", "single", "constant"])
def test_all_forms_of_storage_are_read(tmp_path: Path, storage: str) -> None:
    found = constants(mlp(storage).write(tmp_path / "m"))
    raw = constants(mlp().write(tmp_path / "raw"))
    assert found.keys() == raw.keys() == {"w1", "b1", "w2", "b2"}
    for name, each in found.items():
        np.testing.assert_array_equal(each.data, raw[name].data)


@pytest.mark.parametrize("storage", ["raw", "packed", "constant"])
def test_spans_are_the_bytes_of_the_values(tmp_path: Path, storage: str) -> None:
    model = read_model(mlp(storage).write(tmp_path / "m.onnx"))
    for each in model.graph.tensors:
        if each.data is not None:
            assert bytes(model.buffer(each.buffer)) == each.data.tobytes()


def test_nodes_are_those_of_the_file(tmp_path: Path) -> None:
    model = read_model(mlp().write(tmp_path / "m.onnx"))
    assert model.format == "onnx"
    assert [n.op for n in model.graph.nodes] == [
        "ONNX:Gemm",
        "ONNX:Relu",
        "ONNX:MatMul",
        "ONNX:Add",
    ]
    first = model.graph.nodes[0].options["onnx"]
    assert (first.name, first.opset, first.attributes) == ("first", 17, {"transB": 1})
    (x,) = model.graph.inputs
    assert model.graph.tensors[x].signature == (-1, 6)


def test_external_data_are_read(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/w.bin").write_bytes(bytes(8) + WEIGHTS.tobytes())
    path = external(tmp_path, "sub/w.bin", "8", "24")
    np.testing.assert_array_equal(constants(path)["w"].data, WEIGHTS)
    (place,) = read_model(path).external.values()
    assert (place.location, place.offset, place.size) == ("sub/w.bin", 8, 24)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (("../w.bin",), "inside the model's folder, but got '../w.bin'"),
        (("sub/../../w.bin",), "inside the model's folder"),
        (("/etc/hostname",), "inside the model's folder, but got '/etc/hostname'"),
        (("",), "inside the model's folder"),
        (("link",), "a link to outside"),
        (("folder",), "folder"),
        (("missing",), "no such file or directory. Keep the model's files together"),
        (("w.bin", "1"), "of 24 bytes, but got 24 bytes from 1 on"),
        (("w.bin", "-1"), "offset of external data must be a number"),
        (("w.bin", "0", "20"), "must have its 24 bytes, but got 20"),
        (("w.bin", "9" * 30), "offset of external data must be a number"),
    ],
)
def test_external_data_stay_inside_the_folder(
    tmp_path: Path, where: tuple[str, ...], words: str
) -> None:
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    for folder in (tmp_path, inside):
        (folder / "w.bin").write_bytes(WEIGHTS.tobytes())
    (inside / "link").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match='initializer "w": ') as e:
        read_model(external(inside, *where))
    assert words in str(e.value)


def test_initializers_may_be_listed_as_inputs(tmp_path: Path) -> None:
    file = mlp()
    file.inputs.insert(0, value("w1", (5, 6)))
    graph = read_model(file.write(tmp_path / "m.onnx")).graph
    assert [graph.tensors[i].name for i in graph.inputs] == ["x"]


def _with(change: str) -> bytes:
    file = mlp()
    if change in ("opset 5", "opset 29"):
        file.opset = int(change.split()[1])
    elif change == "unknown input":
        file.add("Relu", "nothing", outputs=["z"])
    elif change == "name twice":
        file.add("Relu", "x", outputs=["h"])
    elif change == "too few bytes":
        file.initializers.append(message((1, 3), (2, 1), (8, "v"), (9, bytes(8))))
    elif change == "many axes":
        file.initializers.append(message(*[(1, 2)] * 65, (2, 1), (8, "v")))
    elif change == "huge":
        file.initializers.append(message(*[(1, 2**40)] * 3, (2, 1), (8, "v")))
    elif change == "sequence":
        file.inputs.append(message((1, "s"), (2, message((4, b"")))))
    elif change == "no output":
        file.outputs.append(value("none", ()))
    return file.data()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("opset 5", "model: the opset must be 6 to 28, but got 5"),
        ("opset 29", "model: the opset must be 6 to 28, but got 29"),
        ("unknown input", 'node 4 (ONNX:Relu): what it names must be an input, .*"nothing"'),
        ("name twice", "a name must stand for one tensor, but got .h. twice"),
        ("too few bytes", 'initializer "v": .* must have 12 bytes, but got 8'),
        ("many axes", "dims must have at most 31 entries"),
        ("huge", "a tensor must fit into"),
        ("sequence", 'input "s": its type must be a tensor, but got sequence'),
        ("no output", 'output "none": '),
    ],
)
def test_broken_rules_are_named(tmp_path: Path, change: str, words: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(_with(change))
    with pytest.raises(ModelError, match=words.replace("(", r"\(").replace("):", r"\):")):
        read_model(path)


def test_packed_values_of_tensors_are_no_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protobuf, "MAX_FIELDS", 100)
    values, file = np.arange(-64, 64), OnnxFile()
    packed = b"".join(map(varint, values.tolist()))
    file.initializers.append(message((1, 128), (2, 3), (5, packed), (8, "v")))  # int8
    (found,) = constants(file.write(tmp_path / "m")).values()
    np.testing.assert_array_equal(found.data, values.astype(np.int8))
    numbers = message((1, "axes"), (8, packed), (20, 7))
    file.nodes.append(message((1, "v"), (2, "y"), (4, "Relu"), (5, numbers)))
    with pytest.raises(ModelError, match="at most 100 fields and numbers in attributes"):
        read_model(file.write(tmp_path / "m"))


def test_signatures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="since ONNX has none"):
        read_model(mlp().write(tmp_path / "m.onnx"), "serving_default")


@pytest.mark.parametrize("storage", ["raw", "packed", "single", "constant"])
def test_any_bytes_give_a_model_or_an_error(tmp_path: Path, storage: str) -> None:
    data, rng = mlp(storage).data(), np.random.default_rng(7)
    path, errors = tmp_path / "m.onnx", list[str]()
    for k in range(500):
        changed = bytearray(data[: rng.integers(len(data))] if k % 5 == 0 else data)
        for at in rng.integers(max(len(changed), 1), size=rng.integers(1, 5)):
            if changed:
                changed[at] = rng.choice(np.array([0, 1, 127, 128, 255, rng.integers(256)]))
        path.write_bytes(changed)
        try:
            read_model(path)
        except ModelError as e:
            errors.append(str(e))
    assert len(errors) > 100
    assert all(str(path) in text and "\n" not in text for text in errors)


def test_neither_onnx_nor_protobuf_is_imported(tmp_path: Path) -> None:
    path = mlp().write(tmp_path / "m.onnx")
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('onnx', 'google.protobuf')))\n"
        f"import odt; print(len(odt.load_model({str(path)!r}).parameters))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "4\n"


def test_an_attribute_without_its_type_is_read(tmp_path: Path) -> None:
    """Files of IR version 1 have none."""
    file = mlp()
    bare = message((1, "h"), (2, "z"), (4, "LeakyRelu"), (5, message((1, "alpha"), (2, 0.5))))
    file.nodes.append(bare)
    node_of = read_model(file.write(tmp_path / "m.onnx")).graph.nodes[-1]
    assert node_of.options["onnx"].attributes == {"alpha": 0.5}
