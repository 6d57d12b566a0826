"""Selects metrics by name for the targets of a loss."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from odt.core.data.column import Column
from odt.errors import OptionError
from odt.kernels.registry import LOSSES, METRICS
from odt.kernels.rows.lossdef import FRACTIONS, LABELS, VALUES
from odt.kernels.rows.metricdef import CLASS_ROWS, FLAGS, Metric, MetricDef, OutputForm, forms_of
from odt.kernels.rows.opdef import TensorSpec

Metrics = Mapping[str, Callable[[], Metric]]

ACCURACY = "accuracy", "acc"  # the one that fits, as in Keras
ACCURACIES = {
    CLASS_ROWS: "categorical_accuracy",
    LABELS: "sparse_categorical_accuracy",
    FLAGS: "binary_accuracy",
}


def find_metric(text: str) -> tuple[MetricDef, int] | None:
    """Finds a metric by its name or one of its further words.

    Args:
        text: such as auc, rmse or top_5_accuracy; hyphens may stand for underscores.

    Returns:
        The row, and the number k in the name, by default that of the row; None if there is no such
        metric.
    """
    name = re.sub(r"[- ]", "_", text.strip().lower())
    number = re.fullmatch(r"(.*_)(\d{1,9})(_.*)", name)
    if number and f"{number[1]}k{number[3]}" in METRICS:
        return METRICS[f"{number[1]}k{number[3]}"], int(number[2])
    row = METRICS.get(name)
    row = row or next((row for row in METRICS.values() if name in row.words), None)
    return (row, row.k) if row else None


def full_name(row: MetricDef, k: int) -> str:
    """The name of a metric with its number k: top_5_accuracy."""
    return row.name.replace("_k_", f"_{k}_") if row.k else row.name


def monitored_name(monitor: str, user_names: Mapping[str, str]) -> str:
    """The name of a monitored value with its metric's full name: of val_accuracy, of val_f1.

    Args:
        monitor: the name that the user gives.
        user_names: full name of each metric of the run → the name that the user gave.
    """
    full = {"loss": "loss"} | {word: name for name, word in user_names.items()}
    bare = monitor.removeprefix("val_")
    name = full.get(bare)
    if name is None:
        metric = find_metric(bare)
        name = full_name(*metric) if metric else bare
    return monitor.removesuffix(bare) + name


def user_names(
    names: Sequence[str], loss: str, output: TensorSpec, *, logits: bool = False
) -> dict[str, str]:
    """Returns the name that the user gave first to each metric, by its full name.

    Arguments and errors are those of `fitting_metrics`.
    """
    first_names: dict[str, str] = {}
    for name in names:
        (full,) = fitting_metrics((name,), loss, output, logits=logits)
        first_names.setdefault(full, name)
    return first_names


def fitting_metrics(
    names: Sequence[str], loss: str, output: TensorSpec, *, logits: bool = False
) -> dict[str, Callable[[], Metric]]:
    """Selects metrics by name, and checks that they support the targets of a loss.

    Args:
        names: names of metrics, or one of ACCURACY.
        loss: name of the loss.
        output: spec of one sample of the output that has the loss.
        logits: whether the output holds logits.

    Raises:
        OptionError: if a metric does not support the targets; names those that do.
    """
    targets = LOSSES[loss].targets
    forms = forms_of(targets, output.shape)
    metrics: dict[str, Callable[[], Metric]] = {}
    for name in names:
        metric = find_metric(next(ACCURACIES[f] for f in forms) if name in ACCURACY else name)
        if metric is None:
            words = ", ".join(f"`{word}`" for word in (ACCURACY[0], *METRICS))
            raise OptionError("metrics", f"must be one of {words}", name)
        row, k = metric
        form = next((f for f in forms if f in row.fits), None)
        if form is None:
            fitting = [n for n, r in METRICS.items() if any(f in r.fits for f in forms)]
            raise OptionError(
                "metrics",
                f"targets of `{row.name}` must be {' or '.join(row.fits)}",
                f"{targets}, those of `{loss}` on an output {output.shape}",
                f"Give one of {', '.join(f'`{name}`' for name in fitting)}.",
            )
        arguments = (OutputForm(form, (1, *output.shape)[-1], logits), *([k] if row.k else []))
        row.make(*arguments)  # refuses a k that the output does not permit
        metrics[full_name(row, k)] = partial(row.make, *arguments)
    return metrics


def metrics_nbytes(metrics: Metrics, samples: int, output: TensorSpec) -> int:
    """Bytes that metrics keep until the end of an epoch.

    Args:
        metrics: the metrics.
        samples: number of samples of an epoch.
        output: spec of one sample of the output that they compare.
    """
    return sum(make().nbytes(samples * output.size) for make in metrics.values())


def preferred_form(loss: str, output: TensorSpec, *, logits: bool = False) -> OutputForm:
    """Form in which metrics prefer to read outputs and targets; arguments as of `class_form`."""
    form = forms_of(LOSSES[loss].targets, output.shape)[0]
    return OutputForm(form, (1, *output.shape)[-1], logits)


def class_form(
    targets: Column, loss: str, output: TensorSpec, *, logits: bool = False
) -> OutputForm | None:
    """Form of outputs and targets as classes; None if the targets are other values.

    Targets of a loss that takes any values are classes if all are one-hot rows, or single values
    0 or 1.

    Args:
        targets: targets of all samples.
        loss: name of the loss.
        output: spec of one sample of the output that has the loss.
        logits: whether the output holds logits.
    """
    kind, form = LOSSES[loss].targets, preferred_form(loss, output, logits=logits)
    if kind in (VALUES, FRACTIONS):
        for _, rows in targets.blocks():
            if not ((rows == 0) | (rows == 1)).all():
                return None
            one_hot = rows.reshape(-1, form.classes).sum(axis=1) == 1
            if form.targets == CLASS_ROWS and not one_hot.all():
                return None
    return form
