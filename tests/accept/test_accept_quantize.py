"""`odt quantize` beside litert-quantizer: accuracy in LiteRT, noise, and memory."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import copy

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from support.accept_data import complete
from support.judges import random_inputs
from support.quantizer_files import for_quantizer

from odt.core.formats.reader import read_model
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

PEAK = 80_000_000  # bytes of the process; ai-edge-quantizer's has 371 MB
RUN = """
import sys
from odt.cli.main import main

try:
    main(sys.argv[1:])
except SystemExit as e:
    assert e.code == 0
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""
# LiteRT loads the files that ai-edge-quantizer makes of these.
MODELS = (
    "mlperf-tiny-resnet8-cifar10",
    "mlperf-tiny-vww-mobilenetv1-0.25-96",
    "teachable-machine-mobilenetv2-0.35-fruit",
    "mnist-cnn-uint8-input",
    "kws-yes-no-conv60x40",
    "kws-yes-no-dwconv128x32",
    "tflm-hello-world-sine-float",
    "tflm-mnist-lstm-float",
    "planestrike-policy-dense",
)
SAMPLES = 60  # half of them for calibration


def odt(*words: object) -> int:
    """Runs a command; returns the peak of its resident memory in bytes."""
    command = [sys.executable, "-c", RUN, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return int(done.stdout.split()[-1]) * 1024


def outputs(model: Path, samples: Sequence[Array]) -> list[Array]:
    """The real numbers of the outputs, by LiteRT, for samples of real numbers."""
    interpreter = Interpreter(str(model), num_threads=1)
    interpreter.allocate_tensors()
    found: list[list[Array]] = []
    for k in range(len(samples[0])):
        for detail, x in zip(interpreter.get_input_details(), samples, strict=True):
            values = x[k]
            if detail["dtype"] == np.int8:
                scale, zero_point = detail["quantization"]
                values = np.clip(np.rint(values / scale) + zero_point, -128, 127)
            values = values.reshape(detail["shape"]).astype(detail["dtype"])
            interpreter.set_tensor(detail["index"], values)
        interpreter.invoke()
        found.append([])
        for detail in interpreter.get_output_details():
            y = interpreter.get_tensor(detail["index"]).copy()
            scale, zero_point = detail["quantization"]
            found[-1].append((y - np.float32(zero_point)) * (scale or 1))
    return [np.stack(y) for y in zip(*found, strict=True)]


def decibels(wanted: Array, got: Array) -> float:
    error = np.square(wanted - got.reshape(wanted.shape), dtype=np.float64).sum()
    return float(10 * np.log10(np.square(wanted, dtype=np.float64).sum() / error))


def test_trashnet(tmp_path: Path) -> None:
    """Each fifth of the photos is the test once. ai-edge-quantizer: 82.5 % and 96.25 %."""
    backbone = complete("data", "models", "teachable-machine-mobilenetv2-0.35-fruit.tflite")
    head = tmp_path / "head.tflite"
    odt("replace-head", backbone, "--classes", 4, "--output", head, "--seed", 1)
    right, same = [], []
    for fold in range(5):
        folder = tmp_path / str(fold)
        for kind in complete("data", "photos", "trashnet-4class").iterdir():
            for k, photo in enumerate(sorted(kind.glob("*.jpg"))):
                split = folder / "photos" / ("test" if k % 5 == fold else "train") / kind.name
                split.mkdir(parents=True, exist_ok=True)
                copy(photo, split)
        data = ("--like", head, "--scale=-1..1", "--out-dir", folder)
        odt("gen-datafile", "--source", folder / "photos", *data)
        train = ("--load-input", folder / "train.input.bin")
        targets = ("--load-expected", folder / "train.output.bin")
        trained, integers = folder / "trained.tflite", folder / "int8.tflite"
        options = ("--epochs", 50, "--shuffle", "--seed", 1, "--cache-frozen")
        odt("train", head, *train, *targets, *options, "--export-tflite", trained)
        calibrate = ("--calibrate", folder / "train.input.bin")
        peak = odt("quantize", trained, *calibrate, "--output", integers)
        assert peak <= PEAK
        x = np.fromfile(folder / "test.input.bin", np.float32).reshape(-1, 224, 224, 3)
        y = np.fromfile(folder / "test.output.bin", np.float32).reshape(-1, 4).argmax(1)
        real, rounded = (outputs(model, [x])[0].reshape(-1, 4) for model in (trained, integers))
        right.append((rounded.argmax(1) == y).mean())
        same.append((rounded.argmax(1) == real.argmax(1)).mean())
        print(fold, (real.argmax(1) == y).mean(), right[-1], same[-1], decibels(real, rounded))
    assert np.mean(right) >= 0.825
    assert np.mean(same) >= 0.96


def samples_of(path: Path, folder: Path) -> list[Array]:
    """Pictures for ResNet-8 and MobileNetV2; else smooth random pictures, or normal values."""
    for word, scale, split, pictures in (
        ("cifar", "none", "train", complete("data", "image", "cifar10-jpg-subset.zip")),
        ("teachable", "-1..1", "new", complete("data", "photos", "trashnet-4class")),
    ):
        if word in path.name:
            options = (f"--scale={scale}", "--unlabelled", "--out-dir", folder)
            odt("gen-datafile", "--source", pictures, "--like", path, *options)
            shape = read_model(str(path)).graph.tensors[0].spec.shape
            x = np.fromfile(folder / f"{split}.input.bin", np.float32).reshape(-1, *shape[1:])
            return [x[:: len(x) // SAMPLES][:SAMPLES]]
    inputs = random_inputs(path, SAMPLES)
    x = inputs[0]
    if x.ndim < 4 or x.shape[-1] not in (1, 3):
        return inputs
    rng = np.random.default_rng(0)
    height, width, channels = x.shape[1:]
    small = rng.uniform(size=(SAMPLES, -(-height // 8), -(-width // 8), channels))
    smooth = np.kron(small, np.ones((1, 8, 8, 1)))[:, :height, :width]
    noisy = smooth + rng.normal(size=x.shape) / 20
    return [(noisy * (255 if x.dtype == np.uint8 else 1)).astype(x.dtype)]


@pytest.mark.parametrize("name", MODELS)
def test_noise_is_that_of_the_other_quantizer_at_most(name: str, tmp_path: Path) -> None:
    from litert_quantizer import quantizer, recipe

    path = complete("data", "models", f"{name}.tflite")
    samples = samples_of(path, tmp_path)
    calibration, rest = ([x[k::2] for x in samples] for k in (0, 1))
    signed = for_quantizer(path, tmp_path)
    other = quantizer.Quantizer(str(signed))
    other.load_quantization_recipe(recipe.static_wi8_ai8())
    each = zip(*calibration, strict=True)
    fed = [{f"inputs{k}": a[np.newaxis] for k, a in enumerate(sample)} for sample in each]
    ranges = other.calibrate({"serving_default": fed})
    other.quantize(ranges).export_model(str(tmp_path / "other.tflite"))
    np.savez(tmp_path / "x.npz", *calibration)
    given = ("--calibrate", tmp_path / "x.npz")
    odt("quantize", path, *given, "--output", tmp_path / "ours.tflite")
    wanted = outputs(path, rest)
    ours, theirs = (outputs(tmp_path / f"{n}.tflite", rest) for n in ("ours", "other"))
    for real, here, there in zip(wanted, ours, theirs, strict=True):
        print(name, decibels(real, here), decibels(real, there))
        assert decibels(real, here) >= decibels(real, there) - 1
