"""Training in WebAssembly: the bits of `ODT_KERNELS=base`, in node and in Debian's Chromium."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.browser import answer
from bench.networks.dense import mlp
from bench.networks.images import unet_transposed
from bench.networks.layers import Network
from bench.networks.mobile import mobilenet
from bench.networks.plain import mnist
from bench.networks.residual import resnet8
from bench.networks.sequences import gru_unrolled, lstm_128
from bench.networks.task import random_batch
from bench.write_models import write
from support.paths import ROOT

import odt

pytestmark = pytest.mark.accept
NODE = shutil.which("node") or ""
SCRIPTS = ROOT / "tests/support/web"
TYPESCRIPT = "typescript@5.9.3"
STEPS = 100
LOSSES = {"cce": "categorical_crossentropy", "mse": "mean_squared_error"}
CASES: list[tuple[str, Callable[[], Network], int, Any]] = [
    ("mnist", mnist, 32, odt.Adam(1e-3)),
    ("mlp", mlp, 32, odt.SGD(0.05, momentum=0.9)),
    ("resnet8", resnet8, 8, odt.AdamW(1e-3)),
    ("mobilenet", lambda: mobilenet(96, 10), 4, odt.RMSprop(1e-4)),
    ("lstm", lstm_128, 32, odt.Lion(1e-4)),
    ("gru", gru_unrolled, 16, odt.Adam(1e-3)),
    ("unet", unet_transposed, 2, odt.SGD(0.01)),
]


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    if not NODE:
        pytest.fail("node: must be installed, but is not. apt-get install nodejs", False)
    if find_spec("ziglang") is None:
        pytest.fail("ziglang: must be installed, but is not. make accept ONLY=wasm", False)
    monkeypatch.setenv("ODT_KERNELS", "base")


def run(*words: str | Path, cwd: Path | None = None) -> str:
    """Runs a command, and returns what it prints."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "network", "batch", "optimizer"), CASES, ids=[c[0] for c in CASES]
)
def test_a_module_computes_the_bits_of_the_base_kernels(
    name: str, network: Callable[[], Network], batch: int, optimizer: Any, tmp_path: Path
) -> None:
    net, model = network(), tmp_path / f"{name}.tflite"
    write(net, model)
    options = {"loss": LOSSES[net.loss], "optimizer": optimizer, "batch_size": batch}
    odt.compile(model, tmp_path / "web", target="wasm", **options)
    x, y = random_batch(net, STEPS * batch)
    each = list(zip(np.split(x, STEPS), np.split(y, STEPS), strict=True))
    data = b"".join(np.ascontiguousarray(a).tobytes() for pair in each for a in pair)
    (tmp_path / "batches.bin").write_bytes(data)
    run(NODE, SCRIPTS / "train.mjs", tmp_path / "web" / f"{name}.js", tmp_path)
    files = {p.stem: p.read_bytes() for p in tmp_path.glob("*.bin")}
    with odt.Trainer(model, workers=1, micro_batch=batch, **options) as trainer:
        losses = [trainer.train_on_batch(*pair)["loss"] for pair in each]
        losses.append(trainer.test_on_batch(*each[-1])["loss"])
        names = [
            w["name"] for w in json.loads((tmp_path / "web/manifest.json").read_text())["weights"]
        ]
        weights = b"".join(trainer.weights[n].tobytes() for n in names)
        outputs = trainer.predict(each[-1][0])
        trainer.export(tmp_path / "trained.tflite")
    assert files["exported"] == (tmp_path / "trained.tflite").read_bytes()
    assert files["weights"] == weights
    assert files["continued"] == weights
    np.testing.assert_array_equal(
        np.frombuffer(files["losses"], np.float32), np.array(losses, np.float32)
    )
    assert files["outputs"] == outputs.tobytes()


@pytest.fixture(scope="module")
def mnist_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The MNIST CNN, compiled."""
    folder = tmp_path_factory.mktemp("mnist")
    compile_mnist(folder)
    return folder / "web"


def compile_mnist(folder: Path) -> None:
    write(mnist(), folder / "mnist.tflite")
    options: Any = {"loss": "categorical_crossentropy", "optimizer": odt.Adam(1e-3)}
    odt.compile(folder / "mnist.tflite", folder / "web", target="wasm", batch_size=32, **options)


def test_code_and_tables_are_small(mnist_folder: Path) -> None:
    """Without weights, which have 139,304 bytes; tables are beside the rest of the model file."""
    code, data = ((mnist_folder / f"mnist.{kind}").read_bytes() for kind in ("wasm", "bin"))
    assert len(code) <= 45_000
    assert len(gzip.compress(code, 9)) <= 20_000
    assert len(data) - 139_304 <= 5_000


def test_the_files_are_the_same_in_any_folder(mnist_folder: Path, tmp_path: Path) -> None:
    compile_mnist(tmp_path)
    for path in (p for p in mnist_folder.rglob("*") if p.is_file()):
        assert path.read_bytes() == (tmp_path / "web" / path.relative_to(mnist_folder)).read_bytes()


def test_the_types_fit_the_module(mnist_folder: Path, tmp_path: Path) -> None:
    """TypeScript accepts a program that uses every method, and refuses arrays of other types."""
    shutil.copytree(mnist_folder, tmp_path / "web")
    shutil.copy(SCRIPTS / "types.mts", tmp_path)
    run("npm", "install", "--no-save", "--silent", TYPESCRIPT, cwd=tmp_path)
    options = "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"
    run(tmp_path / "node_modules/.bin/tsc", *options, "types.mts", cwd=tmp_path)


def test_a_page_trains_in_a_worker(mnist_folder: Path, tmp_path: Path) -> None:
    """Chromium computes what node does, in order, and gets errors as rejections."""
    site = tmp_path / "site"
    shutil.copytree(mnist_folder, site / "web")
    for name in ("page.html", "page.mjs"):
        shutil.copy(SCRIPTS / name, site)
    if not shutil.which("chromium"):
        pytest.fail("chromium: must be installed, but is not. apt-get install chromium", False)
    result = answer(site, "page.html")
    direct = json.loads(run(NODE, SCRIPTS / "page.mjs", mnist_folder / "mnist.js"))
    assert result["losses"] == direct["losses"]
    assert result["weights"] == direct["weights"]
    assert result["errors"] == direct["errors"] == ["RangeError", "TypeError", "StateError"]
    assert result["afterTerminate"] == "Error"


def test_files_of_another_program_are_refused(mnist_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "web"
    shutil.copytree(mnist_folder, folder)
    data = (folder / "mnist.bin").read_bytes()
    (folder / "mnist.bin").write_bytes(data[:-4])
    (tmp_path / "batches.bin").touch()
    words = NODE, SCRIPTS / "train.mjs", folder / "mnist.js", tmp_path
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert f"must have {len(data)} bytes, but has {len(data) - 4}." in done.stderr
