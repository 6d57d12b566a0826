"""The options of `odt train` as values, by what they are for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from odt.cli.options.rows import group
from odt.core.options.fit_options import FitOptions
from odt.core.options.model_options import ModelOptions
from odt.core.options.session_options import SessionOptions
from odt.dataclass import dataclass

ADAPTERS = "adapters"


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """Files of the training and validation samples; None for none."""

    load_input: str | None = None
    load_expected: str | None = None
    validation_input: str | None = None
    validation_expected: str | None = None


@dataclass(frozen=True, slots=True)
class TeacherOptions:
    """Options of distillation; None for the defaults of `odt.Teacher`."""

    teacher: str | None = None
    teacher_outputs: str | None = None
    temperature: float | None = None
    teacher_weight: float | None = None


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Files of the trained model, and what they hold."""

    export_circle: str | None = None
    export_tflite: str | None = None
    export_circleplus: str | None = None
    export_onnx: str | None = None
    export_adapters: str | None = None
    export_weights: str | None = None
    preprocessing: bool = True

    @property
    def paths(self) -> dict[str, str]:
        """The files to write by format, the adapters by ADAPTERS."""
        every = {
            "circle": self.export_circle,
            "tflite": self.export_tflite,
            "circle+": self.export_circleplus,
            "onnx": self.export_onnx,
            ADAPTERS: self.export_adapters,
        }
        return {kind: path for kind, path in every.items() if path}

    @property
    def float_weights(self) -> bool:
        """Whether weights are exported as float32, however the file stores them."""
        return self.export_weights == "float"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Folder and logs of a run, and what is printed."""

    run_dir: str | None = None
    tensorboard: bool = False
    log: str | None = None
    verbose_level: int = 0
    mem_poll: bool = False


@dataclass(frozen=True, slots=True)
class RateTestOptions:
    """Options of the learning rate range test."""

    find_rate: bool = False
    png: str | None = None


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """All options of `odt train`.

    Attributes:
        recipe: values by name, of which `odt.Trainer` takes those of its recipe.
        quantize_aware: whether a float model is quantized and trained with fake quantization.
        frozen_int8: whether the frozen layers compute int8.
    """

    model: ModelOptions
    samples: SampleFiles
    recipe: Mapping[str, Any]
    session: SessionOptions
    teacher: TeacherOptions
    fit: FitOptions
    exports: ExportOptions
    run: RunOptions
    rate_test: RateTestOptions
    quantize_aware: bool
    frozen_int8: bool

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Returns the options of `odt train`, or of a command that has some of them.

        Args:
            values: what Click passes to the command.
        """
        return cls(
            model=group(ModelOptions, values),
            samples=group(SampleFiles, values),
            recipe=values,
            session=group(SessionOptions, values),
            teacher=group(TeacherOptions, values),
            fit=group(FitOptions, values),
            exports=group(ExportOptions, values),
            run=group(RunOptions, values),
            rate_test=group(RateTestOptions, values),
            quantize_aware=values.get("quantize_aware", False),
            frozen_int8=values.get("frozen_int8", False),
        )

    def saving_to(self, path: str) -> Self:
        """Returns the options with another checkpoint to write."""
        return replace(self, fit=replace(self.fit, save_to=path))
