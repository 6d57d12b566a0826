"""Options of distillation."""

from typing import TYPE_CHECKING, Any

import click

import odt
from odt.cli.options.sections import combine, option
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
    option(
        LOSS,
        "--temperature",
        type=click.FloatRange(0, min_open=True),
        show_default="2",
        help="Temperature of the probabilities of teacher and student.",
    ),
    option(
        LOSS,
        "--teacher-weight",
        type=click.FloatRange(0, 1, min_open=True),
        show_default="0.5",
        help="Weight of the loss for the teacher's outputs; the loss for the targets has 1 minus "
        "this weight.",
    ),
)


def teacher_of(options: dict[str, Any]) -> "Teacher | None":
    """The teacher that the options describe; None for none.

    Raises:
        OdtError: if options are given without a teacher, or for two.
    """
    given = {
        "model": options["teacher"],
        "outputs": options["teacher_outputs"],
        "temperature": options["temperature"],
        "weight": options["teacher_weight"],
    }
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return None
    if not given.keys() & {"model", "outputs"}:
        name = "--temperature" if "temperature" in given else "--teacher-weight"
        raise OdtError(f"{name}: must come with --teacher or --teacher-outputs, but got it alone")
    return odt.Teacher(**given)
