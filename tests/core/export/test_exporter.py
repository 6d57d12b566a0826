"""Exports: the weights change, nothing else does, and a failure leaves what was there."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from model_builder import ModelBuilder, table
from support.accept_data import complete
from support.damaged_integers import packed_net
from support.judges import litert, odt
from support.paths import MLP_SM, MODELS

from odt.core.export import exporter
from odt.core.export.exporter import add_training_info, export_model, remove_training_info
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.model.training_info import TrainingInfo
from odt.core.storage.atomic_files import write_atomically
from odt.errors import ModelError
from odt.kernels.rows.opdef import Array

CIRCLE = MLP_SM / "model.circle"
TFLITE = MODELS / "tflm-magic-wand-float.tflite"


def halved(model: Model) -> dict[int, Array]:
    """Other weights for every float constant."""
    return {
        i: t.data / np.float32(2)
        for i, t in enumerate(model.graph.tensors)
        if t.data is not None and t.data.dtype == np.float32
    }


@contextmanager
def files_below(nbytes: int) -> Iterator[None]:
    """No file may grow beyond this, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("source", [CIRCLE, TFLITE], ids=lambda p: p.name)
def test_the_weights_change_and_no_byte_besides(source: Path, tmp_path: Path) -> None:
    model = read_model(source)
    weights = halved(model)
    export_model(model, weights, tmp_path / "out")
    read = read_model(tmp_path / "out")
    for i, values in weights.items():
        assert read.graph.tensors[i].data is not None
        np.testing.assert_array_equal(read.graph.tensors[i].data, values)
    before, after = bytearray(source.read_bytes()), bytearray((tmp_path / "out").read_bytes())
    for i, values in weights.items():
        offset, size = model.spans[model.graph.tensors[i].buffer]
        assert size == values.nbytes
        before[offset : offset + size] = after[offset : offset + size] = bytes(size)
    assert before == after


def test_a_model_can_be_exported_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "model.circle"
    path.write_bytes(CIRCLE.read_bytes())
    model = read_model(path)
    weights = halved(model)
    i = next(iter(weights))
    first = model.graph.tensors[i]
    assert first.data is not None
    before = first.data.copy()
    export_model(model, weights, path)
    np.testing.assert_array_equal(first.data, before)  # still mapped, and the old file
    after = read_model(path).graph.tensors[i].data
    assert after is not None
    np.testing.assert_array_equal(after, before / 2)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.circle", tmp_path / "link.circle"
    real.write_bytes(b"old")
    link.symlink_to(real)
    export_model(read_model(CIRCLE), {}, link)
    assert link.is_symlink()
    assert real.read_bytes() == CIRCLE.read_bytes()


def test_permissions_stay_and_new_files_get_the_usual_ones(tmp_path: Path) -> None:
    old, new, usual = tmp_path / "old", tmp_path / "new", tmp_path / "usual"
    old.touch()
    old.chmod(0o640)
    usual.touch()
    for path in (old, new):
        export_model(read_model(CIRCLE), {}, path)
    assert old.stat().st_mode & 0o777 == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "model.circle"
    path.write_bytes(b"old")
    with files_below(1000), pytest.raises(ModelError, match=r"model\.circle: must .* too large"):
        export_model(read_model(CIRCLE), {}, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


BYTES = {  # what is found in the file, and the byte of it that changes
    "weight": (np.linspace(-127, 127, 24).round().astype(np.int8).tobytes(), 23),
    "constant": (np.array([4, 1], np.int32).tobytes(), 4),  # its length, and its value
    "scale": (np.float32(1 / 127).tobytes(), 3),
    "name": (b"w8", 1),
    "info": (np.float32(0.125).tobytes(), 3),
    "identifier": (b"CIR0", 3),
}


@pytest.mark.parametrize("changed", BYTES)
def test_an_export_that_reads_back_otherwise_does_not_take_its_name(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = ModelBuilder()
    w = built.add_constant(built.rng.integers(-9, 9, (4, 6), np.int8), "w8")
    built.quantize(w, [0.37], [0])
    axes = built.add_constant([1], "axes")
    y = built.add_operator("FULLY_CONNECTED", [built.add_input((1, 6)), w, -1], (1, 4))
    built.write(tmp_path / "m", built.add_operator("MEAN", [y, axes], (1, 1), keep_dims=True))
    model, path = read_model(tmp_path / "m"), tmp_path / "out"
    path.write_bytes(b"old")
    weights = {w: np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)}
    info = TrainingInfo(loss="mean_squared_error", learning_rate=0.125)

    def damaged(path: Path, chunks: Iterator[bytes], check: Callable[[str], None]) -> None:
        data, (value, at) = b"".join(map(bytes, chunks)), BYTES[changed]
        at += data.index(value) if changed == "identifier" else data.rindex(value)
        write_atomically(path, [data[:at], bytes([data[at] ^ 2]), data[at + 1 :]], check=check)

    export_model(model, weights, tmp_path / "whole", info=info)
    monkeypatch.setattr(exporter, "write_atomically", damaged)
    with pytest.raises(ModelError, match=r"out: an export must read back as it was written") as e:
        export_model(model, weights, path, info=info)
    assert "\n" not in str(e.value)
    assert path.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "out", "whole"]


def test_a_failed_write_is_one_line(tmp_path: Path) -> None:
    model = read_model(CIRCLE)
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path, "the path exists and is not a file"),
        (tmp_path / "missing" / "out.circle", "no such file or directory"),
        (tmp_path / "file" / "out.circle", "not a directory"),
        (tmp_path / ("x" * 300), "file name too long"),
        ("nu\0ll", "null (byte|character)"),
    ):
        with pytest.raises(ModelError, match=reason) as e:
            export_model(model, {}, path)
        assert "\n" not in str(e.value)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", [p.name for p in sorted(MODELS.glob("*.tflite"))])
def test_tflite_to_circle_and_back_is_the_same_file(name: str, tmp_path: Path) -> None:
    source, circle, back = MODELS / name, tmp_path / "x.circle", tmp_path / "x.tflite"
    export_model(read_model(source), {}, circle, "circle")
    assert circle.read_bytes()[4:8] == b"CIR0"
    export_model(read_model(circle), {}, back, "tflite")
    assert back.read_bytes() == source.read_bytes()


def test_losses_of_a_conversion_to_tflite_are_listed(tmp_path: Path) -> None:
    built = ModelBuilder()
    x = built.add_input((1, 4, 4, 2))
    scale = [built.add_constant([1.0, 2.0]) for _ in range(2)]
    y = built.add_operator("INSTANCE_NORM", (x, *scale), (1, 4, 4, 2))
    w = built.add_weight((3, 32), 32)
    z = built.add_operator("FULLY_CONNECTED", (y, w, -1), (1, 3), weights_format=127)
    built.graph.tensors[scale[0]].compression_type = 1
    built.graph.tensors[w].type = -1
    built.quantize(w, [1.0], [0])
    built.graph.tensors[w].quantization.details_type = 2
    built.graph.tensors[w].quantization.details = table("MXQuantization")
    (tmp_path / "m.circle").write_bytes(built.build(z))
    with pytest.raises(ModelError, match="only what tflite files have") as e:
        export_model(read_model(tmp_path / "m.circle"), {}, tmp_path / "out.tflite", "tflite")
    for problem in (
        "operator code 0 (INSTANCE_NORM)",
        "subgraph 0, tensor 1 (compressed)",
        "subgraph 0, tensor 4 (UINT4)",
        "subgraph 0, tensor 4 (quantization details 2)",
        "subgraph 0, operator 1 (weights format SHUFFLED16x1FLOAT32)",
    ):
        assert problem in str(e.value)
    assert str(e.value).endswith("Export as circle.")
    assert not (tmp_path / "out.tflite").exists()


def test_types_that_circle_lacks_are_listed(tmp_path: Path) -> None:
    packed_net(tmp_path / "m.tflite")
    with pytest.raises(ModelError, match="only what circle files have") as e:
        export_model(read_model(tmp_path / "m.tflite"), {}, tmp_path / "out.circle", "circle")
    for problem in ("tensor 0 (quantization details 2)", "tensor 4 (INT2)"):
        assert problem in str(e.value)


def test_a_circle_plus_is_tflite_throughout_when_it_becomes_tflite(tmp_path: Path) -> None:
    path = tmp_path / "m"
    add_training_info(read_model(TFLITE), TrainingInfo(loss="mean_squared_error"), path)
    export_model(read_model(path), {}, path, "tflite")
    assert stored_training_info(read_model(path)) is not None
    remove_training_info(read_model(path), path)
    assert path.read_bytes() == TFLITE.read_bytes()


@pytest.mark.parametrize("trained", [False, True])
def test_activations_with_an_empty_buffer_run_in_litert(trained: bool, tmp_path: Path) -> None:
    """As ONE's compiler writes them; a shape without elements is a constant all the same."""
    built = ModelBuilder("circle")
    x = built.add_input((1, 1))
    hidden = built.add_dense(x, 1)
    scalar = built.add_operator("RESHAPE", (hidden, built.add_constant(np.zeros(0, np.int32))), ())
    y = built.add_operator("ADD", (x, scalar), (1, 1))
    for i in (x, hidden, scalar, y):
        built.graph.tensors[i].buffer = built.add_buffer(b"")
    (tmp_path / "m.circle").write_bytes(built.build(y))
    model, out = read_model(tmp_path / "m.circle"), tmp_path / "out.tflite"
    weights = halved(model) if trained else {}
    export_model(model, weights, out, "tflite")
    inputs = np.array([[3]], np.float32)
    np.testing.assert_allclose(litert(out, [inputs])[0], odt(out, [inputs])[0], rtol=1e-6)
    export_model(read_model(out), {}, tmp_path / "back.circle", "circle")
    add_training_info(read_model(out), TrainingInfo(loss="mean_squared_error"), tmp_path / "plus")
    export_model(read_model(tmp_path / "plus"), {}, out, "tflite")
    np.testing.assert_allclose(litert(out, [inputs])[0], odt(out, [inputs])[0], rtol=1e-6)
    remove_training_info(read_model(out), out)
    np.testing.assert_allclose(litert(out, [inputs])[0], odt(out, [inputs])[0], rtol=1e-6)


def test_a_circle_model_becomes_one_that_litert_runs(tmp_path: Path) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    model = read_model(CIRCLE)
    weights = {b: w * 0 for b, w in halved(model).items()}
    export_model(model, weights, tmp_path / "out.tflite", "tflite")
    judge = interpreter.Interpreter(str(tmp_path / "out.tflite"))
    judge.allocate_tensors()
    details = judge.get_input_details()[0]
    judge.set_tensor(details["index"], np.ones(details["shape"], np.float32))
    judge.invoke()
    y = judge.get_tensor(judge.get_output_details()[0]["index"])
    np.testing.assert_allclose(y, np.full((1, 10), 0.1), rtol=1e-6)  # SOFTMAX of zeros


@pytest.mark.accept
def test_all_models_there_are_survive_the_other_format_and_training_info(tmp_path: Path) -> None:
    models = sorted(complete("data", "models").rglob("*.*[te]"))
    assert len(models) > 50
    info = TrainingInfo(loss="mean_squared_error")
    for source in models:
        model, path = read_model(source), tmp_path / "m"
        other = "tflite" if model.format == "circle" else "circle"
        export_model(model, {}, path, other)
        assert read_model(path).format == other
        export_model(read_model(path), {}, path, model.format)
        assert path.read_bytes().endswith(source.read_bytes()[8:])
        add_training_info(model, info, path)
        assert stored_training_info(read_model(path)) is not None
        remove_training_info(read_model(path), path)
        assert path.read_bytes()[8:] == source.read_bytes()[8:]
