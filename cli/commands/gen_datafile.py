"""Make data files for training from published data sets, images, sounds, tables and arrays."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from odt.cli.options.completion import complete_words
from odt.cli.options.datafile import DatafileOptions
from odt.cli.options.datafile_record import recorded_request
from odt.cli.options.datafile_source import like_sounds, open_selected
from odt.cli.options.datafile_splits import (
    checked_splits,
    default_splits,
    fold,
    lengths,
    parse_splits,
    unlabelled,
)
from odt.cli.options.datafile_steps import Steps
from odt.cli.options.fits import check_samples
from odt.cli.options.rows import declared_options, group
from odt.cli.options.sections import Command
from odt.cli.options.shared import errors_as
from odt.cli.options.types import Finite
from odt.cli.output.data_report import report
from odt.cli.output.signals import undo_on_signals
from odt.cli.output.spelling import spell
from odt.datasets.data_writers import OUTPUTS
from odt.datasets.generate import Request, generate
from odt.datasets.labels import class_names, order_classes, parse_label_map, relabel
from odt.datasets.model_signature import read_signature
from odt.datasets.preprocess import FLOAT32, Targets
from odt.datasets.published import PUBLISHED
from odt.datasets.source import Source
from odt.datasets.splits import Division
from odt.datasets.synthetic import Randomness, synthetic_data
from odt.progress import Progress

# Options that take all values that follow, as in ONE's tools.
LISTS = ("--split", "--length")
FORMER_LENGTHS = ("train_length", "test_length")  # ONE's earlier options for --length


class GenDatafile(Command):
    """Command whose list options take several values after one name, with a subcommand `random`."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parses the arguments; the subcommand `random` parses those after its name."""
        if args[:1] == ["random"]:
            return random.make_context(f"{info_name} random", args[1:], parent, **extra)
        return super().make_context(info_name, spread(args), parent, **extra)


def spread(args: Sequence[str]) -> list[str]:
    """Repeats the name of a list option before each of its values."""
    words: list[str] = []
    option = None
    for arg in args:
        if arg in LISTS:
            option = arg
            continue
        if arg.startswith("-") or (option == "--length" and not arg.isdecimal()):
            option = None
        words += [arg] if option is None else [option, arg]
    return words


@click.command(cls=GenDatafile)
@click.argument("name", required=False, shell_complete=complete_words(lambda: PUBLISHED))
@declared_options(DatafileOptions)
def command(**values: Any) -> None:
    """Make data files for training.

    NAME is a published data set (--show-datasets lists them), fashion_mnist if left out, as in
    ONE's tool. For your own data give --source instead. `odt gen-datafile random MODEL` makes
    random inputs and the model's outputs for them. odt docs data has an example of each source.
    """
    options = group(DatafileOptions, values)
    if options.show_datasets:
        click.echo("Dataset list :")
        click.echo("[" + ",\n".join(PUBLISHED) + "]")
        return
    if options.as_record:
        source, request = recorded_request(options.as_record, options)
    else:
        source, request = request_of(options)
    request = replace(
        request,
        output=options.output_format,
        skip=options.on_error == "skip",
        workers=options.workers or ((os.cpu_count() or 1) if source.decoded else 1),
    )
    former = FORMER_LENGTHS if options.train_length or options.test_length else ()
    with undo_on_signals(), closing(Progress()) as bar, errors_as("length", former):
        splits = generate(source, request, bar)
    for split in splits:
        report(split)
    for note in (*source.notes, *source.remark_notes()):
        click.echo(spell(note), err=True)
    click.echo("The data files are created!")


def request_of(options: DatafileOptions) -> tuple[Source, Request]:
    """Returns the source and the request that the options describe."""
    like = read_signature(options.like) if options.like else None
    options = like_sounds(options, like)
    splits = parse_splits(options.split, lengths(options))
    steps = Steps(options, like)
    source = open_selected(options, steps.early_resize(), steps.resize)
    check_samples(source, steps.moves())
    if options.label_map:
        source = relabel(source, parse_label_map(options.label_map))
    if options.classes and source.classes:
        source = order_classes(source, class_names(options.classes))
    inputs = steps.preprocessing(source)
    if note := steps.note(source, inputs):
        source = replace(source, notes=(*source.notes, note))
    splits = splits or default_splits(source, lengths(options), options)
    shuffle = False if options.shuffle is None and unlabelled(options) else options.shuffle
    division = Division(
        shuffle, options.seed, options.stratify, options.group_by, fold(options.fold, splits)
    )
    source = checked_splits(source, splits, division, options)
    request = Request(
        splits=splits,
        out_dir=options.out_dir,
        prefix=options.prefix_name,
        division=division,
        inputs=inputs,
        targets=Targets(
            source.classes,
            options.labels == "one-hot",
            tuple(source.boxes.get("classes", ())),
            source.dtype or FLOAT32,
        ),
        like=like,
        drop_targets=options.missing_target == "drop",
    )
    return source, request


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="[TOOL] MODEL")
@click.option(
    "--input-name",
    "--input",
    "-i",
    default="input",
    show_default=True,
    help="Name of the input file.",
)
@click.option(
    "--output-name",
    "--output",
    "-o",
    default="output",
    show_default=True,
    help="Name of the output file.",
)
@click.option("--data-length", "--num-runs", "-l", "-n", "length", type=click.IntRange(1),
              default=1, show_default=True, help="Number of samples.")  # fmt: skip
@click.option(
    "--low", type=Finite(), default=0.0, show_default=True, help="Lower bound of the inputs."
)
@click.option(
    "--high", type=Finite(), default=1.0, show_default=True, help="Upper bound of the inputs."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--output-format", type=click.Choice(list(OUTPUTS)), default="raw", help="File format."
)
def random(
    paths: tuple[str, ...],
    input_name: str,
    output_name: str,
    length: int,
    low: float,
    high: float,
    seed: int,
    output_format: str,
) -> None:
    """Make random inputs, and expected outputs: the outputs of MODEL for them.

    The files are written next to the model: model.input.bin and model.output.bin. TOOL, which
    ONE's script requires, is ignored.
    """
    if len(paths) > 2 or not low < high:
        raise click.UsageError("must be given [TOOL] MODEL, and --low below --high.")
    base = Path(paths[-1]).with_suffix("")
    ending = OUTPUTS[output_format].ending
    files = (Path(f"{base}.{input_name}.{ending}"), Path(f"{base}.{output_name}.{ending}"))
    randomness = Randomness(low, high, seed)
    with undo_on_signals(), closing(Progress()) as bar:
        specs = synthetic_data(paths[-1], files, length, randomness, output_format, bar)
    for path, role in zip(files, specs, strict=True):
        click.echo(f"{path}: {length} × {', '.join(str(s) for s in role)}")
    click.echo("Generated input and output files")
    click.echo("Done")
