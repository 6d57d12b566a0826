"""Weights of positions: the loss of a sample is the mean of w · loss over its positions.

The network gives 2 × 3 cells with a box (4 values) and classes (3 probabilities) each.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odt
from odt.core.export.model_builder import ModelBuilder
from odt.core.planning.plan import Call
from odt.kernels.rows.opdef import Array

RNG = np.random.default_rng(5)
N, CELLS = 10, (2, 3)
X = RNG.normal(size=(N, *CELLS, 2)).astype(np.float32)
BOXES = RNG.normal(size=(N, *CELLS, 4)).astype(np.float32)
LABELS = RNG.integers(0, 3, (N, *CELLS)).astype(np.int32)
CLASSES = np.eye(3, dtype=np.float32)[LABELS]
W, V = (RNG.uniform(0, 3, (N, *CELLS)).astype(np.float32) for _ in range(2))
S = RNG.uniform(0, 3, N).astype(np.float32)
Weights = dict[str, Array]


def network(path: Path, final: str) -> Path:
    built = ModelBuilder("tflite")
    x = built.add_input((1, *CELLS, 2), name="x")
    outputs = []
    for name, units in (("boxes", 4), ("classes", 3)):
        w = np.random.default_rng(units).normal(size=(units, 1, 1, 2)).astype(np.float32)
        b = np.linspace(-0.5, 0.5, units, dtype=np.float32)
        constants = built.add_constant(w, f"{name}/w"), built.add_constant(b, f"{name}/b")
        y = built.add_operator(
            "CONV_2D", [x, *constants], (1, *CELLS, units), stride_w=1, stride_h=1
        )
        if name == "classes" and final:
            options = {"beta": 1.0} if final == "SOFTMAX" else {}
            y = built.add_operator(final, [y], (1, *CELLS, units), **options)
        built.graph.tensors[y].name = name
        outputs.append(y)
    built.write(path, *outputs)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("cells")
    return {f: network(folder / f"{f}.tflite", f) for f in ("SOFTMAX", "LOGISTIC")}


def weights(trainer: odt.Trainer) -> Weights:
    return {name: np.array(a) for name, a in trainer.weights.items()}


# ---- the formulas, in float64: the loss of each cell


def huber(y: Array, t: Array) -> Array:
    e = np.abs(y - t)
    return np.where(e <= 1, e * e / 2, e - 0.5).mean(-1)


def mean_squared_error(y: Array, t: Array) -> Array:
    return np.asarray(((y - t) ** 2).mean(-1))


def mean_absolute_error(y: Array, t: Array) -> Array:
    return np.asarray(np.abs(y - t).mean(-1))


def categorical(y: Array, t: Array) -> Array:
    return np.asarray(np.log(np.exp(y).sum(-1)) - (t * y).sum(-1))


def categorical_focal(y: Array, t: Array) -> Array:
    p = (t * np.exp(y)).sum(-1) / np.exp(y).sum(-1)
    return np.asarray(-0.25 * (1 - p) ** 2 * np.log(p))


def binary(y: Array, t: Array) -> Array:
    return np.asarray((np.log1p(np.exp(y)) - t * y).mean(-1))


def binary_focal(y: Array, t: Array) -> Array:
    p = 1 / (1 + np.exp(-y))
    q = t * p + (1 - t) * (1 - p)
    return np.asarray((-((1 - q) ** 2) * np.log(q)).mean(-1))


Formula = Callable[[Array, Array], Array]
LOSSES: list[tuple[str, Formula, str, str, Formula]] = [
    ("huber", huber, "SOFTMAX", "categorical_crossentropy", categorical),
    ("huber", huber, "SOFTMAX", "sparse_categorical_crossentropy", categorical),
    ("mse", mean_squared_error, "SOFTMAX", "kl_divergence", categorical),
    ("mae", mean_absolute_error, "SOFTMAX", "categorical_focal_crossentropy", categorical_focal),
    ("huber", huber, "LOGISTIC", "binary_crossentropy", binary),
    ("huber", huber, "LOGISTIC", "binary_focal_crossentropy", binary_focal),
]


def reference(before: Weights, box: Formula, label: Formula) -> float:
    """The loss of the batch: the mean over samples of the mean over cells of weight · loss."""
    total = 0.0
    for name, formula, t, w in (("boxes", box, BOXES, W), ("classes", label, CLASSES, V)):
        y = X.astype(np.float64) @ before[f"{name}/w"].reshape(-1, 2).T + before[f"{name}/b"]
        total += float((formula(y, t.astype(np.float64)) * w).reshape(N, -1).mean(1).mean())
    return total


def slope(before: Weights, name: str, place: int, box: Formula, label: Formula) -> float:
    """The derivative of the loss by one weight, by central differences."""
    losses = []
    for step in (1e-5, -1e-5):
        moved = {n: a.astype(np.float64) for n, a in before.items()}
        moved[name].reshape(-1)[place] += step
        losses.append(reference(moved, box, label))
    return (losses[0] - losses[1]) / 2e-5


@pytest.mark.parametrize("kernels", ["compiled", "numpy"])
@pytest.mark.parametrize(("box_loss", "box", "final", "class_loss", "label"), LOSSES)
def test_loss_and_gradients_are_those_of_the_formula(
    monkeypatch: pytest.MonkeyPatch,
    models: dict[str, Path],
    kernels: str,
    box_loss: str,
    box: Formula,
    final: str,
    class_loss: str,
    label: Formula,
) -> None:
    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    y = [BOXES, LABELS if class_loss.startswith("sparse") else CLASSES]
    losses = {"boxes": box_loss, "classes": class_loss}
    options: dict[str, Any] = {"output_losses": losses, "batch_size": N}
    with odt.Trainer(models[final], optimizer=odt.SGD(1.0), **options) as t:
        before = weights(t)
        expected = reference(before, box, label)
        assert t.evaluate(X, y, [W, V])["loss"] == pytest.approx(expected, rel=1e-6)
        assert t.train_on_batch(X, y, [W, V])["loss"] == pytest.approx(expected, rel=1e-6)
        after = weights(t)
        calls = [e for e in t.session.build().plan.entries if isinstance(e, Call)]
        compiled = [c.compiled is not None for c in calls if c.label.startswith("loss")]
    assert set(compiled) == {kernels == "compiled"}
    for name, a in before.items():
        found = (a.astype(np.float64) - after[name]).reshape(-1)
        slopes = [slope(before, name, k, box, label) for k in range(a.size)]
        np.testing.assert_allclose(found, slopes, rtol=1e-5, atol=1e-6)
