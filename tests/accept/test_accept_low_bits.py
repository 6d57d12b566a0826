"""Files of litert-quantizer with weights of 2 and 4 bits: evaluated, trained, judged by LiteRT."""

import io
import os
import subprocess
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from support.accept_data import complete
from support.damaged_integers import fuzz_copies
from support.judges import litert, random_inputs
from support.paths import MODELS, ROOT
from support.quantizer_files import for_quantizer

import odt
from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.model.packed_integers import int2_filters
from odt.kernels.geometry.quantize import dequantize
from odt.kernels.geometry.quantize import quantize as quantize_values
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept

PYTHON = ROOT / ".venv" / "quantizer" / "bin" / "python"
CASES = int(os.environ.get("ODT_ACCEPT_CASES", "20000"))  # of damaged files
PART = 400
# Names of recipes, which are functions of the quantizer's module with the ending _afp32 or none.
RECIPES = (
    "dynamic_wi8c", "dynamic_wi4c", "dynamic_wi2c", "dynamic_wi8b32", "dynamic_wi4b32",
    "dynamic_wi8c_hr", "dynamic_wi4c_hr", "dynamic_wi2c_hr",
    "weight_only_wi8", "weight_only_wi4", "static_wi8_ai8", "static_wi8_ai16",
)  # fmt: skip
REFUSED = "dynamic_wi2b32"  # LiteRT 2.3.0 does not load it
SCRIPT = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from litert_quantizer import quantizer, recipe

source, samples, folder, names = sys.argv[1], np.load(sys.argv[2]), sys.argv[3], sys.argv[4:]
for name in names:
    make = getattr(recipe, name + "_afp32", None) or getattr(recipe, name)
    q = quantizer.Quantizer(source, make())
    ranges = None
    if q.need_calibration:
        ((key, signature),) = Interpreter(source).get_signature_list().items()
        ranges = q.calibrate({key: [{signature["inputs"][0]: x[np.newaxis]} for x in samples]})
    open(f"{folder}/{name}.tflite", "wb").write(q.quantize(ranges).quantized_model)
"""
# Mean difference of outputs as a part of their range, which is 1 for probabilities: LiteRT rounds
# activations of dynamic recipes to 8 bits.
DYNAMIC = 0.02
SAMPLES = 60
NETWORKS = (
    "mlperf-tiny-kws-dscnn-hybrid",
    "mlperf-tiny-vww-mobilenetv1-0.25-96",
    "mlperf-tiny-ad-autoencoder",
)
NOT_QUANTIZED = {("mlperf-tiny-ad-autoencoder", "dynamic_wi4b32")}
FLOAT_PERCENT = 83.0  # of the demo network, in LiteRT, at least


def run(*words: object) -> str:
    result = CliRunner().invoke(main, [str(w) for w in words])
    assert result.exit_code == 0, result.output
    return result.output


def quantize(source: Path, samples: Array, folder: Path, *recipes: str) -> None:
    """Writes a file for each recipe by the quantizer in its own environment."""
    assert PYTHON.exists(), f"{PYTHON} is missing. Make it with: make accept ONLY=low_bits"
    np.save(folder / "samples.npy", samples)
    command = [PYTHON, "-c", SCRIPT, source, folder / "samples.npy", folder, *recipes]
    subprocess.run([*map(str, command)], check=True, capture_output=True)


def percent(path: Path, x: Array, labels: Array) -> float:
    """How many samples LiteRT classifies right."""
    return 100 * float(np.mean(litert(path, [x])[0].argmax(1) == labels))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo's data and its trained network."""
    folder = tmp_path_factory.mktemp("demo")
    source = ROOT / "examples" / "fashion-mnist"
    run("gen-datafile", "fashion_mnist", "--data-dir", source, "--out-dir", folder)
    run("new", "cnn", "--input-shape", "28,28,1", "--outputs", 10, "-o", folder / "cnn.circle",
        "--seed", 1)  # fmt: skip
    run("train", folder / "cnn.circle", "--data", folder, "--epochs", 5, "--learning-rate", 0.001,
        "--validation-split", 0.1, "--seed", 1,
        "--export-tflite", folder / "trained.tflite")  # fmt: skip
    return folder


def images(demo: Path, part: str) -> tuple[Array, Array]:
    x = np.fromfile(demo / f"{part}.input.bin", np.float32).reshape(-1, 28, 28, 1)
    return x, np.fromfile(demo / f"{part}.output.bin", np.float32).reshape(-1, 10).argmax(1)


@cache
def photos(part: str) -> tuple[Array, Array]:
    """CIFAR-10 images and the numbers of their classes."""
    with zipfile.ZipFile(complete("data", "image", "cifar10-jpg-subset.zip")) as archive:
        names = sorted(n for n in archive.namelist() if f"{part}/" in n and n.endswith(".jpg"))
        x = [np.asarray(Image.open(io.BytesIO(archive.read(n))).convert("RGB")) for n in names]
    classes = sorted({n.split("/")[-2] for n in names})
    return np.stack(x).astype(np.float32), np.array(
        [classes.index(n.split("/")[-2]) for n in names]
    )


@cache
def recordings() -> Array:
    """Mel spectra of words, cropped to the input of DS-CNN."""
    with np.load(complete("data", "audio", "speech-commands-yes-no-mel60x40.npz")) as data:
        x = data[data.files[0]]
    return np.ascontiguousarray(x[:60, :49, :10].reshape(60, 49, 10, 1), np.float32)


def network(name: str, folder: Path) -> tuple[Path, Array]:
    """A float model that the quantizer takes, and samples for it."""
    path = complete("data", "models", f"{name}.tflite")
    if name == "mlperf-tiny-kws-dscnn-hybrid":
        with odt.Trainer(path, loss="mean_squared_error") as trainer:
            path = folder / "float.tflite"
            trainer.export(path, float_weights=True)
        return for_quantizer(path, folder), recordings()
    return for_quantizer(path, folder), random_inputs(path, SAMPLES)[0]


def check_recipe(path: Path, x: Array, folder: Path) -> None:
    """Compares evaluation and an export with LiteRT, before and after a training."""
    model, out = read_model(path), folder / "out.tflite"
    (i,) = model.graph.inputs
    dtype = model.graph.tensors[i].spec.dtype
    if dtype != np.float32:
        x = quantize_values(x, model.quantization[i], dtype)
    widened = int2_filters(model)

    def assert_equal(trained: Path, ours: Array) -> None:
        """Integers are equal, or nearly (8 bits); other activations are rounded."""
        (theirs,) = litert(trained, [x])
        written = read_model(trained)
        (o,) = written.graph.outputs
        if dtype != np.float32:
            steps = np.abs(ours - dequantize(theirs, written.quantization[o]))
            most = 1 if dtype == np.int8 else 0
            assert steps.max() < (most + 0.5) * written.quantization[o].scale[0], path.stem
        else:
            spread = max(float(np.ptp(theirs)), 1.0)
            assert np.abs(ours - theirs).mean() < DYNAMIC * spread, path.stem

    with odt.Trainer(path, loss="mean_squared_error", batch_size=8, learning_rate=1e-5) as trainer:
        y = np.asarray(trainer.predict(x))
        if not widened:
            assert_equal(path, y)
        # Steps that leave most probabilities between 0 and 1, where differences show.
        trainer.fit(x, np.roll(y, 1, axis=0), epochs=1, seed=1)
        trainer.export(out)
    assert_equal(out, np.asarray(odt.predict(out, x)))
    count = Counter(n.op for n in read_model(out).graph.nodes)
    assert count == Counter(n.op for n in model.graph.nodes)
    if not widened:
        size = path.stat().st_size
        assert abs(out.stat().st_size - size) < 0.01 * size, path.stem


@pytest.mark.parametrize("recipe", RECIPES)
def test_litert_computes_the_demo_network(recipe: str, demo: Path, tmp_path: Path) -> None:
    x = images(demo, "test")[0][:SAMPLES]
    quantize(demo / "trained.tflite", x, tmp_path, recipe)
    check_recipe(tmp_path / f"{recipe}.tflite", x, tmp_path)


@pytest.mark.parametrize("recipe", RECIPES)
def test_litert_computes_resnet8(recipe: str, tmp_path: Path) -> None:
    x = photos("test")[0][::34]
    source = for_quantizer(MODELS / "mlperf-tiny-resnet8-cifar10.tflite", tmp_path)
    quantize(source, x, tmp_path, recipe)
    check_recipe(tmp_path / f"{recipe}.tflite", x, tmp_path)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_litert_computes_other_networks(recipe: str, name: str, tmp_path: Path) -> None:
    if (name, recipe) in NOT_QUANTIZED:
        pytest.skip("the quantizer refuses layers that blocks do not divide")
    source, x = network(name, tmp_path)
    quantize(source, x, tmp_path, recipe)
    check_recipe(tmp_path / f"{recipe}.tflite", x, tmp_path)


def test_a_2_bit_file_recovers(demo: Path, tmp_path: Path) -> None:
    """LiteRT does not run the quantizer's file: it has no int2 kernel of CONV_2D."""
    x, labels = images(demo, "test")
    quantize(demo / "trained.tflite", x[:60], tmp_path, "dynamic_wi2c", "dynamic_wi4b32")
    exact = percent(demo / "trained.tflite", x, labels)
    assert exact > FLOAT_PERCENT
    right = {}
    for name in ("dynamic_wi2c", "dynamic_wi4b32"):
        out = tmp_path / f"{name}.out.tflite"
        run("train", tmp_path / f"{name}.tflite", "--data", demo, "--epochs", 5, "--seed", 1,
            "--export-tflite", out)  # fmt: skip
        right[name] = percent(out, x, labels)
        print(name, out.stat().st_size, right[name], "float", exact)
    assert right["dynamic_wi2c"] >= 80
    assert (tmp_path / "dynamic_wi2c.out.tflite").stat().st_size < 33_500
    assert right["dynamic_wi4b32"] >= exact - 0.5


def test_resnet8_of_2_bits_is_near_the_float_model(tmp_path: Path) -> None:
    source = MODELS / "mlperf-tiny-resnet8-cifar10.tflite"
    x, labels = photos("train")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", labels.astype(np.int32))
    out = tmp_path / "out.tflite"
    run("train", source, "--quantize-weights", "int2", "--load-input", tmp_path / "x.npy",
        "--load-expected", tmp_path / "y.npy", "--loss", "sparse-categorical-crossentropy",
        "--epochs", 3, "--seed", 1, "--export-tflite", out)  # fmt: skip
    x, labels = photos("test")
    quantize(source, x[:20], tmp_path, "dynamic_wi2c")
    outputs = odt.predict(tmp_path / "dynamic_wi2c.tflite", x)
    theirs = 100 * float(np.mean(outputs.argmax(1) == labels))
    ours, exact = percent(out, x, labels), percent(source, x, labels)
    print("ResNet-8", out.stat().st_size, ours, "float", exact, "the quantizer's", theirs)
    assert ours >= exact - 6
    assert ours >= theirs + 20


def test_files_that_litert_refuses_train(demo: Path, tmp_path: Path) -> None:
    x, labels = images(demo, "test")
    quantize(demo / "trained.tflite", x[:60], tmp_path, REFUSED)
    path, out = tmp_path / f"{REFUSED}.tflite", tmp_path / "out.tflite"
    run("train", path, "--data", demo, "--epochs", 2, "--seed", 1, "--export-tflite", out)
    assert np.mean(odt.predict(out, x).argmax(1) == labels) > 0.8
    assert abs(out.stat().st_size - path.stat().st_size) < 0.01 * path.stat().st_size


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the quantizer's files of a small CNN."""
    folder = tmp_path_factory.mktemp("small")
    real = odt.new_model("cnn", input_shape=(8, 8, 1), outputs=3, filters=[8], seed=1)
    real.save(folder / "float.tflite")
    x = np.random.default_rng(0).normal(size=(8, 8, 8, 1)).astype(np.float32)
    quantize(for_quantizer(folder / "float.tflite", folder), x, folder, *RECIPES, REFUSED)
    return folder


@pytest.mark.parametrize("recipe", [*RECIPES, REFUSED])
@pytest.mark.parametrize("part", range(-(-CASES // (len(RECIPES) + 1) // PART)))
def test_damaged_files_give_answers_or_one_line(
    recipe: str, part: int, small: Path, tmp_path: Path
) -> None:
    whole = (small / f"{recipe}.tflite").read_bytes()
    fuzz_copies(whole, recipe, tmp_path, PART, seed=1000 + part)
