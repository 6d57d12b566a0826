"""onert trains from the files that gen-datafile writes; the real sets are as ONE defines them."""

import gzip
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.accept_data import complete
from support.datafiles import made
from support.idx import write_mnist
from support.paths import GOLDEN

from odt.kernels.rows.opdef import Array

MODEL = GOLDEN / "mnist" / "model.circle"
NEEDS_ONERT = pytest.mark.skipif(
    importlib.util.find_spec("onert") is None,
    reason="onert has wheels for Linux on x86-64 and aarch64, Python 3.10 to 3.12",
)
# onert crashes on what it does not know: it gets a process of its own.
TRAIN = """
import sys
from onert.experimental.train import DataLoader, optimizer, losses, session

x, t, length, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
loader = DataLoader(x, t, 10, input_shape=(length, 28, 28, 1), expected_shape=(length, 10))
s = session("m.circle")
s.compile(optimizer.Adam(rate), losses.CategoricalCrossentropy(), batch_size=10)
s.train(loader, epochs=4)
"""


def onert_losses(folder: Path, length: int, rate: float) -> list[float]:
    """Loss of each of four epochs of onert over train.*.<length>.bin in a folder."""
    (folder / "m.circle").write_bytes(MODEL.read_bytes())
    names = [f"train.{role}.{length}.bin" for role in ("input", "output")]
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, *names, str(length), str(rate)],
        cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [float(n) for n in re.findall(r"Train Loss: ([\d.]+)", done.stdout)]


@NEEDS_ONERT
def test_onert_trains_from_our_files(tmp_path: Path) -> None:
    write_mnist(tmp_path / "d", 40)
    made("mnist", "--data-dir", tmp_path / "d", "-o", tmp_path, "--length", 40, 10)
    losses = onert_losses(tmp_path, 40, 0.001)
    assert len(losses) == 4
    assert losses[3] < losses[0]


def published(path: Path, header: int) -> Array:
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)[header:]


@pytest.mark.accept
@pytest.mark.parametrize(
    ("name", "folder"), [("mnist", "mnist"), ("fashion_mnist", "fashion-mnist")]
)
def test_the_first_samples_are_ones_definition_byte_for_byte(
    name: str, folder: str, tmp_path: Path
) -> None:
    source = complete("data", "image", folder)
    made("--dataset_name", name, "--data_dir", source, "--out_dir", tmp_path, "--split", "train",
         "test", "--length", 1000, 100, "--prefix_name", name)  # fmt: skip
    for split, begin, n in (("train", "train", 1000), ("test", "t10k", 100)):
        pixels = published(source / f"{begin}-images-idx3-ubyte.gz", 16)[: n * 784]
        expected = pixels.astype("<f4") / np.float32(255)
        assert (tmp_path / f"{name}.{split}.input.{n}.bin").read_bytes() == expected.tobytes()
        labels = published(source / f"{begin}-labels-idx1-ubyte.gz", 8)[:n]
        one_hot = (labels[:, None] == np.arange(10)).astype("<f4")
        assert (tmp_path / f"{name}.{split}.output.{n}.bin").read_bytes() == one_hot.tobytes()


@NEEDS_ONERT
@pytest.mark.accept
def test_onert_learns_mnist_from_our_files(tmp_path: Path) -> None:
    source = complete("data", "image", "mnist")
    made("mnist", "--data-dir", source, "-o", tmp_path, "--length", 1000, 100)
    losses = onert_losses(tmp_path, 1000, 0.001)
    assert losses[3] < 0.6 * losses[0]
