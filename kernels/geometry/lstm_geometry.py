"""Attributes of the long short-term memory, and the order of its gates."""

from dataclasses import dataclass

TANH = 4  # ActivationFunctionType in the schema
GATES = "fgoi"
FORGET, CELL, OUTPUT, INPUT = range(4)


@dataclass(frozen=True, slots=True)
class LstmAttrs:
    """Where time is (None: one step), φ, and the bounds; 0 is no bound."""

    time_axis: int | None
    activation: int
    cell_clip: float
    proj_clip: float
