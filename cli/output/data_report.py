"""What `odt gen-datafile` prints: files, classes, skipped samples."""

import click

from odt.cli.output.spelling import spell
from odt.core.storage.reading import printable
from odt.datasets.generate import Made
from odt.errors import MOST


def report(made: Made) -> None:
    """Prints the files, classes and skipped samples of one split."""
    click.echo(f"{made.name}: {made.samples} samples")
    for role, path, specs in zip(
        ("input", "output"), made.files, (made.inputs, made.targets), strict=False
    ):
        left = f", read as {made.scale}" if made.scale and role == "input" else ""
        click.echo(f"  {role:6} {path}: {', '.join(str(s) for s in specs)}{left}")
    if made.balance:
        counts = ", ".join(f"{printable(name)} {count}" for name, count in made.balance.items())
        click.echo(f"  classes: {counts}")
    if made.skipped:
        click.echo(f"  skipped: {made.skipped}", err=True)
        for reason in made.reasons:
            click.echo(f"    {printable(spell(reason), MOST)}", err=True)
