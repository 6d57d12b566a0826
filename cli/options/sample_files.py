"""Options of the files of samples."""

import click

from odt.cli.options.rows import declare, declared_options
from odt.core.options.option import DATA, VALIDATION
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """Files of the training and validation samples; None for none."""

    load_input: str | None = declare(
        DATA,
        "--load-input",
        common=True,
        type=click.Path(),
        metavar="FILE",
        help="Model inputs of all samples: raw float32 as for onert_train, .npy, .npz or .h5.",
    )
    load_expected: str | None = declare(
        DATA,
        "--load-expected",
        common=True,
        type=click.Path(),
        metavar="FILE",
        help="Expected outputs (targets) of all samples, in the same formats.",
    )
    validation_input: str | None = declare(
        VALIDATION,
        "--validation-input",
        type=click.Path(),
        metavar="FILE",
        help="Model inputs of the validation samples, in the formats of --load-input.",
    )
    validation_expected: str | None = declare(
        VALIDATION,
        "--validation-expected",
        type=click.Path(),
        metavar="FILE",
        help="Expected outputs (targets) of the validation samples.",
    )


input_option = declared_options(SampleFiles, "load_input")
data_options = declared_options(SampleFiles, "load_input", "load_expected")
validation_options = declared_options(SampleFiles, "validation_input", "validation_expected")
