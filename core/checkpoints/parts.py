"""Checkpoints that hold a part of the state."""

from collections.abc import Callable
from dataclasses import replace

from odt.core.checkpoints.checkpoint import FROZEN, Checkpoint, Entry
from odt.core.runtime.parameters import WEIGHT


def without_optimizer_state(checkpoint: Checkpoint) -> Checkpoint:
    """Returns the weights and properties alone; an optimizer that resumes from them begins anew."""
    progress = replace(
        checkpoint.progress, step=0, epoch=1, position=0, samples=0, plateau=(), best=()
    )
    weights = _entries(checkpoint, lambda e: e.role in (WEIGHT, FROZEN))
    return replace(weights, progress=progress)


def without_frozen(checkpoint: Checkpoint) -> Checkpoint:
    """Returns the checkpoint without frozen weights, which are in the model's file."""
    return _entries(checkpoint, lambda e: e.role != FROZEN)


def _entries(checkpoint: Checkpoint, selects: Callable[[Entry], bool]) -> Checkpoint:
    numbers = [k for k, e in enumerate(checkpoint.entries) if selects(e)]
    entries = tuple(checkpoint.entries[k] for k in numbers)
    arrays = tuple(checkpoint.arrays[k] for k in numbers) if checkpoint.arrays else ()
    return replace(checkpoint, entries=entries, arrays=arrays)
