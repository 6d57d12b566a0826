"""Reports of a trainer: memory, and the results of epochs."""

from odt.core.training.passes import Result
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Memory allocated for training, in bytes.

    Attributes:
        parameters: copies of the weights that train.
        slots: optimizer state.
        gradients: sums of the gradients of micro-batches; 0 for immediate updates.
        arena: arenas of all workers.
        separate: bytes of the arenas' values without reuse of memory.
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
    best: int = 0
    prepared: int = 0
    taught: int = 0
    kept: int = 0

    @property
    def total(self) -> int:
        used = self.parameters + self.slots + self.gradients + self.arena
        return used + self.best + self.prepared + self.taught + self.kept


@dataclass(frozen=True, slots=True)
class Epoch:
    """Results of one epoch; `number` counts from 1."""

    number: int
    training: Result
    validation: Result | None

    @property
    def logs(self) -> dict[str, float]:
        """Returns loss and metrics by name; names of validation values begin with `val_`."""
        values = {"loss": self.training.loss, **self.training.metrics}
        if self.validation:
            held = {"loss": self.validation.loss, **self.validation.metrics}
            values |= {f"val_{name}": value for name, value in held.items()}
        return values
