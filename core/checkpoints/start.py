"""Where a training starts: at its beginning, or (`Resume`) in a checkpoint."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from odt.core.data.dataset import EpochOrder
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.runtime.parameters import WEIGHT, Parameters
from odt.core.training.best_epoch import Best
from odt.core.training.trainer import Trainer
from odt.dataclass import dataclass
from odt.errors import OptionError

if TYPE_CHECKING:
    from odt.core.checkpoints.checkpoint import Checkpoint, Property
    from odt.core.checkpoints.progress import Progress


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a training.

    Attributes:
        path: path of the checkpoint; empty for none.
        checkpoint: a checkpoint in odt's format; None for none, and for onert's format, which holds
            no options.
        data: bytes of a checkpoint in onert's format.
        new_data: whether the run has other data, and begins with epoch 1.
    """

    path: str = ""
    checkpoint: "Checkpoint | None" = None
    data: bytes = b""
    new_data: bool = False

    @property
    def progress(self) -> "Progress":
        """Position of training; the beginning without a checkpoint in odt's format."""
        from odt.core.checkpoints.progress import Progress

        return self.checkpoint.progress if self.checkpoint else Progress()

    @property
    def properties(self) -> Mapping[str, "Property"]:
        """User metadata."""
        return self.checkpoint.properties if self.checkpoint else {}

    def training_info(self, graph: Graph) -> dict[str, Any]:
        """Returns the fields of TrainingInfo that the checkpoint holds.

        Args:
            graph: graph as in the file.

        Raises:
            ModelError: if a field has an invalid value.
        """
        return {}

    def on(self, graphs: LoweredGraphs) -> LoweredGraphs:
        """Returns the graphs with the checkpoint's weights that do not train.

        Args:
            graphs: graphs of the model.

        Raises:
            ModelError: if the checkpoint belongs to another graph.
        """
        return graphs

    def restore(
        self,
        graph: Graph,
        parameters: Parameters,
        best: Best | None = None,
        *,
        names_only: bool = False,
    ) -> None:
        """Restores parameters; nothing changes unless the whole checkpoint matches.

        Args:
            graph: graph of the parameters.
            parameters: weights and optimizer state.
            best: the best epoch, restored too if the checkpoint compares the same value.
            names_only: whether a nominal checkpoint, which is only compared, is accepted.

        Raises:
            ModelError: if the checkpoint does not match the parameters.
            OptionError: if batch normalization had other statistics.
        """

    def restore_before(self, graph: Graph, parameters: Parameters) -> bool:
        """Restores the state before the current epoch, if the checkpoint holds it.

        Raises:
            ModelError: if the checkpoint does not match the parameters.
        """
        return False

    def warning(self, trainer: Trainer, order: EpochOrder) -> str | None:
        """Returns a warning about changed options that change bits of the results, else None."""
        return None

    def on_new_data(self) -> "Start":
        """The checkpoint for a run on other data, which begins with epoch 1."""
        if self.checkpoint is None:
            return self
        progress = replace(self.progress, epoch=1, position=0, samples=0, plateau=(), best=())
        return replace(self, checkpoint=replace(self.checkpoint, progress=progress), new_data=True)

    def check_samples(self, samples: int) -> None:
        """Raises OptionError if the checkpoint was written in training on more or fewer samples."""
        before = self.progress
        if before.step and before.samples not in (0, samples):
            raise OptionError(
                "checkpoint",
                f"must be resumed with {before.samples} training samples",
                samples,
                "Give the same data and `validation_split=`, or `new_data=True` for other data.",
            )

    def check_teacher(self, info: TrainingInfo) -> None:
        """Raises OptionError if the checkpoint is of a distillation, and no teacher is given.

        Args:
            info: options of the resumed training.
        """
        if self.progress.teacher_weight and not info.teacher_weight and not self.new_data:
            raise OptionError(
                "teacher",
                "must be given to resume a distillation",
                "none",
                "Give the same teacher or `teacher_outputs=`, or `new_data=True` to train without "
                "it.",
            )

    @property
    def missing(self) -> set[str]:
        """Names of the weights whose values a nominal checkpoint lacks; empty for any other."""
        nominal = self.checkpoint if self.checkpoint and self.checkpoint.is_nominal else None
        return {e.tensor for e in nominal.entries if e.role == WEIGHT} if nominal else set()

    def schedule(
        self, batch: int, micro_batch: int | None, workers: int | None
    ) -> tuple[int | None, int | None]:
        """Returns micro-batch and workers: as given, else the checkpoint's for equal batch size."""
        before = self.checkpoint.progress if self.checkpoint else None
        if before is None or batch != before.batch:
            return micro_batch, workers
        return micro_batch or before.micro_batch or None, workers or before.workers or None

    def start(self, samples: int, steps: int) -> tuple[int, int]:
        """Returns the epoch in which to resume, and the number of its completed steps.

        Args:
            samples: samples in a step of the resumed training.
            steps: steps in an epoch of the resumed training.
        """
        before = self.progress
        samples_before = before.position * before.batch * before.accumulate
        return before.epoch, min(samples_before // samples, steps)
