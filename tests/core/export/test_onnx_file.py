"""Exports of ONNX files: only weights change, external data included."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, mlp, one_node, tensor, value

import odt
from odt.core.export.exporter import export_model
from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model

Array = np.ndarray[Any, Any]


def new_weights(path: Path) -> tuple[dict[int, Array], dict[str, Array]]:
    """Returns other values of all weights: in the layout of memory, and as in the file."""
    model = read_model(path)
    graph = lower_model(model).graph
    memory, file = {}, {}
    for i, each in enumerate(graph.tensors):
        if each.data is None or not each.name:
            continue
        memory[i] = np.arange(each.data.size, dtype=np.float32).reshape(each.data.shape) + i
        layout = each.layout
        file[each.name] = memory[i] if layout is None else layout.to_file(memory[i])
    return memory, file


def check_values(path: Path, values: Mapping[str, Array]) -> None:
    for each in read_model(path).graph.tensors:
        if each.name in values:
            np.testing.assert_array_equal(each.data, values[each.name])


@pytest.mark.parametrize("storage", ["raw", "packed", "constant"])
def test_only_the_bytes_of_weights_change(tmp_path: Path, storage: str) -> None:
    path, target = mlp(storage).write(tmp_path / "m.onnx"), tmp_path / "new.onnx"
    model, (memory, file) = read_model(path), new_weights(path)
    export_model(model, memory, target)
    check_values(target, file)
    before, after = (np.frombuffer(p.read_bytes(), np.uint8) for p in (path, target))
    assert before.shape == after.shape
    inside = np.zeros(len(before), bool)
    for offset, size in model.spans:
        inside[offset : offset + size] = True
    assert inside.sum() == 4 * (30 + 5 + 15 + 3)
    np.testing.assert_array_equal(before[~inside], after[~inside])
    assert (before[inside] != after[inside]).any()


def test_a_layout_is_undone(tmp_path: Path) -> None:
    """MatMul has (I, O) in the file, and a dense layer (O, I) in memory."""
    path = mlp().write(tmp_path / "m.onnx")
    layouts = {t.name: t.layout for t in lower_model(read_model(path)).graph.tensors if t.layout}
    assert {name: layout.order for name, layout in layouts.items() if name == "w2"} == {
        "w2": (1, 0)
    }
    w = np.random.default_rng(0).standard_normal((4, 3, 2, 5)).astype(np.float32)
    x = np.zeros((1, 3, 6, 9), np.float32)
    path = one_node("Conv", x, {"w": w}).write(tmp_path / "conv.onnx")
    graph = lower_model(read_model(path)).graph
    (i,) = (k for k, t in enumerate(graph.tensors) if t.name == "w")
    np.testing.assert_array_equal(graph.tensors[i].data, w.transpose(0, 2, 3, 1))
    export_model(read_model(path), {i: w.transpose(0, 2, 3, 1) + 1}, tmp_path / "new.onnx")
    check_values(tmp_path / "new.onnx", {"w": w + 1})
    operators = [n.op for n in lower_model(read_model(path)).graphs.at(1).nodes]
    assert operators == ["TRANSPOSE", "CONV_2D", "TRANSPOSE"], "x and y only"


def test_weights_as_single_numbers_are_named(tmp_path: Path) -> None:
    path = mlp("single").write(tmp_path / "m.onnx")
    with pytest.raises(odt.ModelError, match=r'"w1"\).* is written as separate numbers'):
        export_model(read_model(path), new_weights(path)[0], tmp_path / "new.onnx")
    assert not (tmp_path / "new.onnx").exists()


def external(folder: Path) -> Path:
    folder.mkdir()
    weights = np.arange(12, dtype=np.float32)
    (folder / "w.data").write_bytes(b"head" * 4 + weights.tobytes() + b"tail")
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 3)))
    file.outputs.append(value("y", ("N", 4)))
    place = ("w.data", "16", "48")
    file.initializers.append(tensor("w", weights.reshape(4, 3), "external", place))
    file.constants({"b": np.zeros(4, np.float32)})
    file.add("Gemm", "x", "w", "b", transB=1)
    return file.write(folder / "m.onnx")


@pytest.mark.parametrize("target", ["out/m.onnx", "in/m.onnx"])
def test_external_data_are_written_beside_the_model(tmp_path: Path, target: str) -> None:
    path = external(tmp_path / "in")
    (tmp_path / "out").mkdir()
    memory, file = new_weights(path)
    export_model(read_model(path), memory, tmp_path / target)
    check_values(tmp_path / target, file)
    data = (tmp_path / target).with_name("w.data").read_bytes()
    assert data == b"head" * 4 + file["w"].astype("<f4").tobytes() + b"tail"
    assert not list(tmp_path.rglob(".odt-*"))


def test_external_data_of_another_model_stay(tmp_path: Path) -> None:
    path = external(tmp_path / "in")
    before = (tmp_path / "in/w.data").read_bytes()
    with pytest.raises(odt.ModelError, match=r"both would read w.data. Give a path in another"):
        export_model(read_model(path), new_weights(path)[0], tmp_path / "in/new.onnx")
    assert (tmp_path / "in/w.data").read_bytes() == before
    assert sorted(p.name for p in (tmp_path / "in").iterdir()) == ["m.onnx", "w.data"]


def test_onnx_files_stay_onnx(tmp_path: Path) -> None:
    path = mlp().write(tmp_path / "m.onnx")
    with pytest.raises(odt.UnsupportedError, match=r"m.onnx: must be exported as onnx, but got"):
        export_model(read_model(path), {}, tmp_path / "m.circle", "circle")
    with pytest.raises(odt.OptionError, match="must be left out"):
        export_model(read_model(path), {}, tmp_path / "n.onnx", float_weights=True)
