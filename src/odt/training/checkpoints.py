"""Checkpoints of a trainer: writes the state of training to files, and restores it."""

import os
from collections.abc import Mapping

from odt.core.checkpoints.saver import Saver
from odt.core.checkpoints.start import Start
from odt.core.data.dataset import EpochOrder
from odt.core.model.graph import changed_constants
from odt.errors import OptionError
from odt.models.model import Path
from odt.training.session import Session


class Checkpoints:
    """Writes the state of a session, during `fit` and after it, and restores it."""

    def __init__(self, session: Session) -> None:
        """Writes nothing yet.

        Args:
            session: model, options and memory.
        """
        self.session = session
        self._saver: Saver | None = None
        self._order = EpochOrder(range(0))

    def begin(
        self,
        order: EpochOrder,
        path: Path | None,
        every: int | None,
        properties: Mapping[str, str | int | float] | None,
    ) -> Saver:
        """Returns the writer of the checkpoints of a call of `fit`.

        Args:
            order: order of the training samples in each epoch.
            path: path of the checkpoint; None for none.
            every: number of steps between two saves, instead of an epoch.
            properties: user metadata to store.

        Raises:
            OptionError: for an interval without a path.
        """
        if every is not None and path is None:
            raise OptionError("save_every", "must come with `save_to=`", "it alone")
        session = self.session
        self._order = order
        self._saver = Saver(
            os.fspath(path) if path is not None else None,
            session.build(),
            order,
            every=every or 0,
            properties=properties,
            before=session.resume,
            state_properties=session.properties,
        )
        return self._saver

    def saver(self) -> Saver:
        """Returns the writer of checkpoints, which knows the position of the last `fit`."""
        if self._saver is None:
            session = self.session
            self._saver = Saver(
                None,
                session.allocate(),
                self._order,
                before=session.resume,
                state_properties=session.properties,
            )
        return self._saver

    def save(self, path: Path) -> None:
        """Writes a checkpoint, as `Trainer.save_checkpoint`.

        Args:
            path: path of the file.
        """
        self.session.build()
        self.check_path("path", path)
        self.saver().write_to(os.fspath(path))

    def load(self, resume: Start) -> None:
        """Restores weights and optimizer state, as `Trainer.load_checkpoint`.

        Args:
            resume: the checkpoint.
        """
        session = self.session
        trainer = session.allocate()
        frozen = {}
        if resume.checkpoint is not None:
            graphs = resume.on(session.recipe.graphs)
            frozen = changed_constants(session.graph, graphs.graph)
        if frozen:
            session.check_replaceable()  # before anything changes
        resume.restore(trainer.graph, trainer.parameters)
        session.missing.clear()
        session.replace_frozen(frozen)

    def check_path(self, field: str, path: Path | None) -> None:
        """Checks that a checkpoint can be written to a path.

        Args:
            field: argument that holds the path.
            path: path of the checkpoint; None for none.

        Raises:
            OptionError: if it is the file of the model, or the model has adapters, and the path
                does not end in .odt: onert's checkpoints hold the tensors of the file.
        """
        if path is None:
            return
        model = self.session.model.path
        if os.path.exists(path) and os.path.exists(model) and os.path.samefile(path, model):
            raise OptionError(field, "must be another file than the model", path)
        if self.session.recipe.lowered.adapted and not os.fspath(path).endswith(".odt"):
            raise OptionError(field, "must end in .odt for a model with adapters", path)

    def finish(self) -> None:
        """Saves the last checkpoint of `fit` and, with `keep_best`, restores the best weights.

        `fit` calls it at its end, unless it raises a LostFileError.
        """
        if self._saver is not None:
            self._saver.finish()
        self.session.build().restore_best()

    def rescue(self, path: Path) -> None:
        """Saves weights and optimizer state after the model file was lost (LostFileError).

        Args:
            path: path of the checkpoint, in odt's format.
        """
        self.saver().rescue(os.fspath(path))
