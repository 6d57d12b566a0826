"""Simulate federated learning, make apps for Flower, and merge what devices trained."""

import os
import shlex
from typing import TYPE_CHECKING, Any

import click

from odt.cli.options.exports import ADAPTERS
from odt.cli.options.fed import (
    data_options,
    federation_options,
    held_options,
    output_options,
    server_options,
    validation_options,
)
from odt.cli.options.fed_options import FedOptions
from odt.cli.options.sample_files import data_options as file_options
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    budget_option,
    gradient_options,
    hyper_parameter_options,
    metric_option,
    schedule_options,
    selection_options,
    sparse_option,
    training_options,
)
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.signals import leave, stop_on_signals
from odt.collector import quick_imports
from odt.errors import OdtError

if TYPE_CHECKING:
    from odt.federated.federation import Federation
    from odt.federated.history import Round


@click.group()
def command() -> None:
    """Simulate federated learning, make apps for Flower, and merge checkpoints."""


@command.command(
    cls=Command,
    examples=(
        "odt fed simulate --model model.tflite --data data --clients 10 --partition dirichlet:0.3 "
        "\\\n  --rounds 20 --metric accuracy --plot accuracy.svg --export-tflite trained.tflite",
    ),
)
@federation_options
@server_options
@data_options
@file_options
@budget_option
@schedule_options
@training_options
@gradient_options
@metric_option
@hyper_parameter_options
@selection_options
@sparse_option
@validation_options
@output_options
def simulate(**values: Any) -> None:
    """Train MODEL on data divided among simulated clients, in one process.

    Each client trains the model of the server on its own samples; the server makes a new model of
    their updates. One client trains at a time, in the memory of one. Options of training are those
    of odt train; the defaults are SGD with momentum 0.9, learning rate 0.05, batch size 8 and
    gradients clipped to norm 3.
    """
    # Imported here, because help does not need the engine.
    with quick_imports():
        from odt.cli.options import fed_run
        from odt.cli.output.fed_report import begin_lines, draw_plot, round_line
        from odt.cli.output.training_log import warnings_as_lines
    options = FedOptions.from_values(values)
    fed_run.check_files(options)
    trainer = fed_run.trainer_of(options)
    with trainer, warnings_as_lines(), stop_on_signals() as stopped:

        def on_begin(federation: "Federation") -> None:
            click.echo("\n".join(begin_lines(federation)))

        def on_round(result: "Round") -> None:
            click.echo(round_line(result, options.federation.rounds))
            trainer.stop_training = bool(stopped)

        history = fed_run.simulate(trainer, options, on_begin, on_round)
        for kind, path in options.exports.paths.items():
            if kind == ADAPTERS:
                trainer.export_adapters(path)
            else:
                trainer.export(path, kind)
        if options.files.plot:
            draw_plot(history.rounds, options.files.plot)
    leave(stopped)


@command.command(
    cls=Command,
    examples=("odt fed init app --model model.tflite --data data --clients 4 --rounds 20",),
)
@click.argument("folder", type=click.Path(), metavar="DIR")
@federation_options
@data_options
@file_options
@budget_option
@schedule_options
@training_options
@gradient_options
@metric_option
@hyper_parameter_options
@selection_options
@held_options
@click.pass_context
def init(ctx: click.Context, /, folder: str, **values: Any) -> None:
    """Write a Flower app in DIR, which trains what simulate trains with the same options.

    README.md in DIR explains how it runs: in one process, with flwr run, and on devices with TLS.
    """
    # Imported here, because help does not need the engine.
    with quick_imports():
        from odt.cli.options import fed_init
        from odt.federated.flower.scaffold import scaffold
    scaffold(folder, fed_init.settings_of(ctx, folder))
    click.echo(f"{folder}: a Flower app. README.md says how it runs; in one process:")
    click.echo(
        f"  pip install 'odt[flower]' && python {shlex.quote(os.path.join(folder, 'run.py'))}"
    )


@command.command()
@click.argument("files", nargs=-1, type=click.Path(), metavar="FILE...")
@click.option(
    "--weights",
    metavar="W,…",
    help="Weight of each FILE, such as its number of samples: 120,45.  [default: equal]",
)
@click.option(
    "--model",
    type=click.Path(),
    metavar="MODEL",
    help="The trained model. onert checkpoints need it, because they hold no tensor names.",
)
@click.option("-o", "--output", type=click.Path(), required=True, metavar="OUT",
              help="The new checkpoint: .odt, .npz or .h5; any other extension selects onert's "
              "format.")  # fmt: skip
def merge(files: tuple[str, ...], weights: str | None, model: str | None, output: str) -> None:
    """Write the weighted mean of the checkpoints FILE... of several devices.

    The optimizer state of the new checkpoint is 0, so that training begins at its weights.
    """
    # Imported here, because help does not need the engine.
    from odt.federated.merging import merge as run

    if len(files) < 2:
        raise OdtError(f"FILE...: must be two or more checkpoints, but got {len(files)}.")
    read = {f"FILE {k}": path for k, path in enumerate(files, 1)}
    check_outputs({"--output": output}, {**read, "--model": model})
    numbers = None
    if weights is not None:
        try:
            numbers = [float(part) for part in weights.split(",")]
        except ValueError:
            raise click.BadParameter(
                f"must be numbers such as 120,45, but got {weights}.", param_hint="--weights"
            ) from None
    run(files, output, weights=numbers, model=model)
