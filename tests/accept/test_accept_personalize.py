"""Personalization of ResNet-8 on CIFAR-10: new classes one by one, and the power cut meanwhile."""

import io
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.accept_data import complete
from support.power_loss import power_loss

import odt
from odt.core.export.add_classes import add_classes
from odt.core.lowering.class_head import class_head
from odt.core.storage.atomic_files import UNFINISHED
from odt.core.training.feature_store import read_store

pytestmark = pytest.mark.accept

SEEDS = (0, 1, 2)
OLD, NEW = 7, (7, 8, 9)  # classes at first, and those that come one by one
LABELS: dict[str, Any] = {"loss": "sparse_categorical_crossentropy", "cache_frozen": "ram"}


@cache
def photos(part: str) -> tuple[Any, Any]:
    """Photos (N, 32, 32, 3), 0 … 255, and labels (N,)."""
    with zipfile.ZipFile(complete("data", "image", "cifar10-jpg-subset.zip")) as archive:
        names = sorted(n for n in archive.namelist() if f"{part}/" in n and n.endswith(".jpg"))
        found = [np.asarray(_rgb(archive.read(name)), np.float32) for name in names]
    classes = [name.split("/")[-2] for name in names]
    numbers = {c: k for k, c in enumerate(sorted(set(classes)))}
    return np.stack(found), np.array([numbers[c] for c in classes])


def _rgb(data: bytes) -> Any:
    return Image.open(io.BytesIO(data)).convert("RGB")


def samples(part: str, seed: int) -> tuple[Any, Any]:
    """Photos with labels in an order of the classes that is random by seed."""
    x, y = photos(part)
    return x, np.argsort(np.random.default_rng(seed).permutation(10))[y]


def accuracy(model: Path, seed: int) -> float:
    """Percentage of the test photos of all classes that are classified correctly."""
    x, y = samples("test", seed)
    with odt.Trainer(model, loss="categorical_crossentropy") as trainer:
        return 100 * float(np.mean(trainer.predict(x).argmax(axis=1) == y))


def train_head(classes: int, seed: int, path: Path) -> None:
    """Trains a new last layer on all samples of the first classes."""
    x, y = samples("train", seed)
    model = odt.replace_head(
        complete("data", "models", "mlperf-tiny-resnet8-cifar10.tflite"), classes, seed=seed
    )
    with odt.Trainer(model, trainable=odt.last(2), learning_rate=0.003, **LABELS) as trainer:
        trainer.fit(x[y < classes], y[y < classes].astype(np.int32), epochs=20, seed=seed)
        trainer.export(path)


def of(label: int, seed: int, count: int = 650) -> tuple[Any, Any]:
    """Training photos of one class."""
    x, y = samples("train", seed)
    return x[y == label][:count], y[y == label][:count]


def naive(model: Path, seed: int) -> None:
    """Fine-tunes the last layer on each new class alone."""
    for label in NEW:
        old = odt.load_model(model)
        head = class_head(old._lowered.graph)
        more = odt.Model(add_classes(old._file, head, 1, ()))
        x, y = of(label, seed)
        with odt.Trainer(more, trainable=odt.last(2), **LABELS) as trainer:
            trainer.fit(x, y.astype(np.int32), epochs=15, seed=seed, fine_tune=False)
            trainer.export(model)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Models of seven classes; accuracy of training on everything, and of naive fine-tuning."""
    folder, found = tmp_path_factory.mktemp("models"), []
    for seed in SEEDS:
        train_head(OLD, seed, folder / f"{seed}.tflite")
        train_head(10, seed, folder / "joint.tflite")
        shutil.copy(folder / f"{seed}.tflite", folder / "naive.tflite")
        naive(folder / "naive.tflite", seed)
        found.append([accuracy(folder / f"{name}.tflite", seed) for name in ("joint", "naive")])
        print("joint, naive", seed, found[-1])
    return folder, np.mean(found, axis=0)


# Sampling, photos of each new class, points below training on everything that are allowed.
CASES = [("reservoir", 650, 3), ("herding", 650, 4), ("reservoir", 20, 6), ("herding", 20, 6)]


@pytest.mark.parametrize(("sampling", "count", "below"), CASES)
def test_new_classes_one_by_one(
    sampling: Any, count: int, below: float, others: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, (together, alone) = others
    model, found = tmp_path / "model.tflite", []
    store = Path(f"{model}.features.npz")
    for seed in SEEDS:
        shutil.copy(folder / f"{seed}.tflite", model)
        store.unlink(missing_ok=True)
        x, y = samples("train", seed)
        odt.personalize(model, (x[y < OLD], y[y < OLD]), epochs=0, sampling=sampling, seed=seed)
        for label in NEW:
            result = odt.personalize(model, of(label, seed, count), sampling=sampling, seed=seed)
            assert result.kept, result
        assert store.stat().st_size <= 1e6
        assert [len(c) for c in read_store(store).classes] == [20] * 10
        found.append(accuracy(model, seed))
        print(sampling, count, seed, found[-1], store.stat().st_size)
    replayed = np.mean(found)
    print(sampling, count, "mean", replayed, "joint", together, "naive", alone)
    assert together - replayed <= below
    assert replayed - alone >= 15


def test_the_power_is_cut_at_random_moments_of_writing(tmp_path: Path) -> None:
    """At 50 moments drawn from all writes, syncs and renames of the three runs."""
    model, seed = tmp_path / "model.tflite", 0
    train_head(OLD, seed, model)
    x, y = (a[:: len(a) // 300] for a in samples("train", seed))
    odt.personalize(model, (x[y < OLD], y[y < OLD]), epochs=0)
    store, rng = Path(f"{model}.features.npz"), random.Random(0)
    states = []
    for label in NEW:
        before = model.read_bytes(), store.read_bytes()
        new = x[y == label], y[y == label]
        with power_loss() as moments:
            assert odt.personalize(model, new, held_back=0, forgetting=1).kept
        after = model.read_bytes(), store.read_bytes()
        for _ in range(17):
            model.write_bytes(before[0])
            store.write_bytes(before[1])
            with power_loss(rng.randrange(moments.count)):
                odt.personalize(model, new, held_back=0, forgetting=1)
            states.append(check(model, store, before, after))
        model.write_bytes(after[0])
        store.write_bytes(after[1])
    assert len(states) >= 50
    assert set(states) == {(0, 0), (0, 1), (1, 1)}, "old and old, old and new, new and new"


def check(
    model: Path, store: Path, before: tuple[bytes, bytes], after: tuple[bytes, bytes]
) -> tuple[int, int]:
    """Whether the model and the store are the old ones or the new ones, and work together."""
    state = (
        (before[0], after[0]).index(model.read_bytes()),
        (before[1], after[1]).index(store.read_bytes()),
    )
    assert len(read_store(store).classes) >= odt.load_model(model).outputs[0].shape[-1]
    return state


@pytest.mark.filterwarnings("ignore::odt.OdtWarning")
def test_the_process_is_killed_at_random_moments(tmp_path: Path) -> None:
    """SIGKILL to `odt personalize` at 50 moments from its start to its end."""
    model = tmp_path / "model.tflite"
    train_head(OLD, 0, model)
    x, y = (a[:: len(a) // 300] for a in samples("train", 0))
    odt.personalize(model, (x[y < OLD], y[y < OLD]), epochs=0)
    np.save(tmp_path / "x.npy", x[y == OLD])
    np.save(tmp_path / "y.npy", y[y == OLD])
    store = Path(f"{model}.features.npz")
    command = [sys.executable, "-m", "odt", "personalize", str(model), "--held-back", "0"]
    command += ["--load-input", f"{tmp_path}/x.npy", "--load-expected", f"{tmp_path}/y.npy"]
    before = model.read_bytes(), store.read_bytes()
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    whole, after = time.monotonic() - start, (model.read_bytes(), store.read_bytes())
    rng, states = random.Random(0), []
    for _ in range(50):
        model.write_bytes(before[0])
        store.write_bytes(before[1])
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # most of the time is start-up and training; files are written at the end
        time.sleep(whole * rng.triangular(0.3, 1.2, 0.95))
        process.send_signal(signal.SIGKILL)
        process.wait()
        states.append(check(model, store, before, after))
    print({state: states.count(state) for state in set(states)})
    subprocess.run(command, check=True, capture_output=True)
    leftovers = [name for name in os.listdir(tmp_path) if name.startswith(UNFINISHED)]
    assert not leftovers, "the next run removes what killed ones left"
