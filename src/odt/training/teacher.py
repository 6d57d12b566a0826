"""Distillation: training on the outputs of a teacher."""

from typing import Any

from odt.core.options.training_options import TEACHER_OPTIONS
from odt.core.recipe.option_values import check_option
from odt.core.recipe.sample_specs import SampleSpecs
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.models.model import Model, Path


@dataclass(frozen=True, slots=True)
class Teacher:
    """A teacher for knowledge distillation: a larger model, or its stored outputs.

    The loss of the student is (1 − weight) · loss of the targets + weight · T² · KL divergence of
    both models' probabilities at the temperature T (Hinton, Vinyals and Dean, 2015). Without
    classes, the second part is the loss with the teacher's outputs as targets.

    Attributes:
        model: the teacher, or the path of its file; it reads the inputs of the student, as real
            numbers if the student is quantized. Its outputs for all samples are computed before
            the first step; with a memory budget, one sample at a time.
        outputs: instead of `model`: outputs of the teacher for all samples (N, …), an array or the
            path of a data file, as `odt predict` writes it; logits or probabilities.
        temperature: T, above 0; 1 for models without classes.
        weight: weight of the teacher's part, above 0 and at most 1.

    Raises:
        OptionError: if both or none of `model` and `outputs` are given, or a number is out of
            range.
    """

    model: Any = None
    outputs: Any = None
    temperature: float = 2.0
    weight: float = 0.5

    def __post_init__(self) -> None:
        if (self.model is None) == (self.outputs is None):
            actual = "none" if self.model is None else "both"
            raise OptionError("teacher, teacher_outputs", "one of them must be given", actual)
        check_option(TEACHER_OPTIONS["temperature"], self.temperature)
        check_option(TEACHER_OPTIONS["teacher_weight"], self.weight)


def teacher_of(teacher: "Teacher | Model | Path | None") -> Teacher | None:
    """Returns a teacher from itself, a model or a path; None for None."""
    return teacher if teacher is None or isinstance(teacher, Teacher) else Teacher(teacher)


def outputs_nbytes(teacher: Teacher, specs: SampleSpecs, count: int) -> int:
    """Returns the bytes of the outputs that a teacher computes; 0 for stored outputs.

    Args:
        teacher: the teacher.
        specs: specs of one sample of the student.
        count: number of samples.
    """
    _, output = specs.losses[0]
    return 0 if teacher.model is None else count * output.nbytes
