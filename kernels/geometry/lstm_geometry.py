"""Attributes of LSTM operators, and the order of the gates."""

from odt.dataclass import dataclass

TANH = 4  # ActivationFunctionType in the schema
GATES = "fgoi"
FORGET, CELL, OUTPUT, INPUT = range(4)


@dataclass(frozen=True, slots=True)
class LstmAttrs:
    """Axis of time (None: one step), activation φ, and clipping bounds (0: no bound)."""

    time_axis: int | None
    activation: int
    cell_clip: float
    proj_clip: float
