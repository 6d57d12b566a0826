"""Records values of metrics by torchmetrics and scikit-learn, for tests/golden_metrics.

pip install -e '.[references]', then:
python tools/record_metrics.py > tests/golden_metrics/metrics.json

Each case has the outputs and targets of random samples, and the value from each program. The file
names the versions of the programs.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
import torch
import torchmetrics
from sklearn import metrics as sk
from torchmetrics.functional import classification as tc
from torchmetrics.functional import regression as tr
from torchmetrics.functional.text import perplexity

SAMPLES, CLASSES, LABELS, LENGTH = 60, 4, 3, 5
IGNORED = -1  # target of a token that does not count


def arrays(kind: str) -> tuple[Any, Any]:
    """Outputs and targets of a kind; for `absent`, the last class does not occur."""
    rng = np.random.default_rng(11)
    if kind == "tokens":
        y = rng.dirichlet(np.ones(CLASSES), (SAMPLES, LENGTH))
        t = rng.integers(0, CLASSES, (SAMPLES, LENGTH))
        return y, np.where(rng.random(t.shape) < 0.2, IGNORED, t)
    if kind in ("classes", "absent"):
        x = np.round(2 * rng.normal(size=(SAMPLES, CLASSES)), 1)
        y = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
        t = np.where(rng.random(SAMPLES) < 0.5, y.argmax(axis=1), rng.integers(0, CLASSES, SAMPLES))
        return y, np.where(t == CLASSES - 1, 0, t) if kind == "absent" else t
    if kind in ("flag", "flags"):
        y = np.round(rng.random((SAMPLES, 1 if kind == "flag" else LABELS)), 2)  # with ties
        return y, (rng.random(y.shape) < 0.2 + 0.6 * y).astype(int)
    y = rng.normal(size=(SAMPLES, LABELS))
    return y, y + rng.normal(size=y.shape)


def classes(of_torch: Callable[..., Any], of_sklearn: Callable[..., Any]) -> Any:
    """Returns a function that computes a metric of classes, macro average, by both programs."""

    def measure(y: Any, t: Any) -> dict[str, float]:
        metric = of_torch(torch.tensor(y), torch.tensor(t), num_classes=CLASSES, average="macro")
        other = of_sklearn(t, y.argmax(axis=1), average="macro", zero_division=0)
        return {"torchmetrics": metric.item(), "scikit-learn": float(other)}

    return measure


def flags(of_torch: Callable[..., Any], of_sklearn: Callable[..., Any]) -> Any:
    """Returns a function that computes a metric of all flags together by both programs."""

    def measure(y: Any, t: Any) -> dict[str, float]:
        y, t = y.ravel(), t.ravel()
        metric = of_torch(torch.tensor(y), torch.tensor(t)).item()
        return {"torchmetrics": metric, "scikit-learn": float(of_sklearn(t, y > 0.5))}

    return measure


def values(of_torch: Callable[..., Any], of_sklearn: Callable[..., Any]) -> Any:
    """Returns a function that computes a metric of all values together by both programs."""

    def measure(y: Any, t: Any) -> dict[str, float]:
        metric = of_torch(torch.tensor(y).ravel(), torch.tensor(t).ravel()).item()
        return {"torchmetrics": metric, "scikit-learn": float(of_sklearn(t.ravel(), y.ravel()))}

    return measure


def accuracy(y: Any, t: Any) -> dict[str, float]:
    """Computes the accuracy by both programs."""
    metric = tc.multiclass_accuracy(
        torch.tensor(y), torch.tensor(t), num_classes=CLASSES, average="micro"
    )
    other = sk.accuracy_score(t, y.argmax(axis=1))
    return {"torchmetrics": metric.item(), "scikit-learn": float(other)}


def accuracy_of_tokens(y: Any, t: Any) -> dict[str, float]:
    """Computes the accuracy of the tokens that count by both programs."""
    metric = tc.multiclass_accuracy(
        torch.tensor(y).reshape(-1, CLASSES),
        torch.tensor(t).ravel(),
        num_classes=CLASSES,
        average="micro",
        ignore_index=IGNORED,
    )
    counts = t != IGNORED
    other = sk.accuracy_score(t[counts], y[counts].argmax(axis=-1))
    return {"torchmetrics": metric.item(), "scikit-learn": float(other)}


def perplexity_of_tokens(y: Any, t: Any) -> dict[str, float]:
    """Computes the perplexity by torchmetrics, which reads logits, and by scikit-learn."""
    metric = perplexity(torch.tensor(y).log(), torch.tensor(t), ignore_index=IGNORED)
    counts = t != IGNORED
    loss = sk.log_loss(t[counts], y[counts], labels=range(CLASSES))
    return {"torchmetrics": metric.item(), "scikit-learn": float(np.exp(loss))}


def top_2(y: Any, t: Any) -> dict[str, float]:
    """Computes the top-2 accuracy by both programs."""
    metric = tc.multiclass_accuracy(
        torch.tensor(y), torch.tensor(t), num_classes=CLASSES, average="micro", top_k=2
    )
    other = sk.top_k_accuracy_score(t, y, k=2, labels=range(CLASSES))
    return {"torchmetrics": metric.item(), "scikit-learn": float(other)}


def auc_of_classes(y: Any, t: Any) -> dict[str, float]:
    """Mean over the classes that occur; the macro average of torchmetrics counts others as 0."""
    occurring = sorted({*t.tolist()})
    metric = tc.multiclass_auroc(
        torch.tensor(y), torch.tensor(t), num_classes=CLASSES, average="none"
    )
    areas = [sk.roc_auc_score(t == k, y[:, k]) for k in occurring]
    return {
        "torchmetrics": float(np.mean(metric.numpy()[occurring])),
        "scikit-learn": float(np.mean(areas)),
    }


def auc_of_flags(y: Any, t: Any) -> dict[str, float]:
    """Computes the AUC of all flags together by both programs."""
    y, t = y.ravel(), t.ravel()
    metric = tc.binary_auroc(torch.tensor(y), torch.tensor(t)).item()
    return {"torchmetrics": metric, "scikit-learn": float(sk.roc_auc_score(t, y))}


def confusion(y: Any, t: Any) -> Any:
    """Rows of true classes, columns of predicted ones."""
    return sk.confusion_matrix(t, y.argmax(axis=1), labels=range(CLASSES)).tolist()


Measure = Callable[[Any, Any], dict[str, float]]
OF_CLASSES: dict[str, Measure] = {
    "accuracy": accuracy,
    "top_2_accuracy": top_2,
    "precision": classes(tc.multiclass_precision, sk.precision_score),
    "recall": classes(tc.multiclass_recall, sk.recall_score),
    "f1_score": classes(tc.multiclass_f1_score, sk.f1_score),
    "auc": auc_of_classes,
}
OF_TOKENS: dict[str, Measure] = {
    "accuracy": accuracy_of_tokens,
    "perplexity": perplexity_of_tokens,
}
OF_FLAGS: dict[str, Measure] = {
    "binary_accuracy": flags(tc.binary_accuracy, sk.accuracy_score),
    "precision": flags(tc.binary_precision, sk.precision_score),
    "recall": flags(tc.binary_recall, sk.recall_score),
    "f1_score": flags(tc.binary_f1_score, sk.f1_score),
    "auc": auc_of_flags,
}
OF_VALUES: dict[str, Measure] = {
    "mean_absolute_error": values(tr.mean_absolute_error, sk.mean_absolute_error),
    "mean_squared_error": values(tr.mean_squared_error, sk.mean_squared_error),
    "root_mean_squared_error": values(
        lambda y, t: tr.mean_squared_error(y, t, squared=False), sk.root_mean_squared_error
    ),
    "r2": values(tr.r2_score, sk.r2_score),
}
KINDS = {
    "classes": OF_CLASSES,
    "absent": OF_CLASSES,
    "tokens": OF_TOKENS,
    "flag": OF_FLAGS,
    "flags": OF_FLAGS,
    "values": OF_VALUES,
}


def records() -> dict[str, Any]:
    """All cases, and the versions of the programs."""
    cases = []
    for kind, measures in KINDS.items():
        y, t = arrays(kind)
        results = {name: measure(y, t) for name, measure in measures.items()}
        cases.append(
            {
                "kind": kind,
                "y": y.tolist(),
                "t": t.tolist(),
                "values": results,
                "confusion": confusion(y, t) if measures is OF_CLASSES else [],
            }
        )
    versions = {m.__name__: m.__version__ for m in (torch, torchmetrics, sklearn)}
    return {"versions": versions, "cases": cases}


if __name__ == "__main__":
    print(json.dumps(records()))
