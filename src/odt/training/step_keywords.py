"""Keywords of `odt.Trainer` that are options of the steps of training, for type checkers.

Written by tools/write_step_keywords.py from the rows in core/options/training_options.py.
"""

from typing import Literal, TypedDict


class StepKeywords(TypedDict, total=False):
    """Options of the steps of training; None is the value of a file, or the default."""

    clip_norm: float | None
    clip_value: float | None
    accumulate: int | None
    ema: float | None
    quant_ranges: Literal["file", "follow", "follow-all"] | None
    batch_norm: Literal["fixed", "batch"] | None
    precision: Literal["float32", "bf16"] | None
    qas: bool | None
