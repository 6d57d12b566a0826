"""Attributes of recurrent operators, and the order of the gates of an LSTM."""

from odt.dataclass import dataclass

GATES = "fgoi"
FORGET, CELL, OUTPUT, INPUT = range(4)


@dataclass(frozen=True, slots=True)
class LstmAttrs:
    """Axis of time (None: one step), activation φ, and clipping bounds (0: no bound)."""

    time_axis: int | None
    activation: int
    cell_clip: float
    proj_clip: float


@dataclass(frozen=True, slots=True)
class RnnAttrs:
    """Axis of time, and activation."""

    time_axis: int
    activation: int


@dataclass(frozen=True, slots=True)
class GruAttrs:
    """Axis of time, and whether the reset gate multiplies the product instead of the state."""

    time_axis: int
    reset_after: bool
