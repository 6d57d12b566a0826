"""LiteRT as judge of quantized LSTMs: their integers, and files that were trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.integer_files import full_range, odt_integers
from support.litert_integers import litert_integers
from support.paths import MODELS
from support.quantized_lstm import STATE, STEPS, UNITS, WIDTH, build

import odt
from odt.core.formats.reader import read_model
from odt.errors import OdtError

DIGITS = MODELS / "tflm-mnist-lstm-int8.tflite"


def assert_same_integers(path: Path, samples: int) -> None:
    """Every tensor that a node computes has the bits of LiteRT."""
    inputs = full_range(read_model(path), samples)
    ours, theirs = odt_integers(path, inputs), litert_integers(path, inputs)
    assert len(ours) == len(read_model(path).graph.nodes)
    for i, values in ours.items():
        assert np.array_equal(values.reshape(-1), theirs[i].reshape(-1)), i
        assert len(np.unique(values)) > 5


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"coupled": True},
        {"cell_clip": 1.5},
        {"cell_scale": 2**-12, "coupled": True, "cell_clip": 10.0},
        {"peepholes": True},
        {"peepholes": True, "coupled": True},
        {"projection": 5},
        {"projection": UNITS, "peepholes": True, "cell_clip": 1.5},
    ],
    ids=str,
)
def test_the_integers_of_an_lstm_are_those_of_litert(
    options: dict[str, Any], tmp_path: Path
) -> None:
    path = build(tmp_path / "m.tflite", **options)
    assert_same_integers(path, 64)


def test_time_major_integers_are_those_of_samples_in_front(tmp_path: Path) -> None:
    x = np.random.default_rng(2).integers(-128, 128, (5, STEPS, WIDTH)).astype(np.int8)
    (first,) = odt_integers(build(tmp_path / "n.tflite"), [x]).values()
    path = build(tmp_path / "t.tflite", time_major=True)
    for k in range(len(x)):
        (one,) = odt_integers(path, [x[k][:, np.newaxis]]).values()
        assert np.array_equal(one[:, 0], first[k])


def test_the_integers_of_a_shipped_lstm_are_those_of_litert() -> None:
    assert_same_integers(DIGITS, 128)


@pytest.mark.parametrize("quant_ranges", ["file", "follow"])
def test_a_trained_lstm_computes_in_litert_what_odt_validates(
    quant_ranges: Any, tmp_path: Path
) -> None:
    """The exported file has the size of the original, and its tables in the same places."""
    rng, path = np.random.default_rng(4), tmp_path / "out.tflite"
    x = rng.random((64, 28, 28), np.float32)
    y = np.eye(10, dtype=np.float32)[(x[:, 3].sum(1) > 14).astype(int)]
    trainer = odt.Trainer(
        DIGITS,
        loss="categorical_crossentropy",
        learning_rate=3e-3,
        batch_size=16,
        quant_ranges=quant_ranges,
    )
    trainer.export(path)
    assert path.read_bytes() == DIGITS.read_bytes()
    before = trainer.evaluate(x, y)["loss"]
    trainer.fit(x, y, epochs=4, seed=1)
    assert trainer.evaluate(x, y)["loss"] < before
    trainer.export(path)
    assert len(path.read_bytes()) == len(DIGITS.read_bytes())
    first, trained = read_model(DIGITS).graph, read_model(path).graph
    changed = [
        i
        for i, (a, b) in enumerate(zip(first.tensors, trained.tensors, strict=True))
        if a.data is not None and b.data is not None and not np.array_equal(a.data, b.data)
    ]
    assert {*range(2, 16)} <= {*changed}
    integers = np.clip(np.rint(x * 255) - 128, -128, 127).astype(np.int8)
    (theirs,) = (litert_integers(path, [integers])[i] for i in trained.outputs)
    steps = np.rint(trainer.predict(x) * 256) - 128
    assert np.array_equal(steps.reshape(-1), theirs.reshape(-1))


@pytest.mark.parametrize(
    "options", [{"peepholes": True, "coupled": True}, {"projection": 5}], ids=str
)
def test_trained_peepholes_and_projections_are_those_of_litert(
    options: dict[str, Any], tmp_path: Path
) -> None:
    path, out = build(tmp_path / "m.tflite", **options), tmp_path / "out.tflite"
    (x,) = full_range(read_model(path), 32)
    (before,) = odt_integers(path, [x]).values()
    y = ((before.astype(np.float32) - STATE[1]) * STATE[0])[..., ::-1]
    trainer = odt.Trainer(path, loss="mean_squared_error", learning_rate=1e-2, batch_size=8)
    first = trainer.evaluate(x, y)["loss"]
    trainer.fit(x, y, epochs=10, seed=1)
    assert trainer.evaluate(x, y)["loss"] < 0.8 * first
    trainer.export(out)
    assert len(out.read_bytes()) == len(path.read_bytes())
    (theirs,) = litert_integers(out, [x]).values()
    steps = np.rint(trainer.predict(x) / np.float32(STATE[0])) + STATE[1]
    assert np.array_equal(steps.reshape(-1), theirs.reshape(-1))
    graphs = (read_model(p).graph for p in (path, out))
    pairs = zip(*(graph.tensors for graph in graphs), strict=True)
    weights = [(a.data, b.data) for a, b in pairs if a.data is not None and a.data.size]
    assert not any(np.array_equal(*pair) for pair in weights)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"projection": 5, "proj_bias": True}, "must be without bias of its projection"),
        ({"projection": 5, "peepholes": True}, "must be square, but got (5, 12)"),
        ({"projection": 5, "hidden": (0.0, 0)}, "must have a positive scale"),
        ({"cell_scale": 0.0003}, "must be a power of two from 2^-15 to 2^-9, but got 0.0003"),
        ({"state": (0.01, 5)}, "must have the scale and zero point of its output"),
    ],
)
def test_what_litert_computes_otherwise_is_refused(
    options: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    path = build(tmp_path / "m.tflite", **options)
    with pytest.raises(OdtError, match=r"node 0 \(UNIDIRECTIONAL_SEQUENCE_LSTM\)") as caught:
        odt.Trainer(path, loss="mean_squared_error")
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)
