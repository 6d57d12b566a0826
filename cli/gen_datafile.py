"""Make the data files that training reads, from published sets, pictures, tables and more."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np

from odt.cli.options import stack
from odt.core.datasets.arrays import ArrayOptions
from odt.core.datasets.download import download
from odt.core.datasets.generate import Made, Request, generate
from odt.core.datasets.labels import parse_label_map, relabel
from odt.core.datasets.likeness import Likeness, likeness
from odt.core.datasets.open import FORMATS, Opening, open_source
from odt.core.datasets.outputs import OUTPUTS
from odt.core.datasets.pictures import FITS, METHODS, Resize, parse_augmentation
from odt.core.datasets.preprocess import (
    COLOURS,
    MISSING,
    SCALES,
    Preprocessing,
    Targets,
    numbers,
)
from odt.core.datasets.published import PUBLISHED, open_published
from odt.core.datasets.select import Division, Wanted
from odt.core.datasets.sounds import Sound
from odt.core.datasets.source import Source
from odt.core.datasets.tables import TableOptions
from odt.core.datasets.teacher import Randomness, random_data
from odt.core.sidecar import DTYPES
from odt.errors import DataError, OptionError

# Options that take as many values as follow, as in ONE's tools.
LISTS = ("--split", "--length")
# tf_dataset_converter's profiles: the sets it allows, and its name for messages.
PROFILES = {
    "mnist": (("fashion_mnist", "mnist"), "Mnist"),
    "mobilenetv2": (("imagenet_a",), "MobileNetV2"),
}
FOLDER = click.Path(path_type=Path)


class GenDatafile(click.Command):
    """List options take several values after one name; `random` is a command of its own."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
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


source_options = stack(
    click.argument("name", required=False),
    click.option("--dataset-name", "-d", help="The same as NAME."),
    click.option("--data-dir", type=FOLDER, default="data", show_default=True, metavar="FOLDER",
                 help="Folder or archive with the set's files."),
    click.option("--variant", default="", help="Of emnist: balanced, letters, …; of cifar100: "
                 "fine, coarse."),
    click.option("--download", "fetch", is_flag=True, help="Fetch the set into --data-dir."),
    click.option("--source", metavar="PATH", help="Your own data: a folder or archive of pictures "
                 "or WAV files, a table, arrays, module:function, tfds:NAME, hf:NAME."),
    click.option("--target-source", type=FOLDER, help="A second file, with the targets."),
    click.option("--format", "form", type=click.Choice(FORMATS), default="auto",
                 show_default=True, help="Of --source."),
    click.option("--show-datasets", "-s", is_flag=True, help="List what NAME may be."),
)  # fmt: skip

reading_options = stack(
    click.option("--label-column", default="-1", show_default=True,
                 help="Of a table: name or number of the target's column, or none."),
    click.option("--header/--no-header", default=None, help="Whether the first line has names."),
    click.option("--delimiter", default="", help="Between cells, if not found."),
    click.option("--leave-out", multiple=True, help="A column that is no input."),
    click.option("--regression/--classification", default=None,
                 help="Whether targets are values or classes."),
    click.option("--x", default="", help="Of arrays: names of the inputs, commas between."),
    click.option("--y", default="", help="Of arrays: names of the targets."),
    click.option("--shape", default="", help="Of a sample in a raw file, such as 28x28x1."),
    click.option("--source-dtype", default="float32", help="Of a raw file.",
                 type=click.Choice(sorted(DTYPES))),
    click.option("--classes", default="", help="Names of the classes, commas between."),
    click.option("--rate", type=click.IntRange(0), default=16000, show_default=True,
                 help="Of WAV files, samples a second; 0 for any."),
    click.option("--seconds", type=click.FloatRange(0), default=1.0, show_default=True,
                 help="To which sounds are cut or filled."),
    click.option("--mel", type=click.IntRange(0), default=0, help="Log-mel with so many bands."),
    click.option("--frame", type=click.IntRange(1), default=512, show_default=True),
    click.option("--hop", type=click.IntRange(1), default=256, show_default=True),
    click.option("--frames", type=click.IntRange(0), default=0, help="At most so many."),
    click.option("--mel-range", default="300,8000", show_default=True, help="In Hz."),
)  # fmt: skip

step_options = stack(
    click.option("--like", type=click.Path(), metavar="MODEL",
                 help="Take shape, channels and dtype from a model, and check them."),
    click.option("--model", "-m", type=click.Choice(list(PROFILES)),
                 help="tf_dataset_converter's preprocessing."),
    click.option("--missing", type=click.Choice(MISSING), default="error", show_default=True),
    click.option("--color", "--colour", type=click.Choice(COLOURS)),
    click.option("--size", help="Of pictures, HEIGHTxWIDTH."),
    click.option("--resize", type=click.Choice(METHODS), default="bilinear", show_default=True),
    click.option("--fit", type=click.Choice(FITS), default="stretch", show_default=True),
    click.option("--scale", type=click.Choice(SCALES), help="[default: 0..1 for pictures]"),
    click.option("--mean", default="", help="By channel or feature, commas between."),
    click.option("--std", default="", help="Likewise."),
    click.option("--flatten", is_flag=True),
    click.option("--dtype", type=click.Choice(sorted(DTYPES))),
    click.option("--labels", type=click.Choice(["one-hot", "sparse"]), default="one-hot",
                 show_default=True),
    click.option("--label-map", help="OLD=NEW,… or a JSON file: renames and merges classes."),
    click.option("--augment", default="", help="flip, shift=PIXELS, crop=SHARE, noise=STD."),
    click.option("--augment-factor", type=click.IntRange(2), default=2, show_default=True,
                 help="How often each training sample is there."),
)  # fmt: skip

split_options = stack(
    click.option("--split", multiple=True,
                 help="Splits: names, or NAME=SHARE to divide anew.  [default: train test]"),
    click.option("--length", type=click.IntRange(1), multiple=True, help="Samples of each split."),
    click.option("--fold", help="K/N: test on the K-th of N parts."),
    click.option("--stratify/--no-stratify", default=None, help="Divide each class by itself."),
    click.option("--group-by", default="", help="What stays in one split: a column left out, or a "
                 "pattern for file names."),
    click.option("--shuffle/--no-shuffle", default=None),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
)  # fmt: skip

output_options = stack(
    click.option("--out-dir", "-o", type=FOLDER, default="out", show_default=True),
    click.option("--prefix-name", "-p", default="", help="Begins the names of the files."),
    click.option("--output-format", type=click.Choice(list(OUTPUTS)), default="raw",
                 show_default=True),
    click.option("--on-error", type=click.Choice(["stop", "skip"]), default="stop",
                 show_default=True, help="At a sample that cannot be read."),
    click.option("--workers", type=click.IntRange(1), help="Threads.  [default: all cores]"),
)  # fmt: skip


@click.command(cls=GenDatafile)
@source_options
@reading_options
@step_options
@split_options
@output_options
def command(**o: Any) -> None:
    """Make the data files that training reads.

    NAME is a published data set; --show-datasets lists them. For data of your own give --source
    instead. `odt gen-datafile random MODEL` makes random inputs and a model's outputs for them.
    docs/data.md has an example for each.
    """
    if o["show_datasets"]:
        click.echo("Dataset list :")
        click.echo("[" + ",\n".join(PUBLISHED) + "]")
        return
    like = likeness(o["like"]) if o["like"] else None
    splits = wanted(o["split"], o["length"])
    inputs = preprocessing_without_kind(o, like)
    source = opened(o)
    if o["label_map"]:
        source = relabel(source, parse_label_map(o["label_map"]))
    request = Request(
        splits=splits,
        out_dir=o["out_dir"],
        prefix=o["prefix_name"],
        division=Division(o["shuffle"], o["seed"], o["stratify"], o["group_by"], fold(o["fold"])),
        inputs=inputs(source),
        targets=Targets(source.classes, o["labels"] == "one-hot"),
        output=o["output_format"],
        skip=o["on_error"] == "skip",
        workers=o["workers"] or ((os.cpu_count() or 1) if source.decoded else 1),
        like=like,
    )
    with closing(Bar()) as bar:
        every = generate(source, request, bar)
    for made in every:
        report(made)
    click.echo("The data files are created!")


def opened(o: dict[str, Any]) -> Source:
    """The source that the options name."""
    if o["source"]:
        if o["name"] or o["dataset_name"]:
            raise OptionError("--source: stands in place of NAME. Leave one of them out.")
        low, high = (*numbers(o["mel_range"], "--mel-range"), 0.0, 0.0)[:2]
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
                o["on_error"] == "skip",
            )
        )  # fmt: skip
    name = o["name"] or o["dataset_name"] or "fashion_mnist"
    if o["model"] and name not in PROFILES[o["model"]][0]:
        raise DataError(f"{name} does not fit {PROFILES[o['model']][1]}.")
    if name not in PUBLISHED:
        return open_source(Opening(name, "tfds", data_dir=o["data_dir"]))
    if o["fetch"]:
        with closing(Bar("B")) as bar:
            download(PUBLISHED[name].files, o["data_dir"], bar)
    return open_published(name, o["data_dir"], o["variant"])


def preprocessing_without_kind(
    o: dict[str, Any], like: Likeness | None
) -> Callable[[Source], Preprocessing]:
    """The steps, but for what depends on the kind of source; options are checked at once."""
    augmentation = parse_augmentation(o["augment"], o["augment_factor"])
    mean, std = numbers(o["mean"], "--mean"), numbers(o["std"], "--std")
    if any(s <= 0 for s in std):
        raise OptionError(f"--std: must be above 0, but got {o['std']}.")
    size = shape(o["size"], "--size") if o["size"] else None
    if size is not None and len(size) != 2:
        raise OptionError(f"--size: must be HEIGHTxWIDTH, but got {o['size']}.")
    fit = o["fit"]
    if o["model"] == "mobilenetv2":
        size, fit = (224, 224), "crop-or-pad"

    def make(source: Source) -> Preprocessing:
        picture = source.kind == "image"
        target, colour, wanted_size = like.inputs[0] if like else None, o["color"], size
        if like is not None and picture and (found := like.picture_size()):
            wanted_size, colour = wanted_size or found, colour or like.colour()
        dtype = o["dtype"] or (target.dtype.name if target else "float32")
        whole = np.dtype(dtype).kind in "iu"
        return Preprocessing(
            missing=o["missing"],
            colour=colour or "keep",
            augmentation=augmentation,
            resize=Resize(*wanted_size, o["resize"], fit) if wanted_size else None,
            scale=o["scale"] or ("0..1" if picture and not whole else "none"),
            mean=mean,
            std=std,
            shape=target.shape if target and len(like.inputs if like else ()) == 1 else (),
            flatten=o["flatten"],
            dtype=np.dtype(dtype),
        )

    return make


def wanted(splits: Sequence[str], lengths: Sequence[int]) -> tuple[Wanted, ...]:
    """Splits with their lengths and shares.

    Raises:
        OptionError: if there are not as many of one as of the other, or a share is no number.
    """
    splits = splits or ("train", "test")
    if lengths and len(lengths) != len(splits):
        raise OptionError(
            f"length and split should have the same count, but got {len(lengths)} and "
            f"{len(splits)}."
        )
    every: list[Any] = [*lengths] or [None] * len(splits)
    result = []
    for text, length in zip(splits, every, strict=True):
        name, equals, share = text.partition("=")
        value = None
        if equals:
            (value,) = (*numbers(share, "--split"), 0.0)[:1]
            if not value > 0:
                raise OptionError(f"--split: a share must be above 0, but got {text}.")
        result.append(Wanted(name, length, value))
    return tuple(result)


def fold(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    k, _, n = text.partition("/")
    if not (k.isdecimal() and n.isdecimal()):
        raise OptionError(f"--fold: must be K/N, such as 1/5, but got {text}.")
    return int(k), int(n)


def shape(text: str, option: str) -> tuple[int, ...]:
    """From 28x28x1."""
    parts = text.lower().split("x") if text else []
    if not all(p.isdecimal() and int(p) for p in parts):
        raise OptionError(f"{option}: must be numbers with x between, but got {text}.")
    return tuple(int(p) for p in parts)


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
    if made.skipped:
        click.echo(f"  skipped: {made.skipped}", err=True)
        for reason in made.reasons:
            click.echo(f"    {reason}", err=True)


class Bar:
    """Progress on stderr where that is a terminal: one bar for each split."""

    def __init__(self, unit: str = " samples") -> None:
        self._unit = unit
        self._name = ""
        self._bar: Any = None

    def __call__(self, name: str, done: int, total: int | None) -> None:
        if not sys.stderr.isatty():
            return
        if name != self._name:
            from tqdm import tqdm

            self.close()
            self._name = name
            scale = self._unit == "B"
            self._bar = tqdm(desc=name, total=total, unit=self._unit, unit_scale=scale)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="[TOOL] MODEL")
@click.option("--input-name", "--input", "-i", default="input", show_default=True)
@click.option("--output-name", "--output", "-o", default="output", show_default=True)
@click.option("--data-length", "--num-runs", "-l", "-n", "length", type=click.IntRange(1),
              default=1, show_default=True, help="Samples.")  # fmt: skip
@click.option("--low", type=float, default=0.0, show_default=True)
@click.option("--high", type=float, default=1.0, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--output-format", type=click.Choice(list(OUTPUTS)), default="raw")
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
    """Make random inputs, and as expected outputs what MODEL makes of them.

    The files lie beside the model: MODEL.input.bin and MODEL.output.bin without its ending. TOOL,
    which ONE's script needs, is taken and ignored.
    """
    if len(paths) > 2 or not low < high:
        raise click.UsageError("give [TOOL] MODEL, and --low below --high.")
    base, ending = Path(paths[-1]).with_suffix(""), OUTPUTS[output_format].ending
    files = (Path(f"{base}.{input_name}.{ending}"), Path(f"{base}.{output_name}.{ending}"))
    with closing(Bar()) as bar:
        specs = random_data(
            paths[-1], files, length, Randomness(low, high, seed), output_format, bar
        )
    for path, role in zip(files, specs, strict=True):
        click.echo(f"{path}: {length} × {', '.join(str(s) for s in role)}")
    click.echo("Generated input and output files")
    click.echo("Done")
