"""Writes checkpoints during training."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from odt.core.checkpoints import checkpoint, onert_checkpoint
from odt.core.checkpoints.checkpoint import Checkpoint, Property, check_properties
from odt.core.checkpoints.resume import OWN_SUFFIX, progress_of
from odt.core.checkpoints.start import Start
from odt.core.data.dataset import EpochOrder
from odt.core.storage.atomic_files import AtomicFile, remove_leftovers, write_atomically
from odt.core.training.trainer import Trainer
from odt.errors import OptionError


class Saver:
    """Writes checkpoints to one file during training; the file is always complete.

    Args:
        path: path of the file: suffix .odt for odt's format, any other for onert's. None writes
            nothing.
        trainer: the trainer whose state to write.
        order: order of the training samples.
        every: steps between two checkpoints; 0 for one after each epoch.
        properties: user metadata to add, which only odt's format holds.
        before: the checkpoint from which training resumes.
        state_properties: the trainer's user metadata, to which `properties` are added; None for
            those of `before`.

    Raises:
        OptionError: if the properties are invalid, or the format cannot hold them.
        ModelError: if the format cannot hold the state, or the file cannot be written.
    """

    def __init__(
        self,
        path: str | None,
        trainer: Trainer,
        order: EpochOrder,
        *,
        every: int = 0,
        properties: Mapping[str, Property] | None = None,
        before: Start | None = None,
        state_properties: dict[str, Property] | None = None,
    ) -> None:
        before = before or Start()
        new_properties = properties or {}
        check_properties(new_properties)
        self.path = path
        self.every = every
        self.properties = {**before.properties} if state_properties is None else state_properties
        self._trainer = trainer
        self._progress = progress_of(trainer, order)
        self._steps = order.steps(trainer.info.step_samples)
        self._reached = before.start(trainer.info.step_samples, self._steps)
        self._written: tuple[int, int] | None = None
        self._due = False
        if new_properties and path is not None and not path.endswith(OWN_SUFFIX):
            raise OptionError(
                "properties",
                "must be saved in odt's format",
                path,
                f"Give a name that ends in {OWN_SUFFIX}.",
            )
        if path is not None:  # an error now, not after an epoch
            AtomicFile(path).discard()
            remove_leftovers(os.path.dirname(os.path.realpath(path)))
            next(self._encoded(path))
        self.properties.update(new_properties)

    def step(self, epoch: int, number: int) -> None:
        """Writes a checkpoint if it is due; must be called after each step.

        A checkpoint of an epoch's last step is written by `epoch`, after the epoch's validation.
        """
        complete = number == self._steps
        self._reached = (epoch + 1, 0) if complete else (epoch, number)
        self._due = self.every > 0 and self._trainer.parameters.step % self.every == 0
        if self._due and not complete:
            self.write()

    def epoch(self, undone: int = 0) -> None:
        """Writes a checkpoint if it is due; must be called after each epoch.

        Args:
            undone: number of the epoch if it was undone, and 0 otherwise. Its end is then reached,
                even if a loss that is not finite ended it before its last step.
        """
        if undone:
            self._reached = (undone + 1, 0)
        if self._due or not self.every:
            self.write()

    def finish(self) -> None:
        """Writes the last checkpoint; must be called when training ends or is stopped."""
        if self._written != self._reached:
            self.write()

    def write(self) -> None:
        """Writes the current state."""
        if self.path is not None:
            self.write_to(self.path)
        self._written, self._due = self._reached, False

    def write_to(self, path: str) -> None:
        """Writes the current state to another file, in the format of its suffix."""
        write_atomically(path, self._encoded(path))

    def rescue(self, path: str) -> None:
        """Writes the current state to another file, in odt's format.

        odt's format needs no bytes of the model's file, which may be lost.
        """
        write_atomically(path, checkpoint.encode(self.state()))

    def state(self) -> Checkpoint:
        """The current state."""
        epoch, position = self._reached
        trainer = self._trainer
        progress = replace(
            self._progress,
            epoch=epoch,
            position=position,
            schedule_steps=trainer.schedule_steps,
            plateau=trainer.plateau.state if trainer.plateau else (),
            best=trainer.best.state,
            monitor=trainer.best.monitor.name if trainer.best.state else "",
            undo=trainer.undo.state if trainer.undo else (),
        )
        best = trainer.best.copies if trainer.best.epoch else checkpoint.NO_WEIGHTS
        before = trainer.undo.groups() if trainer.undo and position else checkpoint.NO_GROUPS
        parameters = trainer.parameters
        return checkpoint.capture(
            trainer.graph, parameters, progress, self.properties, best, before
        )

    def _encoded(self, path: str) -> Iterator[bytes | memoryview]:
        """Returns the bytes of the current state, in the format of the path's suffix."""
        if path.endswith(OWN_SUFFIX):
            return checkpoint.encode(self.state())
        return onert_checkpoint.encode(self._trainer.graph, self._trainer.parameters)
