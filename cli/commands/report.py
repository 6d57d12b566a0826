"""Write a report of a training run as an HTML page, follow runs live, or compare them."""

import time
from contextlib import closing
from functools import partial
from pathlib import Path

import click

import odt
from odt.cli.options.completion import complete_runs
from odt.cli.options.data_folder import data_folder
from odt.cli.options.sections import Command, option
from odt.cli.options.training_run import refuse_alone
from odt.cli.options.types import NewFile
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.signals import stop_on_signals
from odt.errors import OdtError
from odt.progress import Progress
from odt.runs.run import PAGE as PAGE_FILE
from odt.runs.run import RECIPE

PAGE = "Report"
LIST = "List of runs"
LIVE = "Live page"
WRONG = 24  # most wrong samples that a report shows
WAIT = 0.1  # seconds between two checks for a signal
EXAMPLES = (
    "odt report runs/first",
    "odt report --live runs/first --open",
    "odt report --list runs --metric val_accuracy",
)


@click.command(cls=Command, examples=EXAMPLES)
@click.argument(
    "runs",
    nargs=-1,
    type=click.Path(path_type=Path),
    metavar="[RUN]...",
    shell_complete=complete_runs,
)
@data_folder("test", section=PAGE)
@option(
    PAGE,
    "--load-input",
    type=click.Path(),
    metavar="FILE",
    help="Model inputs of test samples to evaluate.  [default: the run's validation samples]",
)
@option(
    PAGE,
    "--load-expected",
    type=click.Path(),
    metavar="FILE",
    help="Expected outputs of the test samples.",
)
@option(
    PAGE,
    "--wrong",
    type=click.IntRange(0),
    show_default=str(WRONG),
    metavar="N",
    help="Number of most wrong samples to show.",
)
@option(
    PAGE,
    "-o",
    "--output",
    type=NewFile(".html", ".htm", path_type=Path),
    metavar="FILE",
    help="The HTML file.  [default: report.html in the folder of the run]",
)
@option(
    PAGE,
    "--open",
    "opens",
    is_flag=True,
    help="Open the report, or the live page, in the browser.",
)
@option(
    LIVE,
    "--live",
    is_flag=True,
    help="Serve a page to the browser on this machine that follows the runs in the folders RUN "
    "while they train, and predicts files that are dropped on it. Ctrl-C ends it.",
)
@option(
    LIVE,
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Port of the page.  [default: a free one]",
)
@option(
    LIST,
    "--list",
    "as_list",
    is_flag=True,
    help="List and compare the runs in the folders RUN, by default those in the current folder.",
)
@option(
    LIST,
    "--metric",
    metavar="NAME",
    help="Value to compare, such as val_accuracy; by default, the value that each run monitored.",
)
@option(
    LIST,
    "--svg",
    "svg_path",
    type=NewFile(".svg"),
    metavar="FILE",
    help="Write a chart of the value over the epochs of all runs.",
)
@option(
    LIST,
    "--png",
    type=NewFile(".png"),
    metavar="FILE",
    help="Write the chart as PNG; needs matplotlib.",
)
def command(
    runs: tuple[Path, ...],
    load_input: str | None,
    load_expected: str | None,
    wrong: int | None,
    output: Path | None,
    live: bool,
    port: int | None,
    opens: bool,
    as_list: bool,
    metric: str | None,
    svg_path: str | None,
    png: str | None,
) -> None:
    """Write a report of the run in the folder RUN: one HTML page without external resources.

    The trained model is evaluated on the validation samples of the run, or on test samples. The
    report shows the confusion matrix, and the most wrong samples as images, spectrograms or curves.

    With --live, the page shows the curves of one or several runs while they train. A photo, a sound
    or a table that is dropped on the page is predicted as by odt predict. Only the browser on this
    machine can open the page, by the address that is printed.

    With --list, RUN is the folder of a run, or contains such folders. In the table, BEST is the
    best value of the compared metric, AT the epoch of this value, EPOCHS the number of completed
    epochs, and TIME the time of all training steps. The last columns show the options in which the
    recipes differ.
    """
    page_options = {
        "--load-input": load_input,
        "--load-expected": load_expected,
        "--wrong": wrong,
        "--output": output,
    }
    if as_list and live:
        raise OdtError("--live: must be given without --list, but got both.")
    mode = ""
    if as_list or live:
        mode = "--list" if as_list else "--live"
    for name, value in page_options.items():
        if mode and value is not None:
            raise OdtError(f"{name}: must be given without {mode}, but got both.")
    refuse_alone("--port", port, "--live", live)
    if as_list:
        if opens:
            raise OdtError("--open: must be given without --list, but got both.")
        _list_runs(runs, metric, svg_path, png)
        return
    for name, value in (("--metric", metric), ("--svg", svg_path), ("--png", png)):
        refuse_alone(name, value, "--list", as_list)
    if live:
        _follow(runs, port or 0, opens)
        return
    if len(runs) != 1:
        raise click.UsageError(
            f"RUN: must be one folder, but got {len(runs)}. --list and --live take several."
        )
    refuse_alone("--load-input", load_input, "--load-expected", load_expected)
    refuse_alone("--load-expected", load_expected, "--load-input", load_input)
    (run,) = runs
    record = odt.read_run(run)
    path = output or run / PAGE_FILE
    read = {"--load-input": load_input, "--load-expected": load_expected}
    check_outputs({"--output": str(path)}, {**read, "the recipe": str(run / RECIPE)})
    with closing(Progress()) as bar:
        odt.report(
            record,
            load_input,
            load_expected,
            wrong=WRONG if wrong is None else wrong,
            out=path,
            progress=partial(bar, "samples"),
        )
    click.echo(f"{path}: epochs 0 … {record.rows[-1]['epoch'] if record.rows else 0}")
    if opens:
        _open(path.resolve().as_uri())


def _follow(folders: tuple[Path, ...], port: int, opens: bool) -> None:
    """Serves the live page until Ctrl-C."""
    if not folders:
        raise click.UsageError("RUN: must be the folder of a run, but got none.")
    with stop_on_signals() as caught, odt.LiveReport(folders, port=port) as page:
        click.echo(page.url)
        click.echo("Ctrl-C ends the page.", err=True)
        if opens:
            _open(page.url)
        while not caught:
            time.sleep(WAIT)
    click.echo("Stopped.", err=True)


def _open(address: str) -> None:
    """Opens a page in the browser."""
    import webbrowser  # slow

    if not webbrowser.open(address):
        click.echo(f"--open: no browser was found. Open {address} yourself.", err=True)


def _list_runs(
    folders: tuple[Path, ...], metric: str | None, svg_path: str | None, png: str | None
) -> None:
    """Prints the table of the runs in some folders, and writes their chart."""
    check_outputs({"--svg": svg_path, "--png": png}, {})
    comparison = odt.compare_runs(folders, metric)
    click.echo(str(comparison))
    if svg_path:
        comparison.save_svg(svg_path)
    if png:
        comparison.save_png(png)
