"""Trained exports of all forms in the runtimes of others: equal, or refused by name.

tflite-micro, tflite-runtime 2.14.0 and OpenVINO have environments of their own, with the versions
in the Makefile. docs/quantized-results.md lists the refusals.
"""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.paths import MODELS, ROOT
from support.peer_runtimes import SCRIPTS, RefusedError, run

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept
SAMPLES, CLASSES = 48, 3
SHAPES = {"mlp": (12,), "cnn": (8, 8, 2), "ds-cnn": (12, 8, 1), "lstm": (6, 4)}
# Largest difference from odt's outputs, as a fraction of the range of the runtime's.
EXACT, STEPS, DYNAMIC = 1e-5, 0.025, 0.06


def data(shape: tuple[int, ...], seed: int = 0) -> tuple[Array, Array]:
    """Samples of which the class is the position of the largest of three means."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, SAMPLES).astype(np.int32)
    x = rng.normal(size=(SAMPLES, *shape)).astype(np.float32)
    x += (labels - 1).reshape(-1, *[1] * len(shape))
    return x, labels


def train(model: Any, x: Array, labels: Array, path: Path, outputs: int = CLASSES) -> None:
    y: Array = np.eye(outputs, dtype=np.float32)[labels]
    with odt.Trainer(
        model,
        loss="categorical_crossentropy",
        optimizer="adam",
        learning_rate=3e-3,
        batch_size=16,
        trainable=odt.last(-1),
    ) as trainer:
        trainer.fit(x, y, epochs=3, seed=1)
        trainer.export(path)


def new(kind: str, folder: Path, unroll: bool = False) -> tuple[Path, Array]:
    """A new network that was trained."""
    x, labels = data(SHAPES[kind])
    options: dict[str, Any] = {"hidden": [8]} if kind in ("mlp", "lstm") else {}
    model = odt.new_model(
        kind,  # type: ignore[arg-type]
        input_shape=SHAPES[kind],
        outputs=CLASSES,
        seed=1,
        file_format="tflite",
        unroll=unroll,
        **options,
    )
    train(model, x, labels, folder / "float.tflite")
    return folder / "float.tflite", x


def real(kind: str, unroll: bool = False) -> Callable[[Path], tuple[Path, Array]]:
    return lambda folder: new(kind, folder, unroll)


def quantized(
    kind: str, scheme: Any, unroll: bool = False, **options: Any
) -> Callable[[Path], tuple[Path, Array]]:
    """A new network that was trained, quantized and trained again."""

    def make(folder: Path) -> tuple[Path, Array]:
        path, x = new(kind, folder, unroll)
        samples = x if scheme in ("int8", "int16x8") else None
        odt.quantize(path, samples, scheme=scheme, **options).model.save(folder / "q.tflite")
        train(folder / "q.tflite", x, data(SHAPES[kind])[1], folder / "model.tflite")
        return folder / "model.tflite", x

    return make


def shipped(name: str, scale: float = 1.0) -> Callable[[Path], tuple[Path, Array]]:
    """A file of others that was trained."""

    def make(folder: Path) -> tuple[Path, Array]:
        graph = read_model(str(MODELS / name)).graph
        shape = graph.tensors[graph.inputs[0]].spec.shape[1:]
        x = scale * np.random.default_rng(1).random((8, *shape)).astype(np.float32)
        units = graph.tensors[graph.outputs[0]].spec.shape[-1]
        labels = np.arange(units, dtype=np.int32)[np.arange(8) % units]
        train(MODELS / name, x, labels, folder / "model.tflite", units)
        return folder / "model.tflite", x

    return make


def odt_command(*words: object) -> None:
    result = CliRunner().invoke(main, [*map(str, words)])
    assert result.exit_code == 0, result.output


def headed(name: str, last: int) -> Callable[[Path], tuple[Path, Array]]:
    """A file of others with a new head, trained on photos in folders, with labels."""

    def make(folder: Path) -> tuple[Path, Array]:
        head, out, model = folder / "head.tflite", folder / "data", folder / "model.tflite"
        with zipfile.ZipFile(ROOT / "examples" / "data" / "trash-photos.zip") as photos:
            photos.extractall(folder / "photos")
        odt_command("replace-head", MODELS / name, "--classes", 4, "--seed", 1, "--output", head)
        source = ("--source", folder / "photos", "--like", head, "--split", "train=0.8,test=0.2")
        odt_command("gen-datafile", *source, "--seed", 1, "--out-dir", out)
        samples = [("--load-input", "input"), ("--load-expected", "output")]
        files = [w for option, kind in samples for w in (option, out / f"train.{kind}.bin")]
        rate = ("--learning-rate", 3e-4, "--num-of-trainable-ops", last)
        odt_command("train", head, *files, "--epochs", 1, *rate, "--export-tflite", model)
        with zipfile.ZipFile(model) as archive:
            labels = archive.read(archive.namelist()[0]).decode().split()
        assert labels == ["cardboard", "glass", "metal", "paper"]
        found = read_model(str(head)).graph
        spec = found.tensors[found.inputs[0]].spec
        stored = np.fromfile(out / "test.input.bin", np.uint8)
        x = stored.reshape(-1, *spec.shape[1:])[:8].astype(np.float32)
        return model, x

    return make


def tanh(folder: Path) -> tuple[Path, Array]:
    """A network with fused TANHs, which runtimes leave out."""
    from odt.core.export.model_builder import ModelBuilder

    b = ModelBuilder("tflite", seed=2)
    y = b.add_input((1, 8, 8, 2))
    inputs = y, b.add_weight((4, 3, 3, 2), 18), b.add_constant(np.zeros(4, np.float32))
    strides: dict[str, Any] = {"stride_w": 1, "stride_h": 1}
    y = b.add_operator("CONV_2D", inputs, (1, 8, 8, 4), fused_activation_function=4, **strides)
    y = b.add_operator("MEAN", (y, b.add_constant([1, 2])), (1, 4))
    y = b.add_operator("SOFTMAX", (b.add_dense(y, CLASSES),), (1, CLASSES), beta=1.0)
    b.write(folder / "fused.tflite", y)
    x, labels = data((8, 8, 2))
    train(folder / "fused.tflite", x, labels, folder / "model.tflite")
    return folder / "model.tflite", x


BYTES: Any = {"input_type": "int8", "output_type": "int8"}
# Name → how it is made, and the largest difference.
EXPORTS: dict[str, tuple[Callable[[Path], tuple[Path, Array]], float]] = {
    "mlp": (real("mlp"), EXACT),
    "cnn": (real("cnn"), EXACT),
    "ds-cnn": (real("ds-cnn"), EXACT),
    "lstm, fused": (real("lstm"), EXACT),
    "lstm, unrolled": (real("lstm", unroll=True), EXACT),
    "lstm, unrolled, int8": (quantized("lstm", "int8", unroll=True), STEPS),
    "tanh": (tanh, EXACT),
    "mlp, float16": (quantized("mlp", "float16"), EXACT),
    "cnn, float16": (quantized("cnn", "float16"), EXACT),
    "mlp, int8-weights": (quantized("mlp", "int8-weights"), DYNAMIC),
    "cnn, int8-weights": (quantized("cnn", "int8-weights"), DYNAMIC),
    "ds-cnn, int8-weights": (quantized("ds-cnn", "int8-weights"), DYNAMIC),
    "mlp, int4-weights": (quantized("mlp", "int4-weights"), DYNAMIC),
    "cnn, int4-weights": (quantized("cnn", "int4-weights"), DYNAMIC),
    "mlp, int8": (quantized("mlp", "int8"), STEPS),
    "cnn, int8": (quantized("cnn", "int8"), STEPS),
    "cnn, int8, bytes": (quantized("cnn", "int8", **BYTES), STEPS),
    "ds-cnn, int8": (quantized("ds-cnn", "int8"), STEPS),
    "mlp, int16x8": (quantized("mlp", "int16x8"), 1e-3),
    "cnn, int16x8": (quantized("cnn", "int16x8"), 1e-3),
    "ds-cnn, hybrid of others": (shipped("mlperf-tiny-kws-dscnn-hybrid.tflite", 40), DYNAMIC),
    "lstm, int8": (shipped("tflm-mnist-lstm-int8.tflite"), STEPS),
    "head, float": (headed("mlperf-tiny-resnet8-cifar10.tflite", 3), EXACT),
    "head, int8": (headed("mlperf-tiny-resnet8-cifar10-int8.tflite", 3), STEPS),
}
HYBRID = [name for name in EXPORTS if "weights" in name or "hybrid" in name]
HALF, FUSED = ["mlp, float16", "cnn, float16"], ["lstm, fused", "lstm, int8"]
# Runtime → export → words of its refusal, as in the table of docs/quantized-results.md.
REFUSED: Mapping[str, Mapping[str, str]] = {
    "tflite-runtime": dict.fromkeys(HYBRID[:-1], "'FULLY_CONNECTED' version '12'"),
    "tflite-micro": {
        **dict.fromkeys(HYBRID, "Hybrid models are not supported|not supported"),
        **dict.fromkeys(HALF, "DEQUANTIZE"),
    },
    "compiled-model": dict.fromkeys(FUSED, "ERROR"),
    "openvino": {
        **dict.fromkeys(FUSED, "FrontEnd API failed"),
        "cnn, int4-weights": "Transpose for i4",
    },
}
# Runtime and export → a larger difference, where kernels of integers round otherwise.
LARGER = {
    ("tflite-micro", "lstm, int8"): 0.06,  # gates in fixed point of its own
    # Built-in kernels round twice, OpenVINO has real numbers: 14 of 256 steps after ten layers.
    ("litert-builtin", "head, int8"): 0.1,
    ("tflite-runtime", "head, int8"): 0.1,
    ("tflite-micro", "head, int8"): 0.1,
    ("openvino", "head, int8"): 0.1,
    ("openvino", "mlp, int16x8"): 0.01,  # int16 as real numbers
    ("openvino", "cnn, int16x8"): 0.01,
}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Array, Array]]:
    """Makes an export once: its path, inputs, and odt's outputs."""
    kept: dict[str, tuple[Path, Array, Array]] = {}

    def make(name: str) -> tuple[Path, Array, Array]:
        if name not in kept:
            path, x = EXPORTS[name][0](tmp_path_factory.mktemp("export"))
            with odt.Trainer(path, loss="categorical_crossentropy") as trainer:
                kept[name] = path, x[:8], np.asarray(trainer.predict(x[:8]))
        return kept[name]

    return make


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("runtime", SCRIPTS)
def test_exports_in_other_runtimes(
    runtime: str, name: str, made: Callable[[str], tuple[Path, Array, Array]]
) -> None:
    path, x, wanted = made(name)
    model = read_model(str(path))
    (i,), (y,) = model.graph.inputs, model.graph.outputs
    if i in model.quantization:
        q = model.quantization[i]
        lo, hi = np.iinfo(model.graph.tensors[i].spec.dtype).min, 127
        x = np.clip(np.rint(x / q.scale + q.zero_point), lo, hi).astype(np.int8)
    refusal = REFUSED.get(runtime, {}).get(name)
    if refusal is not None:
        with pytest.raises(RefusedError, match=refusal):
            run(runtime, path, [x], 1)
        return
    (found,) = run(runtime, path, [x], 1)
    if y in model.quantization:
        q = model.quantization[y]
        found = q.scale * (found.astype(np.float32) - q.zero_point.astype(np.float32))
    spread = max(float(np.ptp(found)), 1e-3)
    difference = float(np.abs(found.reshape(wanted.shape) - wanted).max()) / spread
    print(f"{runtime}, {name}: {difference:.2g} of the range")
    assert difference <= LARGER.get((runtime, name), EXPORTS[name][1])
