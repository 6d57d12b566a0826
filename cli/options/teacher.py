"""Options of distillation."""

from typing import TYPE_CHECKING

import click

import odt
from odt.cli.options.rows import recipe_options
from odt.cli.options.sections import combine, option
from odt.cli.options.train_options import TeacherOptions
from odt.core.options.option import LOSS
from odt.errors import OdtError

if TYPE_CHECKING:
    from odt.training.teacher import Teacher

teacher_options = combine(
    option(
        LOSS,
        "--teacher",
        type=click.Path(),
        metavar="MODEL",
        help="Knowledge distillation: also train on the outputs of this trained model.",
    ),
    option(
        LOSS,
        "--teacher-outputs",
        type=click.Path(),
        metavar="FILE",
        help="Outputs of the teacher for all samples, from odt predict --output; replaces "
        "--teacher.",
    ),
    recipe_options("temperature", "teacher_weight"),
)


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
