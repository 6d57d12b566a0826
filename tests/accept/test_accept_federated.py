"""Federations on real data: accuracy beside central training, bytes, 1,000 rounds, bad updates."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.accept_data import complete
from support.many_rounds import growth
from support.update_mutations import try_updates

import odt
from odt import federated

pytestmark = pytest.mark.accept

ROUNDS = 30
CLIENTS = 10
UNEVEN = ("dirichlet:0.3", "by-label")  # partitions
PLAIN = "categorical-crossentropy"
SMOOTHED = f"{PLAIN}:label-smoothing=0.1"  # recommended in docs/federated.md for uneven clients
WITHIN = 0.02  # of the accuracy of central training, in the mean of the seeds
Array = np.ndarray[Any, Any]
Data = tuple[Array, Array, Array, Array]  # x, y, test x, test y


def idx(name: str) -> Array:
    data = gzip.decompress(complete("data", "image", "mnist", name).read_bytes())
    sizes = np.frombuffer(data, ">u4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)


def mnist() -> Data:
    """12,000 digits for training, and all 10,000 for the test."""
    parts = [idx(f"{part}-{kind}.gz") for part in ("train", "t10k")
             for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]  # fmt: skip
    x, y, test_x, test_y = (a[:12000] for a in parts)
    scaled = [(a[..., np.newaxis] / np.float32(255)).astype(np.float32) for a in (x, test_x)]
    one_hot = np.eye(10, dtype=np.float32)
    return scaled[0], one_hot[y], scaled[1], one_hot[test_y]


def speech() -> Data:
    """1,000 recordings of yes and no for training, and 400 for the test, as mel bands."""
    with np.load(complete("data", "audio", "speech-commands-yes-no-mel60x40.npz")) as file:
        x, test_x = (file[f"x_{part}"].astype(np.float32) for part in ("train", "test"))
        y, test_y = (np.eye(2, dtype=np.float32)[file[f"y_{part}"]] for part in ("train", "test"))
    mean, std = x.mean(), x.std()
    x, test_x = ((a - mean)[..., np.newaxis] / std for a in (x, test_x))
    return x, y, test_x, test_y


def central(model: odt.Model, data: Data, seed: int, loss: str) -> float:
    """Accuracy of training on all samples, as many epochs as a federation has rounds."""
    x, y, *held = data
    with odt.Trainer(model, loss=loss, metrics=["accuracy"]) as trainer:
        trainer.fit(x, y, epochs=ROUNDS, seed=seed)
        return trainer.evaluate(*held)["accuracy"]


def federate(model: odt.Model, data: Data, seed: int, loss: str, partition: str) -> float:
    x, y, *held = data
    with federated.new_trainer(model, loss=loss, metrics=["accuracy"]) as trainer:
        history = federated.simulate(
            trainer, x, y, clients=CLIENTS, partition=partition, rounds=ROUNDS, seed=seed,
            validation_data=tuple(held),
        )  # fmt: skip
    return history.of("val_accuracy")[-1]


def mean_accuracies(name: str, data: Data, seeds: range, loss: str) -> Array:
    """Mean accuracies over the seeds: of central training, then of each partition in UNEVEN."""
    rows = []
    for seed in seeds:
        model = odt.new_model("mlp", like=data[:2], seed=seed)
        row = [central(model, data, seed, loss)]
        row += [federate(model, data, seed, loss, partition) for partition in UNEVEN]
        print(f"{name}, {loss}, seed {seed}:", *(f"{value:.4f}" for value in row))
        rows.append(row)
    means: Array = np.mean(rows, axis=0)
    print(f"{name}, {loss}, mean:", *(f"{value:.4f}" for value in means))
    return means


@pytest.mark.filterwarnings("ignore::odt.OdtWarning")
@pytest.mark.parametrize("name", ["mnist", "speech"])
def test_uneven_clients_come_within_two_points_of_central_training(name: str) -> None:
    """With label smoothing, which also improves every part over the plain loss."""
    load, seeds = {"mnist": (mnist, range(5)), "speech": (speech, range(10))}[name]
    data = load()
    plain, smoothed = (mean_accuracies(name, data, seeds, loss) for loss in (PLAIN, SMOOTHED))
    baseline, dirichlet, _ = smoothed
    assert dirichlet >= baseline - WITHIN
    assert (smoothed > plain).all()


def test_a_head_sends_a_fiftieth_of_the_model() -> None:
    path = complete("data", "models", "teachable-machine-mobilenetv2-0.35-fruit.tflite")
    model = odt.replace_head(path, classes=5)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (8, 224, 224, 3)).astype(np.float32)
    y = np.eye(5, dtype=np.float32)[rng.integers(0, 5, 8)]
    whole = 2 * sum(a.nbytes for a in model.parameters.values())  # there and back
    for payload, most in (("float32", whole / 50), ("int8", whole / 150)):
        with federated.new_trainer(model, trainable=odt.last(2)) as trainer:
            history = federated.simulate(trainer, x, y, clients=2, rounds=1, payload=payload)
        result = history.rounds[1]
        both = (result.bytes_up + result.bytes_down) / result.trained
        print(f"{payload}: {both:,.0f} of {whole:,} bytes there and back, 1/{whole / both:.0f}")
        assert both <= most


def test_a_thousand_rounds_gather_nothing(tmp_path: Path) -> None:
    grown = growth(1000, tmp_path)
    print(grown)
    assert max(grown["threads"], grown["files"]) <= 0  # threads that just ended may still be listed
    assert grown["memory"] < 4000
    assert grown["resident"] < 16e6


def test_20000_damaged_updates_are_used_or_refused_in_one_line() -> None:
    results = try_updates(20_000, seed=2)
    print(results)
    assert sum(results.values()) == 20_000
    assert min(results.values()) > 2_000
