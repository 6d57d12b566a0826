"""Merges checkpoints of several devices: the weighted mean of their weights."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from odt.arguments import checked_arguments
from odt.core.checkpoints.checkpoint import Checkpoint
from odt.core.checkpoints.files import decode_any, write_any
from odt.core.checkpoints.resume import read_checkpoint
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.runtime.parameters import AVERAGE, RANGE, STATISTIC, WEIGHT
from odt.errors import ModelError, OptionError
from odt.federated.strategies.strategy import mean_of
from odt.federated.update import Array
from odt.kernels.rows.scalars import is_number

Path = str | os.PathLike[str]


@checked_arguments
def merge(
    checkpoints: Sequence[Path],
    output: Path,
    *,
    weights: Sequence[float] | None = None,
    model: Path | None = None,
) -> None:
    """Writes the weighted mean of checkpoints as a checkpoint to begin training from.

    The optimizer state of the new checkpoint is 0, and its position the first epoch.

    Args:
        checkpoints: paths of two or more checkpoints of the same model and optimizer.
        output: path of the new checkpoint; its extension selects the format, as for odt checkpoint
            convert.
        weights: weight of each checkpoint, such as its number of samples; None for equal weights.
        model: path of the model, which checkpoints in onert's format need.

    Raises:
        OptionError: if the number of weights differs, a weight is not above 0, or their sum is
            infinite.
        ModelError: if a checkpoint cannot be read, or differs in model or optimizer.
    """
    if len(checkpoints) < 2:
        raise OptionError("checkpoints", "must be two or more files", len(checkpoints))
    weights = [1.0] * len(checkpoints) if weights is None else weights
    if not isinstance(weights, Iterable):
        raise OptionError("weights", "must be a list of numbers", weights)
    weights = list(weights)
    if len(weights) != len(checkpoints):
        rule = f"must be a number for each of {len(checkpoints)} checkpoints"
        raise OptionError("weights", rule, len(weights))
    for weight in weights:
        if not is_number(weight) or weight <= 0:
            raise OptionError("weights", "must be numbers above 0", weight)
    if not math.isfinite(sum(weights)):
        raise OptionError("weights", "must have a finite sum", sum(weights))
    file = None if model is None else read_model(os.fspath(model))
    paths = [os.fspath(path) for path in checkpoints]
    states = [_read(path, file) for path in paths]
    for before, after in pairwise(range(len(states))):
        a, b = states[before], states[after]
        if (a.entries, a.optimizer) != (b.entries, b.optimizer):
            raise ModelError(
                f"{paths[after]}: must be of the same model and optimizer as {paths[before]}, but "
                f"got other tensors or {b.optimizer}."
            )
    write_any(output, mean_checkpoint(states, weights), paths[0], file)


def _read(path: str, model: Model | None) -> Checkpoint:
    state = decode_any(read_checkpoint(path), path, model)
    if state.is_nominal:
        raise ModelError(f"{path}: must hold values to merge, but holds only names and shapes.")
    return state


def mean_checkpoint(states: Sequence[Checkpoint], weights: Sequence[float]) -> Checkpoint:
    """Returns the weighted mean of checkpoints with the same entries.

    A weight that has a moving average becomes the mean of the averages, because that is what a
    model file with these weights would hold; training then begins with it.

    Args:
        states: the checkpoints.
        weights: weight of each.
    """
    first = states[0]
    mean = mean_of([_averaged_arrays(state) for state in states], weights)
    averages = {e.tensor: k for k, e in enumerate(first.entries) if e.role == AVERAGE}
    entries = []
    arrays = []
    for k, (entry, a) in enumerate(zip(first.entries, first.arrays, strict=True)):
        if not entry.is_current:
            continue
        position = averages.get(entry.tensor, k) if entry.role == WEIGHT else k
        entries.append(entry)
        arrays.append(mean[position] if position in mean else np.zeros_like(a))
    progress = replace(
        first.progress, step=0, epoch=1, position=0, samples=0, plateau=(), best=(), monitor=""
    )
    return replace(first, entries=tuple(entries), arrays=tuple(arrays), progress=progress)


def _averaged_arrays(state: Checkpoint) -> dict[int, Array]:
    """Returns weights, moving averages, ranges and running statistics, by position of the entry."""
    return {
        k: a
        for k, (entry, a) in enumerate(zip(state.entries, state.arrays, strict=True))
        if entry.role in (WEIGHT, AVERAGE, RANGE, STATISTIC)
    }
