"""The options of `odt train` as values, by what they are for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import odt
from odt.cli.options.exports import ExportOptions
from odt.cli.options.find_rate import RateTestOptions
from odt.cli.options.onert import ReportOptions
from odt.cli.options.rows import group
from odt.cli.options.run_dir import RunOptions
from odt.cli.options.sample_files import SampleFiles
from odt.cli.options.teacher import TeacherOptions
from odt.core.options.fit_options import FitOptions
from odt.core.options.model_options import ModelOptions
from odt.core.options.session_options import SessionOptions
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """All options of `odt train`.

    Attributes:
        recipe: values by name, of which `odt.Trainer` takes those of its recipe.
        selection: weights that train.
        quantize_aware: whether a float model is quantized and trained with fake quantization.
        quantize_weights: type in which the weights of a float model are stored before training.
        frozen_int8: whether the frozen layers compute int8.
    """

    model: ModelOptions
    samples: SampleFiles
    recipe: Mapping[str, Any]
    selection: "odt.Trainable"
    session: SessionOptions
    teacher: TeacherOptions
    fit: FitOptions
    exports: ExportOptions
    run: RunOptions
    report: ReportOptions
    rate_test: RateTestOptions
    quantize_aware: bool
    quantize_weights: str | None
    frozen_int8: bool

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Returns the options of `odt train`, or of a command that has some of them.

        Args:
            values: what Click passes to the command.
        """
        return cls(
            model=group(ModelOptions, values),
            samples=group(SampleFiles, values),
            recipe=values,
            selection=group(odt.Trainable, values),
            session=group(SessionOptions, values),
            teacher=group(TeacherOptions, values),
            fit=group(FitOptions, values),
            exports=group(ExportOptions, values),
            run=group(RunOptions, values),
            report=group(ReportOptions, values),
            rate_test=group(RateTestOptions, values),
            quantize_aware=values.get("quantize_aware", False),
            quantize_weights=values.get("quantize_weights"),
            frozen_int8=values.get("frozen_int8", False),
        )

    @property
    def selects(self) -> bool:
        """Whether options select weights, besides whole operators."""
        weights = self.selection
        patterns = bool(weights.patterns or weights.freeze or self.recipe["sparse"])
        return patterns or weights.bias_only or weights.freeze_norm

    def saving_to(self, path: str) -> Self:
        """Returns the options with another checkpoint to write."""
        return replace(self, fit=replace(self.fit, save_to=path))
