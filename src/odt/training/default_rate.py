"""The default learning rate of a model that is already trained, which a few steps choose."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from odt.core.data.dataset import DataSet
from odt.core.data.protocol import Data, SampleOrder, Scales, scales_of
from odt.core.training.rate_test import highest_safe
from odt.core.training.trainer import Trainer
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import DISTRIBUTIONS, FRACTIONS, LABELS
from odt.kernels.rows.opdef import Array, TensorSpec

# Loss, as a fraction of the loss of the best constant prediction, below which a model counts as
# trained: then a tenth of the optimizer's default rate is the highest that is tried. At the full
# rate, fine-tuning all weights ruins a network whose BatchNorm is folded into the weights.
TRAINED = 0.5
# The fraction from which a model counts as new: it has learned nothing that could be lost.
NEW = 0.95
# A classifier whose loss is below the fraction LEARNED, and the sum of whose losses over the
# training samples is below that of FEW constant predictions, has little to learn from the samples.
# Adam's steps are as large as ever but follow a few samples, so that predictions near 0.5 for other
# samples become worse as often as better.
LEARNED = 0.1
FEW = 50
# Highest fractions of the optimizer's default rate to try for such models.
HIGHEST_OF_TRAINED = 0.1
HIGHEST_OF_LEARNED = 0.001
# Fractions of the optimizer's default rate to try.
FACTORS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
MAX_PROBES = 256  # samples whose loss the steps must not raise
STEPS = 16  # steps to try with each rate


def constant_loss(data: DataSet, samples: Array, losses: Sequence[tuple[str, TensorSpec]]) -> float:
    """Returns the loss of the best constant prediction, the same for all samples; NaN if unknown.

    Args:
        data: the samples.
        samples: numbers of the samples to look at.
        losses: name of each loss, and the spec of one sample of its output.
    """
    if len(losses) != 1 or scales_of(data.weights) >= Scales.POSITIONS:
        return math.nan
    (column,) = data.targets
    name, output = losses[0]
    rows = np.empty((len(samples), column.spec.size), column.spec.dtype)
    column.read(samples, rows)
    weight = 1.0
    if data.sample_weights is not None:
        weight = float(data.sample_weights[np.asarray(samples)].mean())
    return weight * LOSSES[name].constant_loss(rows, output)


def highest_of(loss: float, constant: float, samples: int, name: str) -> float:
    """Returns the highest fraction of the optimizer's default rate that is tried.

    Args:
        loss: mean loss of the training samples.
        constant: mean loss of the best constant prediction; NaN if unknown.
        samples: number of training samples.
        name: name of the loss.
    """
    classes = LOSSES[name].targets in (DISTRIBUTIONS, LABELS, FRACTIONS)
    if classes and loss < LEARNED * constant and loss * samples < FEW * constant:
        return HIGHEST_OF_LEARNED
    return HIGHEST_OF_TRAINED if loss < TRAINED * constant else 1.0


def choose_rate(
    trainer: Trainer, data: Data, samples: SampleOrder, steps: int, highest: float
) -> float:
    """Returns the highest rate that does not make the model worse: the default or a part of it.

    The choice follows from the model and the samples alone, not from the seed of a run.

    Args:
        trainer: trainer with the default rate and `undo`; its state is as before in the end.
        data: training samples.
        samples: numbers of the training samples.
        steps: number of steps of the run, the most that are tried.
        highest: the highest fraction to try.
    """
    rate = trainer.info.learning_rate
    rates = [float(f"{rate * factor:.3g}") for factor in FACTORS if factor <= highest]
    numbers: Any = np.random.default_rng(0).permutation(np.asarray(samples))
    probes = numbers[: min(MAX_PROBES, len(numbers) // 2) or 1]
    others = numbers[len(probes) :] if len(numbers) > 1 else numbers
    size = min(trainer.info.step_samples, len(others))
    parts = np.resize(others, (min(STEPS, steps), size))  # repeats the samples if there are few
    assert trainer.undo is not None, "a trainer without `undo` has no copy of its state"
    return highest_safe(
        trainer, data, probes=probes, parts=list(parts), rates=rates, before=trainer.undo.before
    )
