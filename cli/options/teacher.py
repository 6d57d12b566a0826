"""Options of distillation."""

from typing import TYPE_CHECKING

import click

import odt
from odt.cli.options.rows import declare, declared_options, row_options
from odt.cli.options.sections import combine
from odt.core.options.option import LOSS
from odt.core.options.training_options import TEACHER_OPTIONS
from odt.dataclass import dataclass
from odt.errors import OdtError

if TYPE_CHECKING:
    from odt.training.teacher import Teacher


@dataclass(frozen=True, slots=True)
class TeacherOptions:
    """Options of distillation; None for the defaults of `odt.Teacher`."""

    teacher: str | None = declare(
        LOSS,
        "--teacher",
        type=click.Path(),
        metavar="MODEL",
        help="Knowledge distillation: also train on the outputs of this trained model.",
    )
    teacher_outputs: str | None = declare(
        LOSS,
        "--teacher-outputs",
        type=click.Path(),
        metavar="FILE",
        help="Outputs of the teacher for all samples, from odt predict --output; replaces "
        "--teacher.",
    )
    temperature: float | None = None
    teacher_weight: float | None = None


teacher_options = combine(declared_options(TeacherOptions), row_options(TEACHER_OPTIONS))


def teacher_of(options: TeacherOptions) -> "Teacher | None":
    """The teacher that the options describe; None for none.

    Raises:
        OdtError: if options are given without a teacher, or for two.
    """
    weights = {"temperature": options.temperature, "weight": options.teacher_weight}
    chosen = {name: value for name, value in weights.items() if value is not None}
    if options.teacher is None and options.teacher_outputs is None:
        if not chosen:
            return None
        name = "--temperature" if "temperature" in chosen else "--teacher-weight"
        raise OdtError(f"{name}: must come with --teacher or --teacher-outputs, but got it alone")
    return odt.Teacher(options.teacher, outputs=options.teacher_outputs, **chosen)
