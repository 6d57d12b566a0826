"""Records training of a student on a teacher's outputs by torch, for tests/golden_losses.

pip install -e '.[references]', then:
python tools/record_distillation.py > tests/golden_losses/distillation.json

Five steps of gradient descent on a network of two layers, by the formula of Hinton, Vinyals and
Dean (2015) as the tutorials of torch write it: the soft part is KL(teacher ‖ student) at the
temperature T, times T². The gradients are those of torch's autograd, in float64.
"""

import json
from typing import Any

import torch
from torch.nn import functional as F

STEPS, RATE, SAMPLES, FEATURES, HIDDEN, CLASSES = 5, 0.2, 12, 4, 5, 3
CASES = ((1.0, 0.5), (4.0, 0.9), (3.0, 1.0))  # temperature, weight


def training(temperature: float, weight: float) -> dict[str, Any]:
    """The losses of all steps, and the weights at the end."""
    random = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> Any:
        return torch.randn(shape, generator=random, dtype=torch.float64)

    x, teacher = normal(SAMPLES, FEATURES), 2 * normal(SAMPLES, CLASSES)
    labels = torch.randint(0, CLASSES, (SAMPLES,), generator=random)
    start = [normal(HIDDEN, FEATURES), normal(HIDDEN), normal(CLASSES, HIDDEN), normal(CLASSES)]
    weights, losses = [w.clone().requires_grad_() for w in start], []
    for _ in range(STEPS):
        w1, b1, w2, b2 = weights
        z = F.relu(x @ w1.T + b1) @ w2.T + b2
        soft = F.kl_div(
            F.log_softmax(z / temperature, -1),
            F.softmax(teacher / temperature, -1),
            reduction="batchmean",
        )
        loss = (1 - weight) * F.cross_entropy(z, labels) + weight * temperature**2 * soft
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, weights)
        weights = [
            (w - RATE * g).detach().requires_grad_()
            for w, g in zip(weights, gradients, strict=True)
        ]
    return {
        "temperature": temperature,
        "weight": weight,
        "x": x.tolist(),
        "labels": labels.tolist(),
        "teacher": teacher.tolist(),
        "start": [w.tolist() for w in start],
        "losses": losses,
        "end": [w.tolist() for w in weights],
    }


def records() -> dict[str, Any]:
    """All cases, and the version of torch."""
    return {
        "torch": torch.__version__,
        "rate": RATE,
        "cases": [training(*case) for case in CASES],
    }


if __name__ == "__main__":
    print(json.dumps(records()))
