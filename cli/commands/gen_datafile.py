"""Make data files for training from published data sets, images, sounds, tables and arrays."""

import difflib
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np

from odt.cli.options.datafile import (
    ONES_LENGTHS,
    PROFILES,
    output_options,
    reading_options,
    source_options,
    split_options,
    step_options,
)
from odt.cli.options.sections import Command
from odt.cli.output.progress import Progress
from odt.cli.output.spelling import spell
from odt.core.datasets.arrays import ArrayOptions
from odt.core.datasets.data_writers import OUTPUTS
from odt.core.datasets.download import download
from odt.core.datasets.generate import Made, Request, generate
from odt.core.datasets.labels import parse_label_map, relabel
from odt.core.datasets.model_signature import ModelSignature, read_signature
from odt.core.datasets.open_source import open_source
from odt.core.datasets.pictures import Resize, parse_augmentation
from odt.core.datasets.preprocess import Preprocessing, Targets, numbers
from odt.core.datasets.published import PUBLISHED, open_published
from odt.core.datasets.sounds import Sound
from odt.core.datasets.source import Source
from odt.core.datasets.source_format import Opening
from odt.core.datasets.splits import Division, Wanted
from odt.core.datasets.synthetic import Randomness, synthetic_data
from odt.core.datasets.tables import TableOptions
from odt.core.lowering.lowered_model import lower_model
from odt.core.model.reader import read_model
from odt.core.storage.reading import printable
from odt.core.training.inference import Predictor
from odt.errors import MOST, DataError, OdtError

# Options that take all values that follow, as in ONE's tools.
LISTS = ("--split", "--length")
BATCH = 16  # samples that `random` computes at once


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
    result: list[str] = []
    option = None
    for arg in args:
        if arg in LISTS:
            option = arg
            continue
        if arg.startswith("-") or (option == "--length" and not arg.isdecimal()):
            option = None
        result += [arg] if option is None else [option, arg]
    return result


@click.command(cls=GenDatafile)
@source_options
@reading_options
@step_options
@split_options
@output_options
def command(**o: Any) -> None:
    """Make data files for training.

    NAME is a published data set (--show-datasets lists them), fashion_mnist if left out, as in
    ONE's tool. For your own data give --source instead. `odt gen-datafile random MODEL` makes
    random inputs and the model's outputs for them. docs/data.md has an example of each source.
    """
    if o["show_datasets"]:
        click.echo("Dataset list :")
        click.echo("[" + ",\n".join(PUBLISHED) + "]")
        return
    like = read_signature(o["like"]) if o["like"] else None
    splits = wanted(o["split"] or ("train", "test"), lengths(o))
    steps = Steps(o, like)
    source = opened(o, steps.early_resize())
    if o["label_map"]:
        source = relabel(source, parse_label_map(o["label_map"]))
    request = Request(
        splits=splits,
        out_dir=o["out_dir"],
        prefix=o["prefix_name"],
        division=Division(o["shuffle"], o["seed"], o["stratify"], o["group_by"], fold(o["fold"])),
        inputs=steps.of(source),
        targets=Targets(source.classes, o["labels"] == "one-hot"),
        output=o["output_format"],
        skip=o["on_error"] == "skip",
        workers=o["workers"] or ((os.cpu_count() or 1) if source.decoded else 1),
        like=like,
    )
    with closing(Progress()) as bar:
        every = generate(source, request, bar)
    for made in every:
        report(made)
    click.echo("The data files are created!")


def opened(o: dict[str, Any], resize: Resize | None) -> Source:
    """Opens the data source that the options select."""
    if o["source"]:
        if o["name"] or o["dataset_name"]:
            raise OdtError(
                "--source: must be given without NAME, but got both. Leave one of them out."
            )
        low, high = (*numbers(o["mel_range"], "mel_range"), 0.0, 0.0)[:2]
        sound = Sound(
            o["rate"], o["seconds"], o["mel"], o["frame"], o["hop"], o["frames"], low, high
        )
        classes = tuple(o["classes"].split(",")) if o["classes"] else ()
        table = TableOptions(
            o["label_column"], o["header"], o["delimiter"], o["leave_out"], o["regression"],
            o["missing"] == "drop", o["on_error"] == "skip",
        )  # fmt: skip
        arrays = ArrayOptions(
            o["x"], o["y"], classes, o["regression"], shape(o["shape"], "--shape"),
            o["source_dtype"],
        )  # fmt: skip
        return open_source(
            Opening(
                o["source"], o["form"], o["target_source"], None, table, arrays, sound,
                o["on_error"] == "skip", resize,
            )
        )  # fmt: skip
    if o["fetch"] and not (o["name"] or o["dataset_name"]):
        raise OdtError("--download: must be given with the NAME of a data set, but got none.")
    name = published_name(o["name"] or o["dataset_name"] or "fashion_mnist")
    if o["model"] and name not in PROFILES[o["model"]][0]:
        raise DataError(f"{name} does not fit {PROFILES[o['model']][1]}.")
    if name not in PUBLISHED:
        return open_source(Opening(name, "tfds", data_dir=o["data_dir"]))
    if o["fetch"]:
        with closing(Progress("B")) as bar:
            download(PUBLISHED[name].files, o["data_dir"], bar)
    return open_published(name, o["data_dir"], o["variant"])


def published_name(text: str) -> str:
    """Returns the name of a published data set in odt's spelling, or unchanged for a builder.

    Raises:
        OdtError: if the text is a file or another name.
    """
    name = text.lower().replace("-", "_")
    if name in PUBLISHED:
        return name
    if Path(text).exists() or Path(text).suffix:
        raise OdtError(
            f"{text}: must be the name of a published data set ({', '.join(PUBLISHED)}). "
            f"For your own data give --source {text}."
        )
    if close := difflib.get_close_matches(name, PUBLISHED, 1, 0.8):
        raise OdtError(
            f"{text}: must be one of {', '.join(PUBLISHED)}. Did you mean {close[0]}? For "
            f"TensorFlow Datasets give --source tfds:{text}."
        )
    return text


class Steps:
    """Preprocessing steps from the options and --like. The constructor checks the options."""

    def __init__(self, o: dict[str, Any], like: ModelSignature | None) -> None:
        self._o = o
        self._like = like
        self._augmentation = parse_augmentation(o["augment"], o["augment_factor"])
        self._mean, self._std = numbers(o["mean"], "mean"), numbers(o["std"], "std")
        if any(s <= 0 for s in self._std):
            raise OdtError(f"--std: must be above 0, but got {o['std']}.")
        size = shape(o["size"], "--size") if o["size"] else None
        if size is not None and len(size) != 2:
            raise OdtError(f"--size: must be HEIGHTxWIDTH, but got {o['size']}.")
        fit = o["fit"]
        if o["model"] == "mobilenetv2":
            size, fit = (224, 224), "crop-or-pad"
        if size is None and like is not None:
            size = like.picture_size()
        self._resize = Resize(*size, o["resize"], fit) if size else None
        self._colour = o["color"] or (like.colour() if like else "keep")

    def early_resize(self) -> Resize | None:
        """Returns the resize that decoding can do, if no other step comes before it."""
        a = self._augmentation
        moves = a is not None and (a.flip or a.shift or a.crop)
        return None if moves or self._colour == "grayscale" else self._resize

    def of(self, source: Source) -> Preprocessing:
        """Returns the preprocessing for the samples of a source."""
        picture = source.kind == "image"
        target = self._like.inputs[0] if self._like else None
        dtype = np.dtype(self._o["dtype"] or (target.dtype if target else np.float32))
        whole = (
            dtype.kind in "iu" and not self._o["dtype"]
        )  # integer inputs of the model take 0 … 255
        return Preprocessing(
            missing=self._o["missing"],
            colour=self._colour if picture else "keep",
            augmentation=self._augmentation,
            resize=self._resize if picture else None,
            scale=self._o["scale"] or ("0..1" if picture and not whole else "none"),
            mean=self._mean,
            std=self._std,
            shape=target.shape if target and self._like and len(self._like.inputs) == 1 else (),
            flatten=self._o["flatten"],
            dtype=dtype,
        )


def lengths(o: dict[str, Any]) -> tuple[int, ...]:
    """Returns the length of each split: --length, ONE's earlier options, or ONE's defaults."""
    former = (o["train_length"], o["test_length"])
    if any(former):
        if o["length"] or o["split"] not in ((), ("train", "test")):
            raise OdtError(
                "--train-length, --test-length: must be given without --split and --length, but "
                "got both. Give --split and --length."
            )
        return tuple(n or usual for n, usual in zip(former, ONES_LENGTHS, strict=True))
    names = [s for s in o["split"] if "=" not in s]
    if o["model"] and not o["length"] and len(o["split"]) == len(names) in (0, 2):
        return ONES_LENGTHS
    return tuple(o["length"])


def wanted(splits: Sequence[str], lengths: Sequence[int]) -> tuple[Wanted, ...]:
    """Parses splits with their lengths and fractions.

    Raises:
        OdtError: if the counts differ, or a fraction is not a number.
    """
    if lengths and len(lengths) != len(splits):
        raise OdtError(
            f"length and split should have the same count, but got {len(lengths)} and "
            f"{len(splits)}."
        )
    every: list[Any] = [*lengths] or [None] * len(splits)
    result = []
    for text, length in zip(splits, every, strict=True):
        name, equals, fraction = text.partition("=")
        value = None
        if equals:
            (value,) = (*numbers(fraction, "split"), 0.0)[:1]
            if not value > 0 or ("." in fraction and value > 1):
                raise OdtError(
                    "--split: must be NAME=FRACTION, such as test=0.2, or NAME=SAMPLES, such as "
                    f"test=500, but got {text}."
                )
            value = value if "." in fraction else int(value)
        result.append(Wanted(name, length, value))
    return tuple(result)


def fold(text: str | None) -> tuple[int, int] | None:
    """Parses the K/N of --fold."""
    if text is None:
        return None
    k, _, n = text.partition("/")
    if not (k.isdecimal() and n.isdecimal()):
        raise OdtError(f"--fold: must be K/N, such as 1/5, but got {text}.")
    return int(k), int(n)


def shape(text: str, option: str) -> tuple[int, ...]:
    """Parses a shape such as 28x28x1."""
    parts = text.lower().split("x") if text else []
    if not all(p.isdecimal() and int(p) for p in parts):
        raise OdtError(f"{option}: must be numbers with x between, but got {text}.")
    return tuple(int(p) for p in parts)


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
    "--low", type=float, default=0.0, show_default=True, help="Lower bound of the inputs."
)
@click.option(
    "--high", type=float, default=1.0, show_default=True, help="Upper bound of the inputs."
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
    base, ending = Path(paths[-1]).with_suffix(""), OUTPUTS[output_format].ending
    files = (Path(f"{base}.{input_name}.{ending}"), Path(f"{base}.{output_name}.{ending}"))
    graphs, randomness = lower_model(read_model(paths[-1])).graphs, Randomness(low, high, seed)
    with closing(Progress()) as bar, Predictor(graphs, min(BATCH, length), workers=1) as predictor:
        specs = synthetic_data(predictor, paths[-1], files, length, randomness, output_format, bar)
    for path, role in zip(files, specs, strict=True):
        click.echo(f"{path}: {length} × {', '.join(str(s) for s in role)}")
    click.echo("Generated input and output files")
    click.echo("Done")
