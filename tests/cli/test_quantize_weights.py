"""`odt quantize --weights` and `odt train --quantize-weights`: weights of 2 and 4 bits."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from model_builder import ModelBuilder
from support.judges import litert
from support.paths import MODELS

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.packed_integers import unpack_constants
from odt.core.quantization.weights import block_scales, int2_scales
from odt.kernels.rows.opdef import Array

RESNET = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
WIDTH = 64


def run(*words: object) -> str:
    return CliRunner().invoke(main, [str(w) for w in words]).output


@pytest.fixture
def data(tmp_path: Path) -> tuple[Array, Array]:
    """A trained network of two dense layers, and its samples."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 192).astype(np.int32)
    x = (rng.normal(size=(192, WIDTH)) + 1.5 * np.eye(3, WIDTH)[y]).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    model = odt.new_model("mlp", input_shape=(WIDTH,), outputs=3, hidden=[32], seed=1)
    loss = "sparse_categorical_crossentropy"
    with odt.Trainer(model, loss=loss, learning_rate=0.01) as trainer:
        trainer.fit(x, y, epochs=5, seed=1)
        trainer.export(tmp_path / "m.tflite")
    return x, y


def train(folder: Path, *words: str) -> str:
    files = ["--load-input", folder / "x.npy", "--load-expected", folder / "y.npy"]
    loss = ["--loss", "sparse-categorical-crossentropy", "--seed", "1"]
    return run("train", folder / "m.tflite", *files, *loss, *words)


@pytest.mark.parametrize("option", ["--export-circle", "--export-circleplus"])
def test_a_format_without_int2_is_refused_before_training(
    option: str, data: tuple[Array, Array], tmp_path: Path
) -> None:
    text = train(tmp_path, "--quantize-weights", "int2", option, f"{tmp_path}/o.circle")
    assert "must hold only what circle files have" in text
    assert "Epoch" not in text


def types(path: Path) -> dict[str, str]:
    """Type of each constant in the file, by its name."""
    tensors = [t for t in read_model(path).graph.tensors if t.data is not None]
    return {t.name: (t.spec.dtype.names or (t.spec.dtype.name,))[0] for t in tensors}


@pytest.mark.parametrize(
    ("weights", "kind", "nbytes"),
    [("int2", "INT2", 536), ("int4", "INT4", 1072), ("int4-block32", "INT4", 1072)],
)
def test_dense_layers_are_stored_and_trained(
    weights: str, kind: str, nbytes: int, data: tuple[Array, Array], tmp_path: Path
) -> None:
    x, y = data
    stored, out = tmp_path / "stored.tflite", tmp_path / "out.tflite"
    assert "store weights as" in run(
        "quantize", tmp_path / "m.tflite", "--weights", weights, "-o", stored
    )
    packed = [t for t in read_model(stored).graph.tensors if t.spec.dtype.names == (kind,)]
    assert sum(t.data.nbytes for t in packed if t.data is not None) == nbytes
    ours = odt.predict(stored, x)
    # LiteRT rounds the activations of such layers to 8 bits.
    assert np.abs(ours - litert(stored, [x])[0]).max() < 0.05
    train(tmp_path, "--quantize-weights", weights, "--epochs", "5", "--export-tflite", str(out))
    assert types(out) == types(stored)
    assert np.mean(litert(out, [x])[0].argmax(1) == y) > 0.9
    assert abs(out.stat().st_size - stored.stat().st_size) < 0.01 * stored.stat().st_size + 512


def test_layers_of_no_such_kernel_get_more_bits(tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    run("quantize", RESNET, "--weights", "int2", "-o", out)
    model = read_model(out)
    kinds = {
        (n.op, model.graph.tensors[n.inputs[1]].spec.dtype.names)
        for n in model.graph.nodes
        if n.op in ("CONV_2D", "FULLY_CONNECTED")
    }
    assert kinds == {("CONV_2D", ("INT4",)), ("FULLY_CONNECTED", ("INT2",))}
    run("quantize", tmp_path / "d.tflite", "--weights", "int4-block64", "-o", out)
    odt.new_model("ds-cnn", input_shape=(12, 8, 1), outputs=3, seed=1).save(tmp_path / "d.tflite")
    run("quantize", tmp_path / "d.tflite", "--weights", "int4-block64", "-o", out)
    assert "INT8" in {kind.upper() for kind in types(out).values()}  # DEPTHWISE_CONV_2D


@pytest.mark.parametrize(
    ("weights", "largest", "words"),
    [
        ("float16", 1e5, "weights must be within ±65504 to be stored as float16, but got 100000."),
        ("int4-block32", 1e9, "scales of blocks must be within ±65504 to be stored as float16"),
    ],
)
def test_numbers_too_large_for_float16_are_refused(
    weights: str, largest: float, words: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    model = ModelBuilder("tflite")
    w = np.ones((3, WIDTH), np.float32)
    w[:2, 0] = largest, np.inf if weights == "float16" else 1  # float16 holds infinite numbers
    inputs = model.add_input((1, WIDTH)), model.add_constant(w), -1
    model.write(path, model.add_operator("FULLY_CONNECTED", inputs, (1, 3)))
    assert words in run("quantize", path, "--weights", weights, "-o", out)
    assert not out.exists()


@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_scales_have_less_error_than_those_of_the_largest_weight(spread: float) -> None:
    w = (np.random.default_rng(0).normal(size=(8, 128)) * spread).astype(np.float32)

    def error(scale: Array, lo: int, hi: int) -> float:
        rounded = np.clip(np.rint(w / scale), lo, hi) * scale
        return float(np.square(w - rounded).sum())

    largest = abs(w).max(axis=1, keepdims=True)
    two = int2_scales(w, 0)[:, np.newaxis]
    assert error(two, -2, 1) < 0.6 * error(largest, -2, 1)
    four = block_scales(w, 32, 7)
    assert four.shape == (8, 4)
    assert not (four.view(np.uint32) & 0xFFFF).any(), "numbers of bfloat16"
    blocks = np.repeat(four, 32, axis=1)
    whole = np.repeat(abs(w.reshape(8, 4, 32)).max(axis=2) / 7, 32, axis=1)
    assert error(blocks, -7, 7) < error(whole, -7, 7)


def test_a_part_of_a_file_keeps_its_scales(data: tuple[Array, Array], tmp_path: Path) -> None:
    stored, part = tmp_path / "stored.tflite", tmp_path / "part.tflite"
    run("quantize", tmp_path / "m.tflite", "--weights", "int4-block32", "-o", stored)
    whole = read_model(stored)
    odt.cut(stored, before=whole.graph.nodes[0].outputs[0]).save(part)
    model = read_model(part)
    (i,) = model.quantization
    assert model.quantization[i].blocks == (1, 32)
    constants = {t.name: t.data for t in unpack_constants(whole.graph).tensors}
    integers = constants[model.graph.tensors[i].name]
    assert integers is not None
    real = integers.reshape(-1, 32) * model.quantization[i].scale[:, np.newaxis]
    bias = next(b for n, b in constants.items() if b is not None and b.shape == (32,))
    expected = np.maximum(data[0] @ real.reshape(32, WIDTH).T + bias, 0)
    np.testing.assert_allclose(odt.predict(part, data[0]), expected, rtol=1e-4, atol=1e-4)


def test_options_that_exclude_each_other_are_refused(
    data: tuple[Array, Array], tmp_path: Path
) -> None:
    both = ["--quantize-weights", "int2", "--quantize-aware"]
    assert "--quantize-aware: must be given without --quantize-weights" in train(tmp_path, *both)
    words = ["--weights", "int2", "--scheme", "int8", "-o", tmp_path / "out.tflite"]
    assert "--weights: must be given without --scheme" in run(
        "quantize", tmp_path / "m.tflite", *words
    )
    odt.load_model(tmp_path / "m.tflite").save(tmp_path / "m.circle")
    refused = run(
        "quantize", tmp_path / "m.circle", "--weights", "int2", "-o", tmp_path / "out.tflite"
    )
    assert "must be a TFLite model" in refused
