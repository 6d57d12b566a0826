"""Make the data files that training reads, from published sets, pictures, tables and more."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from odt.core.datasets.generate import Made, Request, Wanted, generate
from odt.core.datasets.preprocess import Preprocessing, Targets
from odt.core.datasets.published import PUBLISHED, open_published
from odt.errors import DataError, OptionError

# Options that take as many values as follow, as in ONE's tools.
LISTS = ("--split", "--length")


class Listing(click.Command):
    """A command whose list options take several values after one name: --length 1000 100."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread(args))


def spread(args: Sequence[str]) -> list[str]:
    """Repeats the name of a list option before each of its values."""
    result: list[str] = []
    option = None
    for arg in args:
        if arg in LISTS:
            option = arg
        elif arg.startswith("-") or (option == "--length" and not arg.isdecimal()):
            option = None
            result.append(arg)
        else:
            result += [arg] if option is None else [option, arg]
    return result


@click.command(cls=Listing)
@click.argument("name", required=False)
@click.option("--dataset-name", "-d", help="The same as NAME.")
@click.option("--data-dir", type=click.Path(path_type=Path), default="data", show_default=True)
@click.option("--out-dir", "-o", type=click.Path(path_type=Path), default="out", show_default=True)
@click.option("--prefix-name", "-p", default="", help="Begins the names of the files.")
@click.option("--split", multiple=True, help="Which splits.  [default: train test]")
@click.option("--length", type=click.IntRange(1), multiple=True, help="Samples of each split.")
@click.option("--show-datasets", "-s", is_flag=True, help="List what NAME may be.")
def command(
    name: str | None,
    dataset_name: str | None,
    data_dir: Path,
    out_dir: Path,
    prefix_name: str,
    split: tuple[str, ...],
    length: tuple[int, ...],
    show_datasets: bool,
) -> None:
    """Make the data files that training reads.

    NAME is a published data set; --show-datasets lists them. Its files are looked for in the
    folder or archive of --data-dir.
    """
    if show_datasets:
        show()
        return
    name = name or dataset_name or "fashion_mnist"
    if name not in PUBLISHED:
        raise DataError(f"{name}: must be one of {', '.join(PUBLISHED)}.")
    source = open_published(name, data_dir)
    request = Request(
        wanted(split, length),
        out_dir,
        prefix_name,
        Preprocessing(scale="0..1"),
        Targets(source.classes),
    )
    for made in generate(source, request, lambda split, done, total: None):
        report(made)


def show() -> None:
    click.echo("Dataset list :")
    click.echo("[" + ",\n".join(PUBLISHED) + "]")


def wanted(splits: Sequence[str], lengths: Sequence[int]) -> tuple[Wanted, ...]:
    """Splits with their lengths.

    Raises:
        OptionError: if there are not as many of one as of the other.
    """
    splits = splits or ("train", "test")
    if lengths and len(lengths) != len(splits):
        raise OptionError(
            f"length and split should have the same count, but got {len(lengths)} and "
            f"{len(splits)}."
        )
    every: list[Any] = [*lengths] or [None] * len(splits)
    return tuple(Wanted(s, n) for s, n in zip(splits, every, strict=True))


def report(made: Made) -> None:
    """Says what one split has become."""
    click.echo(f"{made.name}: {made.samples} samples")
    for role, path, specs in zip(
        ("input", "output"), made.files, (made.inputs, made.targets), strict=True
    ):
        click.echo(f"  {role:6} {path}: {', '.join(str(s) for s in specs)}")
    if made.balance:
        counts = ", ".join(f"{name} {count}" for name, count in made.balance.items())
        click.echo(f"  classes: {counts}")
