"""Write a folder with all that a device needs to train a model, or check one on the device."""

from typing import Any

import click

import odt
from odt.cli.options.adapters import adapters_option
from odt.cli.options.cache import cache_options
from odt.cli.options.data_folder import data_folder
from odt.cli.options.fit import update_options
from odt.cli.options.sample_files import data_options
from odt.cli.options.sections import Command, option, typed_options
from odt.cli.options.shared import (
    budget_option,
    hyper_parameter_options,
    input_options,
    metric_option,
    model_argument,
    schedule_options,
    selection_options,
    sparse_option,
    training_options,
)
from odt.cli.options.train_options import TrainOptions
from odt.cli.output.spelling import spell
from odt.core.options.option import EXPORT
from odt.errors import OdtError

EXAMPLES = (
    "odt artifacts model.circle --load-input x.npy --load-expected y.npy \\\n"
    "  --num-of-trainable-ops 2 --memory-budget 64MB --output device",
    "odt artifacts --check device",
)


@click.command(cls=Command, examples=EXAMPLES)
@model_argument
@input_options
@option(
    EXPORT, "-o", "--output", common=True, type=click.Path(), metavar="DIR", help="Folder to write."
)
@data_folder("train")
@data_options
@budget_option
@schedule_options
@training_options
@update_options
@metric_option
@hyper_parameter_options
@selection_options
@sparse_option
@cache_options
@adapters_option
@option(
    EXPORT,
    "--checkpoint",
    type=click.Path(),
    metavar="FILE",
    help="Start with the weights and optimizer state of this checkpoint.",
)
@option(
    EXPORT,
    "--nominal",
    is_flag=True,
    help="Write names and shapes of the weights only, for a device that gets them from a server.",
)
@click.option(
    "--steps",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Number of steps of the validation.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of the synthetic data.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Check the folder MODEL on this device: its files, and the losses of the first steps.",
)
def command(
    model: str,
    output: str | None,
    load_input: str | None,
    load_expected: str | None,
    nominal: bool,
    steps: int,
    seed: int,
    check: bool,
    **values: Any,
) -> None:
    """Write a folder with all that a device needs to train MODEL.

    The folder holds the model (as circle+ if that format can hold the training info), a checkpoint,
    a recipe, and a manifest with SHA-256 and expected losses. Before it appears, some steps are
    trained from its files, on synthetic data and on the data files if they are given. On the
    device, odt.Trainer.from_artifacts reads it, or odt train --config DIR/recipe.toml.
    """
    # Imported here, because help does not need the engine.
    from odt.artifacts.artifacts import write_artifacts
    from odt.cli.options.training_run import model_of, refuse_alone, trainer_of
    from odt.cli.output.training_log import warnings_as_lines

    if check:
        others = typed_options(besides=("check",))
        if others:
            raise OdtError(f"--check: must be given alone, but got {', '.join(others)}, too.")
        odt.Trainer.from_artifacts(model).close()
        click.echo(str(odt.Artifacts.read(model)))
        click.echo("The files are unchanged, and the first losses are those of the workstation.")
        return
    if output is None:
        raise OdtError("--output: must be given: the folder to write.")
    refuse_alone("--load-input", load_input, "--load-expected", load_expected)
    refuse_alone("--load-expected", load_expected, "--load-input", load_input)
    options = TrainOptions.from_values(values)
    session = options.session
    refuse_alone("--cache-dtype", session.cache_dtype, "--cache-frozen", session.cache_frozen)
    source = model_of(model, options.model)
    with warnings_as_lines(), trainer_of(source, options) as trainer:
        artifacts = write_artifacts(
            trainer, output, load_input, load_expected, nominal=nominal, steps=steps, seed=seed
        )
    click.echo(spell(str(artifacts)))
