"""The base of all loss classes."""

from dataclasses import dataclass, fields
from typing import ClassVar

from odt.kernels.loss_text import format_loss


@dataclass(frozen=True, slots=True)
class Loss:
    """Base class of losses; str() gives the text that `loss=` takes."""

    name: ClassVar[str] = ""

    def __str__(self) -> str:
        return format_loss(self.name, {f.name: getattr(self, f.name) for f in fields(self)})
