"""Reports of training: onert_train's blocks and lines, and further lines of odt.

Each function formats figures and returns text without a final newline. Names, widths and digits of
onert_train's are the same, because scripts parse them.
"""

from collections.abc import Mapping, Sequence

from odt.core.recipe.resolve import OTHERS
from odt.core.storage.usage import Usage
from odt.core.training.best_epoch import Best
from odt.core.training.frozen_cache import FrozenCache
from odt.core.training.passes import Result
from odt.kernels.rows.scheduledef import Schedule as LearningRate
from odt.text import plural
from odt.training.memory_text import describe_cache

HUGE = 1e7  # values from here on are printed with an exponent
RULE = "=" * 35
SHOWN = 8  # positions of operators that are listed


def parameter_block(
    *,
    learning_rate: float,
    batch_size: int,
    loss: str,
    reduction: str,
    optimizer: str,
    num_of_trainable_ops: int,
    trainable_ops: Sequence[int] = (),
    origins: Mapping[str, str] | None = None,
    hyper_parameters: Mapping[str, object] | None = None,
    lowers_rate: bool = False,
) -> str:
    """Formats the training parameters as onert_train prints them before the first step.

    Args:
        learning_rate: learning rate of the optimizer.
        batch_size: samples per step.
        loss: name of the loss function.
        reduction: reduction of the losses of a batch.
        optimizer: name of the optimizer.
        num_of_trainable_ops: operators at the end of the model; −1 for all; −2 for any others, for
            which onert_train has no number.
        trainable_ops: positions of the trainable operators.
        origins: source of each value, printed after it.
        hyper_parameters: hyper-parameters of the optimizer, one line each; onert_train prints none.
        lowers_rate: whether the first steps may choose a lower learning rate.
    """
    origins_by_name = origins or {}

    def note(*names: str) -> str:
        return f"  ({', '.join(origins_by_name[n] for n in names)})" if origins_by_name else ""

    positions = ""
    if num_of_trainable_ops == OTHERS:
        shown = ", ".join(map(str, trainable_ops[:SHOWN]))
        count = len(trainable_ops)
        more = f", … ({count} operators)" if count > SHOWN else ""
        positions = f" = operators {shown}{more}"
    rate = f"{learning_rate:g} or lower" if lowers_rate else f"{learning_rate:g}"
    return "\n".join(
        [
            "== training parameter ==",
            f"- learning_rate        = {rate}{note('learning_rate')}",
            f"- batch_size           = {batch_size}{note('batch_size')}",
            f"- loss_info            = {{loss = {_words(loss)}, reduction = {_words(reduction)}}}"
            + note("loss", "reduction"),
            f"- optimizer            = {_words(optimizer)}{note('optimizer')}",
            *(f"- {n:<20} = {v}{note(n)}" for n, v in (hyper_parameters or {}).items()),
            f"- num_of_trainable_ops = {num_of_trainable_ops}{positions}{note('trainable_ops')}",
            "=" * 24,
        ]
    )


def schedule_line(schedule: LearningRate, steps: int) -> str:
    """Formats the learning rate schedule.

    Args:
        schedule: the learning rate, or its schedule.
        steps: number of steps of the run.
    """
    return (
        f"learning rate: {str(schedule).replace('_', '-')}, over {steps:,} {plural(steps, 'step')}"
    )


def epoch_line(
    number: int,
    epochs: int,
    training: Result,
    logs: Mapping[str, float],
    *,
    as_one: bool = False,
) -> str:
    """Formats one epoch: mean step time, and means of losses and metrics over its steps.

    Args:
        number: number of the epoch, from 1.
        epochs: number of epochs of the run.
        training: number and time of the steps.
        logs: losses and metrics by name, also on validation samples.
        as_one: whether to print four decimals always, as onert_train does.
    """
    step_ms = training.seconds * 1000 / max(training.steps, 1)
    heads = [f"Epoch {number}/{epochs}", f"time: {step_ms:.3f}ms/step"]
    return " - ".join([*heads, *_figures(logs, as_one)])


def best_line(best: Best, name: str, is_exported: bool) -> str:
    """Formats the number and the monitored value of the best epoch.

    Args:
        best: the best epoch.
        name: name of the value.
        is_exported: whether its weights will be exported.
    """
    exported = "; exported" if is_exported else ""
    shown = figure(name, best.monitor.best or 0.0)
    return f"best: epoch {best.epoch} - {name}: [0] {shown}{exported}"


def figures_line(loss: float, metrics: Mapping[str, float]) -> str:
    """Formats the loss and the metrics of one pass over the data."""
    return " - ".join(_figures({"loss": loss, **metrics}))


def _figures(logs: Mapping[str, float], as_one: bool = False) -> list[str]:
    return [
        f"{name}: [0] {f'{value:.4f}' if as_one else figure(name, value)}"
        for name, value in logs.items()
    ]


def figure(name: str, value: float) -> str:
    """Formats a loss or metric with four decimals; a small or huge one with four digits."""
    small = 0 < value < 0.001 and name.endswith(("loss", "_error"))
    return f"{value:.3e}" if small or abs(value) >= HUGE else f"{value:.4f}"


def timing_table(phases_ms: Mapping[str, float], epochs_ms: Sequence[float], first: int = 1) -> str:
    """Formats the time of each phase, and of the steps of each epoch.

    Args:
        phases_ms: wall time by phase; EXECUTE is the whole training loop.
        epochs_ms: sum of the step times of each epoch, without validation.
        first: number of the first epoch in epochs_ms.
    """
    lines = [f"{name:<12} takes {ms:.4f} ms" for name, ms in phases_ms.items()]
    lines += [f"- Epoch {k}{' takes ':>12}{ms:.4f} ms" for k, ms in enumerate(epochs_ms, first)]
    return "\n".join([RULE, *lines, RULE])


def feed_line(waited: float, epochs_ms: Sequence[float]) -> str:
    """Formats the fraction of the steps' time in which they waited for augmented batches.

    Args:
        waited: time of waiting in seconds.
        epochs_ms: sum of the step times of each epoch.
    """
    waited_ms = 1000 * waited
    return f"augmentation: steps waited {100 * waited_ms / sum(epochs_ms):.1f} % of their time"


def memory_tables(usages: Mapping[str, Usage]) -> str:
    """Formats RSS, HWM and PSS of each phase, as onert_train does with --mem_poll."""
    lines = []
    for title in ("RSS", "HWM", "PSS"):
        lines.append(title)
        for name, use in usages.items():
            lines.append(f"- {name:<12} takes {getattr(use, title.lower())} kb")
        lines.append(RULE)
    return "\n".join(lines)


def budget_line(predicted: int, process: int, budget: int) -> str:
    """Formats the predicted peak memory of the process, that before training, and the budget."""
    return (
        f"predicted peak: {predicted:,} bytes, {process:,} of them before training; "
        f"budget {budget:,}"
    )


def cache_line(cache: FrozenCache) -> str:
    """Formats the size of the cache of frozen layers."""
    size = describe_cache(cache.policy, cache.nbytes)
    return (
        f"frozen layers: cache of {size}; {cache.arena_nbytes:,} bytes of arenas until it is full"
    )


def _words(name: str) -> str:
    return name.replace("_", " ")
