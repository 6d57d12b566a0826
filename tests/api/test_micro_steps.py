"""Custom loops: accumulated batches are one large batch, and threads do not disturb each other."""

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fuzzed_states import prepare
from support.grown_by_rounds import grown
from support.paths import GOLDEN

import odt

MODEL = odt.load_model(GOLDEN / "mnist" / "model.circle")  # convolutions, pooling, dense
RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, *MODEL.inputs[0].shape[1:])).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 32)]
OPTIMIZERS = (odt.SGD(0.05), odt.SGD(0.05, momentum=0.9), odt.Adam(1e-3))


def trainer(optimizer: Any, batch_size: int, **options: Any) -> odt.Trainer:
    loss = "categorical_crossentropy"
    return odt.Trainer(MODEL, loss=loss, optimizer=optimizer, batch_size=batch_size, **options)


@pytest.mark.parametrize("parts", [2, 8])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["sgd", "momentum", "adam"])
def test_accumulated_micro_steps_are_one_large_batch(optimizer: Any, parts: int) -> None:
    size = len(X) // parts
    with trainer(optimizer, len(X)) as whole, trainer(optimizer, size) as several:
        for _ in range(3):
            loss = whole.train_on_batch(X, Y)["loss"]
            losses = [
                several.forward_backward(X[at : at + size], Y[at : at + size], scale=1 / parts)
                for at in range(0, len(X), size)
            ]
            several.apply_gradients()
            assert sum(losses) == pytest.approx(loss, rel=1e-6)
        for name, values in whole.weights.items():
            np.testing.assert_allclose(several.weights[name], values, rtol=0, atol=1e-6)


def test_two_trainers_in_two_threads_give_the_bits_of_each_alone() -> None:
    runs: dict[str, dict[str, Any]] = {
        "one": {"optimizer": OPTIMIZERS[2], "batch_size": 8, "workers": 1},
        "two": {"optimizer": OPTIMIZERS[1], "batch_size": 16, "workers": 2, "micro_batch": 4},
    }
    found: dict[str, Any] = {}

    def run(name: str, key: str) -> None:
        with trainer(**runs[name]) as t:
            t.fit(X, Y, epochs=2)
            for _ in range(2):
                t.forward_backward(X[:8], Y[:8])
                t.apply_gradients()
            found[key] = t.state.get_contiguous_parameters(), t.predict(X)

    for name in runs:
        run(name, f"{name} alone")
    threads = [threading.Thread(target=run, args=(name, name)) for name in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in runs:
        for alone, together in zip(found[f"{name} alone"], found[name], strict=True):
            np.testing.assert_array_equal(together, alone)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs Linux's /proc")
def test_rounds_leave_no_threads_handles_and_memory(tmp_path: Path) -> None:
    """make accept runs 1,000 rounds."""
    prepare(tmp_path)
    found = grown(tmp_path, 8, 16)
    assert found["threads"] == found["handles"] == 0
    assert found["objects"] < 16
    assert found["bytes"] < 2 << 20
