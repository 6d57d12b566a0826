"""What `odt gen-datafile` prints: files, classes, skipped samples."""

import click

from odt.cli.output.spelling import spell
from odt.core.storage.reading import printable
from odt.datasets.generate import SplitFiles
from odt.errors import MAX_MESSAGE
from odt.text import quantity


def report(split: SplitFiles) -> None:
    """Prints the files, classes and skipped samples of one split."""
    click.echo(f"{split.name}: {quantity(split.samples, 'sample')}")
    roles = ("input", split.inputs), ("output", split.targets)
    # A split without targets has one file.
    for (role, specs), path in zip(roles, split.files, strict=False):
        scale = f", read as {split.scale}" if split.scale and role == "input" else ""
        click.echo(f"  {role:6} {path}: {', '.join(str(s) for s in specs)}{scale}")
    if split.balance:
        counts = ", ".join(f"{printable(name)} {count}" for name, count in split.balance.items())
        click.echo(f"  {'boxes' if split.boxes else 'classes'}: {counts}")
    if split.skipped:
        click.echo(f"  skipped: {split.skipped}", err=True)
        for reason in split.reasons:
            click.echo(f"    {printable(spell(reason), MAX_MESSAGE)}", err=True)
