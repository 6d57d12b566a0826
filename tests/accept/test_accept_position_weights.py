"""Weights of positions: losses and gradients are those of torch's autograd in float64.

A linear layer computes the output at each of 5 × 7 positions.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odt
from odt.core.export.model_builder import ModelBuilder
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept
N, GRID, INPUTS, CLASSES = 6, (5, 7), 8, 4
POSITIONS = GRID[0] * GRID[1]
RNG = np.random.default_rng(9)
X = RNG.normal(size=(N, *GRID, INPUTS)).astype(np.float32)
# Most positions of a detector have no box: their weight is 0.
W = (RNG.uniform(0, 3, (N, *GRID)) * (RNG.random((N, *GRID)) < 0.4)).astype(np.float32)
CLOSE = 1e-6  # relative difference of a gradient from that of torch
DIVISIONS = [(N, 1), (1, 1), (2, 1), (1, 2), (2, 2), (4, 1)]  # micro-batch and workers


@pytest.fixture(scope="module")
def torch() -> Any:
    try:
        import torch
    except ImportError:
        pytest.fail("torch must be installed. Run `make accept ONLY=position_weights`.")
    return torch


def network(path: Path, final: str) -> tuple[Path, Array, Array]:
    """Writes a convolution by 1 × 1, and the activation with which the loss is fused."""
    built = ModelBuilder("tflite", seed=1)
    x = built.add_input((1, *GRID, INPUTS))
    w = built.rng.normal(0, 0.5, (CLASSES, 1, 1, INPUTS)).astype(np.float32)
    b = built.rng.normal(0, 0.5, CLASSES).astype(np.float32)
    inputs = [x, built.add_constant(w, "w"), built.add_constant(b, "b")]
    shape = (1, *GRID, CLASSES)
    stride: dict[str, Any] = {"stride_w": 1, "stride_h": 1}
    y = built.add_operator("CONV_2D", inputs, shape, **stride)
    options: dict[str, Any] = {"beta": 1.0} if final == "SOFTMAX" else {}
    built.write(path, built.add_operator(final, [y], shape, **options) if final else y)
    return path, w.reshape(CLASSES, INPUTS), b


def targets(kind: str) -> Array:
    shape = (N, *GRID, CLASSES)
    if kind == "values":
        return RNG.normal(size=shape).astype(np.float32)
    if kind == "flags":
        return RNG.integers(0, 2, shape).astype(np.float32)
    labels = RNG.integers(0, CLASSES, shape[:-1]).astype(np.int32)
    return labels if kind == "labels" else np.eye(CLASSES, dtype=np.float32)[labels]


def cases() -> list[tuple[str, str, str]]:
    """The name of each loss, the form of its targets, and the activation before it."""
    return [
        ("mean_squared_error", "values", ""),
        ("mean_absolute_error", "values", ""),
        ("huber", "values", ""),
        ("categorical_crossentropy", "one-hot", "SOFTMAX"),
        ("sparse_categorical_crossentropy", "labels", "SOFTMAX"),
        ("kl_divergence", "one-hot", "SOFTMAX"),
        ("categorical_focal_crossentropy", "one-hot", "SOFTMAX"),
        ("binary_crossentropy", "flags", "LOGISTIC"),
        ("binary_focal_crossentropy", "flags", "LOGISTIC"),
    ]


def autograd(
    torch: Any, loss: Callable[..., Any], w: Array, b: Array, t: Array
) -> tuple[float, list[Array]]:
    """The mean over samples of the mean over positions of weight · loss, and its gradients."""
    exact = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (w, b)]
    x = torch.tensor(X, dtype=torch.float64).reshape(-1, INPUTS)
    rows = torch.tensor(t.reshape(-1) if t.dtype == np.int32 else t.reshape(-1, CLASSES))
    rows = rows if t.dtype == np.int32 else rows.double()
    each = loss(x @ exact[0].T + exact[1], rows).reshape(N, POSITIONS)
    total = (each * torch.tensor(W, dtype=torch.float64).reshape(N, POSITIONS)).mean(1).mean()
    return total.item(), [g.numpy() for g in torch.autograd.grad(total, exact)]


@pytest.mark.parametrize("kernels", ["compiled", "numpy"])
@pytest.mark.parametrize(("name", "kind", "final"), cases())
def test_gradients_are_those_of_autograd(
    torch: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kernels: str,
    name: str,
    kind: str,
    final: str,
) -> None:
    from record_losses import CASES  # torch is installed for this test alone

    if kernels == "numpy":
        monkeypatch.setenv("ODT_KERNELS", "numpy")
    path, w, b = network(tmp_path / "m.tflite", final)
    t = targets(kind)
    formula = next(loss for case, loss, _, options in CASES if case == name and not options)
    loss, gradients = autograd(torch, formula, w, b, t)
    for micro_batch, workers in DIVISIONS:
        division: dict[str, Any] = {"micro_batch": micro_batch, "workers": workers}
        with odt.Trainer(path, loss=name, batch_size=N, **division) as trainer:
            found = trainer.forward_backward(X, t, sample_weight=W)
            assert found == pytest.approx(loss, rel=CLOSE)
            for weight, exact in zip(("w", "b"), gradients, strict=True):
                gradient = trainer.gradients[weight].reshape(exact.shape)
                error = np.abs(gradient - exact).max() / np.abs(exact).max()
                assert error <= CLOSE, (micro_batch, workers, weight, error)


def test_weights_divide_by_the_matches(torch: Any, tmp_path: Path) -> None:
    """positions / matches at matched anchors, 0 elsewhere: smooth L1 over the matches alone."""
    path, w, b = network(tmp_path / "m.tflite", "")
    t = targets("values")
    matched = W > 0
    weight = matched * np.float32(N * POSITIONS / matched.sum())
    exact = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (w, b)]
    y = torch.tensor(X[matched]).double() @ exact[0].T + exact[1]
    codes = torch.tensor(t[matched]).double()
    loss = torch.nn.functional.smooth_l1_loss(y, codes, reduction="sum") / CLASSES / matched.sum()
    gradients = torch.autograd.grad(loss, exact)
    with odt.Trainer(path, loss="huber", batch_size=N) as trainer:
        found = trainer.forward_backward(X, t, sample_weight=weight)
        assert found == pytest.approx(loss.item(), rel=CLOSE)
        for name, gradient in zip(("w", "b"), gradients, strict=True):
            expected = gradient.numpy()
            error = np.abs(trainer.gradients[name].reshape(expected.shape) - expected).max()
            assert error <= CLOSE * np.abs(expected).max()
