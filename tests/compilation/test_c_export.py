"""Model files that C programs write."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.c_programs import COMPILER, Program, batches, build, one
from support.model_forms import FORMS, write_form
from support.onnx_files import OnnxFile, value
from support.onnx_networks import convolutions
from support.paths import ROOT

import odt
from odt.kernels.native.library import is_available

pytest_plugins = ["support.kernel_objects"]
pytestmark = pytest.mark.skipif(not (COMPILER and is_available()), reason="no C compiler")
MODELS = ROOT / "tests/models"
LOSS, BATCH = "categorical_crossentropy", 4


@pytest.fixture(autouse=True)
def base_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", "base")


Train = Callable[..., tuple[Program, bytes]]


@pytest.fixture
def train(kernel_objects: dict[str, Path]) -> Train:
    """Returns a program after some steps, and what a trainer exports after these."""
    return partial(train_both, kernel_objects["generic"])


def train_both(kernels: Path, path: Path, folder: Path, **options: Any) -> tuple[Program, bytes]:
    options |= {"loss": LOSS, "batch_size": BATCH}
    odt.compile(path, folder / "c", **options)
    build(folder / "c", kernels)
    program = Program(folder / "c")
    assert program.file() == (3, b"")  # NOT_READY
    program.init()
    with odt.Trainer(path, workers=1, micro_batch=BATCH, **options) as trainer:
        for x, y in batches(trainer, LOSS, BATCH, 3):
            trainer.train_on_batch(one(x), one(y))
            assert program.loss("train", x, y)[0] == 0
        trainer.export(folder / path.name)
    return program, (folder / path.name).read_bytes()


def onnx_network(folder: Path) -> Path:
    return convolutions().file.write(folder / "convolutions.onnx")


def shared_buffer(folder: Path) -> Path:
    """Returns a model in which two weights share a buffer, so that an export adds one."""
    model = ModelBuilder("circle", seed=0)
    x = model.add_input((1, 6))
    w = model.add_weight((6, 6), 6, "w")
    twin = model.add_tensor((6, 6), name="twin", buffer=model.graph.tensors[w].buffer)
    y = model.add_operator("FULLY_CONNECTED", [x, w, -1], (1, 6), fused_activation_function=1)
    path = folder / "shared.circle"
    model.write(path, model.add_operator("FULLY_CONNECTED", [y, twin, -1], (1, 6)))
    return path


@pytest.mark.parametrize("model", [onnx_network, shared_buffer], ids=lambda f: f.__name__)
def test_a_program_writes_the_file_that_a_trainer_exports(
    model: Callable[[Path], Path], train: Train, tmp_path: Path
) -> None:
    program, expected = train(model(tmp_path), tmp_path, optimizer=odt.Adam(0.01))
    assert program.file() == (0, expected)


def test_frozen_weights_are_in_a_program_once(train: Train, tmp_path: Path) -> None:
    path = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
    program, expected = train(path, tmp_path, optimizer=odt.SGD(0.01), trainable=odt.last(2))
    assert program.file() == (0, expected)
    name, whole = program.manifest["name"], len(expected)
    constants = (tmp_path / "c" / f"{name}_weights.bin").stat().st_size
    assert whole > constants > 0.9 * whole
    # What only the export reads is text of 3 bytes for each byte.
    assert (tmp_path / "c" / f"{name}_model.c").stat().st_size < 0.3 * whole


def test_an_export_ends_when_bytes_cannot_be_written(train: Train, tmp_path: Path) -> None:
    path = MODELS / "kws-yes-no-conv60x40.tflite"
    program, whole = train(path, tmp_path, learning_rate=0.1)
    for parts in (0, 1, 3):
        result, data = program.file(parts)
        assert result == 5  # NOT_WRITTEN
        assert len(data) < len(whole)
        assert whole.startswith(data)


def test_names_of_a_model_are_comments_and_strings_only(
    kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    names = ["*/ #error x /*", "a\nb\\", 'x"; int y = "', "??/\n*/??/", "//" + 2**20 * "é*/"]
    x, w, b, h, y = names
    file = OnnxFile()
    file.inputs.append(value(x, ("N", 6)))
    file.outputs.append(value(y, ("N", 3)))
    file.constants({w: np.ones((6, 3), np.float32), b: np.ones(3, np.float32)})
    file.add("MatMul", x, w, outputs=[h])
    file.add("Add", h, b, outputs=[y])
    path = file.write(tmp_path / "a *\nb.onnx")
    odt.compile(path, tmp_path / "c", loss="mean_squared_error", learning_rate=0.1)
    sources = [p for p in (tmp_path / "c").iterdir() if p.suffix in {".c", ".h", ".txt"}]
    text = "".join(p.read_text() for p in sources)
    assert set(text) <= {*map(chr, range(128)), "×"}
    assert not [code for code in ("??", '"; int', "#error") if code in text]
    build(tmp_path / "c", kernel_objects["generic"])  # warnings are errors
    manifest = json.loads((tmp_path / "c/manifest.json").read_text())
    assert {a["name"] for a in manifest["weights"]} == {w, b}


@pytest.mark.parametrize("model", ["tflm-mnist-lstm-int8", "mlperf-tiny-resnet8-cifar10-int8"])
def test_integers_that_train_are_exported(model: str, train: Train, tmp_path: Path) -> None:
    path = MODELS / f"{model}.tflite"
    program, expected = train(path, tmp_path, optimizer=odt.SGD(1e-4, momentum=0.9), qas=True)
    assert program.file() == (0, expected)
    assert len(expected) == path.stat().st_size


@pytest.mark.parametrize("form", ["float16", "circle of float16", "float16 buffers outside"])
def test_weights_of_float16_are_exported(form: str, train: Train, tmp_path: Path) -> None:
    path = tmp_path / ("model.circle" if "circle" in form else "model.tflite")
    write_form(FORMS[form], path)
    before = path.read_bytes()
    program, expected = train(path, tmp_path, optimizer=odt.Adam(0.01))
    assert program.file() == (0, expected)
    assert len(expected) == len(before)
    assert expected != before


def test_weights_are_rounded_to_float16_as_by_numpy(train: Train, tmp_path: Path) -> None:
    """To even numbers, into and out of subnormal ones, and to infinity."""
    path = tmp_path / "model.tflite"
    write_form(FORMS["float16"], path)
    program, _ = train(path, tmp_path, learning_rate=0.1)
    sizes = [int(np.prod(w["shape"])) for w in program.manifest["weights"]]
    rng = np.random.default_rng(0)
    steps = np.array([-0x1001, -0x1000, -0xFFF, -1, 0, 1, 0xFFF, 0x1000, 0x1001])
    for _ in range(100):
        # Numbers of float16, those half-way to the next ones, and the next ones of float32.
        halves = rng.integers(0, 2**16, sum(sizes), np.uint16).view(np.float16)
        bits = halves.astype(np.float32).view(np.uint32) + rng.choice(steps, halves.size)
        weights = bits.astype(np.uint32).view(np.float32)
        weights[np.isnan(weights)] = 2.0**-25
        assert program.set_weights(weights.tobytes()) == 0
        _, file = program.file()
        with np.errstate(over="ignore"):
            expected = weights.astype("<f2")
        for values in np.split(expected, np.cumsum(sizes)[:-1]):
            assert values.tobytes() in file


@pytest.mark.parametrize("form", ["sparse", "sparse float16", "pruning wrappers", "sparse int8"])
def test_sparse_weights_train_but_are_not_exported(
    form: str, kernel_objects: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "model.tflite"
    write_form(FORMS[form], path)
    options: Any = {"loss": LOSS, "optimizer": odt.Adam(0.01), "batch_size": BATCH, "ema": 0.0}
    with pytest.raises(odt.UnsupportedError, match="has some in another form or file"):
        odt.compile(path, tmp_path / "c", **options)
    odt.compile(path, tmp_path / "c", export=False, **options)
    build(tmp_path / "c", kernel_objects["generic"])
    program = Program(tmp_path / "c")
    program.init()
    names = [w["name"] for w in program.manifest["weights"]]
    with odt.Trainer(path, workers=1, micro_batch=BATCH, **options) as trainer:
        for x, y in batches(trainer, LOSS, BATCH, 3):
            loss = trainer.train_on_batch(one(x), one(y))["loss"]
            assert program.loss("train", x, y) == (0, float(np.float32(loss)))
        weights = [trainer.weights[name] for name in names]
    assert program.weights() == b"".join(a.tobytes() for a in weights)
    assert sum((a == 0).sum() for a in weights) > 5  # values that the file does not store


def test_sparse_integers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    write_form(FORMS["sparse int8"], path)
    with pytest.raises(odt.UnsupportedError, match="has sparse weights of integers"):
        odt.compile(path, tmp_path / "c", loss=LOSS, learning_rate=0.1, qas=True)


def test_weights_that_get_other_scales_are_not_exported(tmp_path: Path) -> None:
    path = MODELS / "mlperf-tiny-kws-dscnn-hybrid.tflite"
    options: Any = {"loss": LOSS, "learning_rate": 0.1, "batch_size": 1}
    with pytest.raises(odt.UnsupportedError, match="must hold all weights that train as float32"):
        odt.compile(path, tmp_path / "c", **options)
    assert list(tmp_path.iterdir()) == []
    odt.compile(path, tmp_path / "c", export=False, **options)
    assert "_export" not in "".join(p.read_text() for p in (tmp_path / "c").glob("*.[ch]"))
