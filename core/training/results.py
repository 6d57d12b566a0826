"""Reports of a trainer: memory, and the results of epochs."""

from collections.abc import Mapping

from odt.core.runtime.engine import Engine
from odt.core.runtime.parameters import Parameters
from odt.core.runtime.runtime import Runtime
from odt.core.training.passes import Result
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Memory allocated for training, in bytes.

    Attributes:
        parameters: copies of the weights that train.
        slots: optimizer state.
        gradients: sums of the gradients; those updated immediately have none.
        arena: arenas of all workers.
        separate: bytes of the arenas' values without reuse of memory.
        packed: weights that are packed once in a step.
        best: copy of the best epoch's weights.
        prepared: batches that are prepared for later steps.
        taught: outputs of a teacher.
        kept: outputs that metrics such as AUC keep until the end of an epoch.
    """

    parameters: int
    slots: int
    gradients: int
    arena: int
    separate: int
    packed: int = 0
    best: int = 0
    prepared: int = 0
    taught: int = 0
    kept: int = 0

    @classmethod
    def from_runtime(
        cls,
        parameters: Parameters,
        runtime: Runtime,
        training: Engine,
        best: int,
        reserves: Mapping[str, int],
    ) -> "MemoryReport":
        """Reports what was allocated.

        Args:
            parameters: weights and optimizer state.
            runtime: programs and arenas.
            training: engine of a training step.
            best: bytes of the best weights.
            reserves: bytes for other uses, by keys of LEAVE_OUT in fit_budget.
        """
        return cls(
            parameters=parameters.nbytes,
            slots=parameters.slot_nbytes,
            gradients=training.gradient_nbytes,
            arena=runtime.arena_nbytes,
            separate=training.memory.separate * runtime.schedule.workers,
            packed=training.plans.packed_nbytes,
            best=best,
            prepared=reserves.get("prepared batches", 0),
            taught=reserves.get("a teacher's outputs", 0),
            kept=reserves.get("outputs kept for metrics", 0),
        )

    @property
    def total(self) -> int:
        """Bytes of all of these but `separate`."""
        used = self.parameters + self.slots + self.gradients + self.arena + self.packed
        return used + self.best + self.prepared + self.taught + self.kept


@dataclass(frozen=True, slots=True)
class Epoch:
    """Results of one epoch.

    Attributes:
        number: number of the epoch, from 1; 0 before training.
        training: losses and metrics of its steps.
        validation: losses and metrics of the validation samples after it; None without them.
        undone: whether the state is that before the epoch again, because the loss had risen.
    """

    number: int
    training: Result
    validation: Result | None
    undone: bool = False

    @property
    def logs(self) -> dict[str, float]:
        """Returns loss and metrics by name; names of validation values begin with `val_`."""
        values = {"loss": self.training.loss, **self.training.metrics}
        if self.validation:
            validation = {"loss": self.validation.loss, **self.validation.metrics}
            values |= {f"val_{name}": value for name, value in validation.items()}
        return values
