"""Records trajectories of losses by torch, for tests/golden_losses.

pip install -e '.[references]', then:
python tools/record_losses.py > tests/golden_losses/losses.json

Each case is five steps of gradient descent on the outputs of a model: the loss of each step and the
outputs at the end, in float64. The gradients are those of torch's autograd. The focal losses are
written here by the formulas of Keras 3, keras/src/losses/losses.py. The recorded values are those
of the torch version that the file names.
"""

import json
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

STEPS, RATE, SAMPLES, CLASSES = 5, 0.5, 6, 4


def smooth(t: Any, fraction: float, classes: int) -> Any:
    """Label smoothing: spreads a fraction of the targets evenly over the classes."""
    return t * (1 - fraction) + fraction / classes


def categorical(x: Any, t: Any, label_smoothing: float = 0.0) -> Any:
    return F.cross_entropy(x, t, reduction="none", label_smoothing=label_smoothing)


def sparse(x: Any, t: Any, label_smoothing: float = 0.0) -> Any:
    return F.cross_entropy(x, t.long(), reduction="none", label_smoothing=label_smoothing)


def binary(x: Any, t: Any, label_smoothing: float = 0.0) -> Any:
    t = smooth(t, label_smoothing, 2)
    return F.binary_cross_entropy_with_logits(x, t, reduction="none").mean(-1)


def mse(x: Any, t: Any) -> Any:
    return F.mse_loss(x, t, reduction="none").mean(-1)


def mae(x: Any, t: Any) -> Any:
    return F.l1_loss(x, t, reduction="none").mean(-1)


def huber(x: Any, t: Any, delta: float = 1.0) -> Any:
    return F.huber_loss(x, t, reduction="none", delta=delta).mean(-1)


def divergence(x: Any, t: Any) -> Any:
    return F.kl_div(F.log_softmax(x, -1), t, reduction="none").sum(-1)


def categorical_focal(
    x: Any, t: Any, alpha: float = 0.25, gamma: float = 2.0, label_smoothing: float = 0.0
) -> Any:
    t, p = smooth(t, label_smoothing, x.shape[-1]), F.softmax(x, -1)
    return (alpha * (1 - p) ** gamma * (-t * torch.log(p))).sum(-1)


def binary_focal(
    x: Any,
    t: Any,
    apply_class_balancing: bool = False,
    alpha: float = 0.25,
    gamma: float = 2.0,
    label_smoothing: float = 0.0,
) -> Any:
    t, p = smooth(t, label_smoothing, 2), torch.sigmoid(x)
    p_t = t * p + (1 - t) * (1 - p)
    loss = (1 - p_t) ** gamma * F.binary_cross_entropy(p, t, reduction="none")
    if apply_class_balancing:
        loss = (t * alpha + (1 - t) * (1 - alpha)) * loss
    return loss.mean(-1)


ONE_HOT, LABELS, FLAGS, VALUES, DISTRIBUTION = "one-hot", "labels", "flags", "values", "rows"
BALANCED = {"apply_class_balancing": True, "alpha": 0.75, "gamma": 3.0}
CASES: tuple[tuple[str, Callable[..., Any], str, dict[str, Any]], ...] = (
    ("categorical_crossentropy", categorical, ONE_HOT, {}),
    ("categorical_crossentropy", categorical, DISTRIBUTION, {"label_smoothing": 0.1}),
    ("sparse_categorical_crossentropy", sparse, LABELS, {}),
    ("sparse_categorical_crossentropy", sparse, LABELS, {"label_smoothing": 0.1}),
    ("binary_crossentropy", binary, FLAGS, {}),
    ("binary_crossentropy", binary, FLAGS, {"label_smoothing": 0.1}),
    ("mean_squared_error", mse, VALUES, {}),
    ("mean_absolute_error", mae, VALUES, {}),
    ("huber", huber, VALUES, {}),
    ("huber", huber, VALUES, {"delta": 0.3}),
    ("kl_divergence", divergence, DISTRIBUTION, {}),
    ("kl_divergence", divergence, ONE_HOT, {}),
    ("categorical_focal_crossentropy", categorical_focal, ONE_HOT, {}),
    ("categorical_focal_crossentropy", categorical_focal, ONE_HOT, {"gamma": 0.5, "alpha": 1.0}),
    ("categorical_focal_crossentropy", categorical_focal, ONE_HOT, {"label_smoothing": 0.1}),
    ("binary_focal_crossentropy", binary_focal, FLAGS, {}),
    ("binary_focal_crossentropy", binary_focal, FLAGS, BALANCED),
    ("binary_focal_crossentropy", binary_focal, FLAGS, {"label_smoothing": 0.1}),
)


def targets(kind: str, random: Any) -> Any:
    """Draws targets of a kind; the same numbers are drawn for every kind."""
    shape = (SAMPLES, CLASSES)
    labels = torch.randint(0, CLASSES, (SAMPLES,), generator=random)
    return {
        ONE_HOT: F.one_hot(labels, CLASSES).double(),
        LABELS: labels,
        FLAGS: torch.randint(0, 2, shape, generator=random).double(),
        VALUES: torch.randn(shape, generator=random, dtype=torch.float64),
        DISTRIBUTION: F.softmax(torch.randn(shape, generator=random, dtype=torch.float64), -1),
    }[kind]


def trajectory(name: str, loss: Callable[..., Any], kind: str, options: dict[str, Any]) -> Any:
    """Five steps with and without sample weights; the loss is Σ weight · loss / batch size."""
    random = torch.Generator().manual_seed(7)
    x = 2 * torch.randn((SAMPLES, CLASSES), generator=random, dtype=torch.float64)
    weights = 3 * torch.rand(SAMPLES, generator=random, dtype=torch.float64)
    t = targets(kind, random)
    case = {"name": name, "options": options, "x": x.tolist(), "t": t.tolist()}
    for weighted, w in (("plain", torch.ones(SAMPLES).double()), ("weighted", weights)):
        y, losses = x.clone().requires_grad_(), []
        for _ in range(STEPS):
            total = (loss(y, t, **options) * w).sum() / SAMPLES
            (gradient,) = torch.autograd.grad(total, y)
            losses.append(total.item())
            y = (y - RATE * gradient).detach().requires_grad_()
        case[weighted] = {"weights": w.tolist(), "losses": losses, "end": y.tolist()}
    return case


def records() -> dict[str, Any]:
    """All cases, and the version of torch."""
    return {
        "torch": torch.__version__,
        "rate": RATE,
        "cases": [trajectory(*case) for case in CASES],
    }


if __name__ == "__main__":
    print(json.dumps(records()))
