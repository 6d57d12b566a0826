"""Exports of ONNX files: only weights change, external data included."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.onnx_files import OnnxFile, mlp, one_node, tensor, value

import odt
from odt.core.export import onnx_file
from odt.core.export.exporter import export_model
from odt.core.formats.onnx.locations import external_locations
from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model
from odt.training.exports import check_export

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


def check_pair(path: Path, location: str, values: Mapping[str, Array]) -> None:
    """Checks a model with external data and the file that it reads."""
    assert external_locations(read_model(path).data) == (location,)
    check_values(path, values)
    data = path.with_name(location).read_bytes()
    assert (data[:16], data[-4:]) == (b"head" * 4, b"tail")


def test_an_export_beside_the_model_has_data_of_its_own(tmp_path: Path) -> None:
    path = external(tmp_path / "in")
    before = (path.read_bytes(), path.with_name("w.data").read_bytes())
    memory, file = new_weights(path)
    for _ in range(2):  # the second export replaces the first
        export_model(read_model(path), memory, tmp_path / "in/new.onnx")
        check_pair(tmp_path / "in/new.onnx", "new.onnx.data", file)
    assert (path.read_bytes(), path.with_name("w.data").read_bytes()) == before
    assert sorted(p.name for p in (tmp_path / "in").iterdir()) == [
        *("m.onnx", "new.onnx", "new.onnx.data", "w.data")
    ]
    old, new = path.read_bytes(), (tmp_path / "in/new.onnx").read_bytes()
    assert len(new) == len(old) + len("new.onnx.data") - len("w.data"), "lengths take one byte each"
    again, (memory, file) = tmp_path / "in/new.onnx", new_weights(tmp_path / "in/new.onnx")
    export_model(read_model(again), memory, tmp_path / "in/third.onnx")
    check_pair(tmp_path / "in/third.onnx", "third.onnx.data", file)


def test_names_grow_in_all_messages_around_them(tmp_path: Path) -> None:
    """A name of 300 bytes makes every length around it two bytes; other tensors keep theirs."""
    path = external(tmp_path / "in")
    long = "n" * 200 + ".onnx"
    memory, file = new_weights(path)
    export_model(read_model(path), memory, tmp_path / "in" / long)
    check_pair(tmp_path / "in" / long, f"{long}.data", file)


@pytest.mark.parametrize("place", ["in/new.onnx.data", "out/w.data"])
def test_files_of_other_models_stay(tmp_path: Path, place: str) -> None:
    path = external(tmp_path / "in")
    (tmp_path / "out").mkdir()
    (tmp_path / place).write_bytes(b"other")
    memory, file = new_weights(path)
    if place.startswith("in"):
        with pytest.raises(odt.ModelError, match=r"of other models, but would write new.onnx.data"):
            export_model(read_model(path), memory, tmp_path / "in/new.onnx")
        assert not (tmp_path / "in/new.onnx").exists()
    else:
        export_model(read_model(path), memory, tmp_path / "out/new.onnx")
        check_pair(tmp_path / "out/new.onnx", "new.onnx.data", file)
    assert (tmp_path / place).read_bytes() == b"other"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("target", ["in/m.onnx", "out/m.onnx", "in/new.onnx"])
def test_a_killed_export_leaves_an_old_pair_or_a_new_one(tmp_path: Path, target: str) -> None:
    """The process ends before and after each rename; every pair that is there is whole."""
    kills = 0
    for kill in range(12):
        folder = tmp_path / str(kill)
        folder.mkdir()
        path, out = external(folder / "in"), folder / target
        out.parent.mkdir(exist_ok=True)
        old = {t.name: t.data for t in read_model(path).graph.tensors if t.data is not None}
        memory, new = new_weights(path)
        model = read_model(path)
        child = os.fork()
        if not child:
            count = 0

            def replace(*paths: Any, original: Any = os.replace, at: int = kill) -> None:
                nonlocal count
                if count == at:
                    os._exit(9)
                count += 1
                original(*paths)

            vars(os)["replace"], status = replace, 1
            try:
                export_model(model, memory, out)
                status = 0
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, 9)
        killed = status == 9
        kills += killed
        if out.exists():
            values = {t.name: t.data for t in read_model(out).graph.tensors if t.data is not None}
            same = [all(np.array_equal(values[n], v) for n, v in w.items()) for w in (old, new)]
            assert sorted(same) == [False, True], f"killed at rename {kill}"
            assert killed or same == [False, True]
        if out != path:
            check_values(path, {name: a for name, a in old.items() if a is not None})
        if not killed:
            break
    assert kills == (4 if target == "in/m.onnx" else 2)


def test_a_fault_leaves_neither_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model that was read back differs, after its data have their name."""
    path = external(tmp_path / "in")
    (tmp_path / "out").mkdir()

    def fault(*_: Any) -> None:
        raise odt.ModelError("differs")

    monkeypatch.setattr(onnx_file, "_check_reads", fault)
    with pytest.raises(odt.ModelError, match="differs"):
        export_model(read_model(path), new_weights(path)[0], tmp_path / "out/m.onnx")
    assert not list((tmp_path / "out").iterdir())


def test_weights_that_share_external_data_are_named(tmp_path: Path) -> None:
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 3)))
    file.outputs.append(value("y", ("N", 3)))
    weights = np.arange(12, dtype=np.float32)
    (tmp_path / "w.data").write_bytes(weights.tobytes())
    for name, offset in (("v", "12"), ("w", "0")):
        place = ("w.data", offset, "36")
        file.initializers.append(tensor(name, weights[:9].reshape(3, 3), "external", place))
    file.add("Gemm", "x", "v", outputs=["h"])
    file.add("Gemm", "h", "w")
    path = file.write(tmp_path / "m.onnx")
    with odt.Trainer(path, loss="mean_squared_error") as trainer:
        with pytest.raises(odt.ModelError, match=r'\("w"\) and tensor 0 \("v"\) share external'):
            check_export(trainer.session)
        with pytest.raises(odt.ModelError, match="share external data"):
            trainer.export(tmp_path / "new.onnx")
    assert {p.name for p in tmp_path.iterdir()} == {"m.onnx", "w.data"}


def test_a_tied_weight_is_written_once(tmp_path: Path) -> None:
    """One initializer, read by a Gather and transposed by a MatMul: one value, trained by both."""
    file = OnnxFile()
    file.inputs.append(value("x", ("N", 2), "int64"))
    file.outputs.append(value("y", ("N", 2, 5)))
    table = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    file.constants({"w": table})
    file.add("Gather", "w", "x", outputs=["h"])
    file.add("Transpose", "w", outputs=["t"], perm=(1, 0))
    file.add("MatMul", "h", "t")
    path = file.write(tmp_path / "m.onnx")
    x = np.array([[0, 3], [2, 1]])
    y = np.random.default_rng(1).standard_normal((2, 2, 5)).astype(np.float32)
    with odt.Trainer(path, loss="mean_squared_error", optimizer="sgd", batch_size=2) as trainer:
        trainer.fit(x, y)
        trainer.export(tmp_path / "new.onnx")
        expected = trainer.predict(x)
    new = {t.name: t.data for t in read_model(tmp_path / "new.onnx").graph.tensors}["w"]
    assert new is not None
    assert not np.array_equal(new, table)
    np.testing.assert_allclose(new[x] @ new.T, expected, rtol=1e-5, atol=1e-6)
    assert (tmp_path / "new.onnx").stat().st_size == path.stat().st_size


def test_weights_of_onnx_files_keep_their_type(tmp_path: Path) -> None:
    path = mlp().write(tmp_path / "m.onnx")
    with pytest.raises(odt.OptionError, match="must be left out"):
        export_model(read_model(path), {}, tmp_path / "n.onnx", float_weights=True)
