"""Compares odt with a former commit: python tools/bench/against.py COMMIT [--quick].

Both train in turn by `odt train`, with options that former commits have, too. A row's figures are
medians: of the fastest epoch's time for a step, and of the peak memory of the process. Both
are installed from wheels, because imports from a checkout take 2 MB more.
"""

import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/
for variable in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[variable]  # before NumPy is imported

from bench.machine import processor  # noqa: E402
from bench.measuring import status  # noqa: E402
from bench.networks import Network, random_batch  # noqa: E402
from bench.networks.dense import mlp  # noqa: E402
from bench.networks.mobile import dscnn, mobilenet  # noqa: E402
from bench.networks.plain import mnist  # noqa: E402
from bench.networks.residual import resnet8  # noqa: E402
from bench.networks.sequences import lstm_128  # noqa: E402
from bench.startup import install  # noqa: E402
from bench.systems import HERE, System, set_up  # noqa: E402
from bench.write_models import write  # noqa: E402

ROOT = HERE.parents[1]
EPOCHS = 3
Figures = tuple[float, float]  # ms for a step, MB


@dataclass(frozen=True)
class Row:
    """A run of `odt train`: model, batch size, samples, and the kernels, "" for the best."""

    title: str
    model: Callable[[], Network]
    batch: int
    samples: int
    kernels: str = ""


ROWS = (
    Row("MLP, batch 64", mlp, 64, 6400),
    Row("MNIST, batch 1", mnist, 1, 512),
    Row("MNIST, batch 32", mnist, 32, 1600),
    Row("MNIST, batch 32, NumPy", mnist, 32, 640, "numpy"),
    Row("ResNet-8, batch 32", resnet8, 32, 640),
    Row("DS-CNN, batch 32", dscnn, 32, 640),
    Row("LSTM 128, batch 32", lstm_128, 32, 640),
    Row("MobileNetV2, 96 × 96, batch 8", lambda: mobilenet(96, 10), 8, 96),
)


def fastest_epoch(printed: str) -> float:
    """Returns the least milliseconds for a step of the epochs that a command has printed."""
    return min(float(ms) for ms in re.findall(r"Epoch [1-9]\d*/\d+ - time: ([\d.]+)ms", printed))


def command(odt: Path, row: Row, folder: Path) -> list[str]:
    """Returns the command of a row, and writes its model and data."""
    net = row.model()
    model = folder / "model.circle"
    write(net, model)
    words = [str(odt), "train", str(model), "--epochs", str(EPOCHS)]
    words += ["--batch-size", str(row.batch), "--loss", "categorical-crossentropy"]
    words += ["--learning-rate", "0.001"]  # without steps that choose a rate
    options = ("--load-input", "--load-expected")
    for option, values in zip(options, random_batch(net, row.samples), strict=True):
        values.tofile(folder / f"{option}.bin")
        words += [option, str(folder / f"{option}.bin")]
    # A former commit, which never shuffles, refuses the option.
    command = [str(odt), "train", "--no-shuffle", "--help"]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        words.append("--no-shuffle")
    return words


def train(words: Sequence[str], kernels: str) -> Figures:
    """Runs a command; returns its milliseconds for a step, and its peak memory in MB."""
    variables = os.environ | {"PYTHONUNBUFFERED": "1"}
    if kernels:
        variables["ODT_KERNELS"] = kernels
    printed, peak = "", 0.0
    with subprocess.Popen(
        words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        for text in process.stdout:
            printed += text
            # getrusage would not do: its peak begins with the memory of this process.
            with suppress(OSError, KeyError):
                peak = status("VmHWM", process.pid)
    if process.returncode:
        raise click.ClickException(f"against: {' '.join(words)} failed")
    return fastest_epoch(printed), peak


def line(title: str, turns: Sequence[tuple[Figures, Figures]]) -> str:
    """Formats a row of the table from the figures (before, now) of each turn."""
    before, now = (zip(*figures, strict=True) for figures in zip(*turns, strict=True))
    ms, mb = map(statistics.median, before)
    ms_now, mb_now = map(statistics.median, now)
    ratio = statistics.median(new_ms / old_ms for (old_ms, _), (new_ms, _) in turns)
    return f"| {title} | {ms:.3f} | {ms_now:.3f} | {ratio:.3f} | {mb:.1f} | {mb_now:.1f} |"


def install_commit(commit: str, out: Path) -> Path:
    """Installs a commit in an environment of its own; returns its `odt`."""
    git = ["git", "-C", str(ROOT)]
    result = subprocess.run(
        [*git, "rev-parse", "--short", f"{commit}^{{commit}}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode:
        raise click.BadParameter(f"COMMIT: must be a commit of this repository, but got {commit}")
    name = f"against-{result.stdout.strip()}"
    source = out / f"{name}-source"
    source.mkdir(parents=True, exist_ok=True)
    files = subprocess.run([*git, "archive", commit], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=files, check=True)
    system = System(name, "", needs=((str(source),),))
    if why := set_up(system, out):
        raise click.ClickException(f"{commit}: could not be installed: {why}")
    return system.python(out).with_name("odt")


@click.command()
@click.argument("commit")
@click.option("--repeat", type=int, help="Turns; 5 by default, 3 with --quick.")
@click.option("--quick", is_flag=True, help="Fewer turns.")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "bench-out")
def main(commit: str, repeat: int | None, quick: bool, out: Path) -> None:
    """Compares odt with COMMIT on eight rows."""
    repeat = repeat or (3 if quick else 5)
    commands = install_commit(commit, out), install(out).with_name("odt")
    click.echo(f"{commit} and the working tree, on {processor()}:\n")
    click.echo("| row | ms before | ms now | ratio | MB before | MB now |")
    click.echo("| --- | --- | --- | --- | --- | --- |")
    folder = out / "against"
    folder.mkdir(exist_ok=True)
    for row in ROWS:
        before, now = (command(odt, row, folder) for odt in commands)
        turns = [(train(before, row.kernels), train(now, row.kernels)) for _ in range(repeat)]
        click.echo(line(row.title, turns))


if __name__ == "__main__":
    main()
