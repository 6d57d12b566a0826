"""Show checkpoints, and convert them between formats."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

import odt
from odt.cli.output.output_paths import check_outputs
from odt.core.checkpoints.checkpoint import Checkpoint
from odt.core.checkpoints.files import FORMATS, decode_any, format_of
from odt.core.checkpoints.onert_checkpoint import contents
from odt.core.checkpoints.resume import read_checkpoint
from odt.core.formats.reader import read_model
from odt.core.storage.reading import printable
from odt.errors import OdtError, OptionError

LINE = 10_000  # characters shown of a value

model_option = click.option(
    "--model",
    type=click.Path(),
    metavar="MODEL",
    help="The trained model. onert checkpoints need it, because they hold no tensor names.",
)


@click.group()
def command() -> None:
    """Show checkpoints, and convert them between odt's format, onert's, .npz and .h5."""


@command.command()
@click.argument("file", type=click.Path())
@model_option
def show(file: str, model: str | None) -> None:
    """Print the contents of the checkpoint FILE."""
    data = read_checkpoint(file)
    if format_of(data) == "onert" and model is None:
        click.echo("\n".join(_sizes(*contents(data, file))))
        return
    checkpoint = decode_any(data, file, read_model(model) if model else None)
    click.echo("\n".join(line.rstrip() for line in describe(checkpoint, format_of(data))))


@command.command()
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("target", metavar="OUT", type=click.Path())
@model_option
@click.option(
    "--nominal", "names_only", is_flag=True, help="Write names and shapes only, without values."
)
def convert(source: str, target: str, model: str | None, names_only: bool) -> None:
    """Convert the checkpoint IN to OUT.

    The extension of OUT selects the format: .odt, .npz, .h5; any other selects onert's.
    """
    check_outputs({"OUT": target}, {"IN": source, "--model": model})
    is_onert = Path(target).suffix.lower() not in FORMATS
    if is_onert and names_only:
        raise OdtError(
            f"--nominal: must go with {', '.join(FORMATS)}, but got {target}. "
            "onert's format has no names."
        )
    file = odt.load_model(model) if model else None
    state = odt.CheckpointState.load(source, file)
    if is_onert and file is None:
        rule = "must be given, because onert's checkpoints hold no tensor names"
        raise OptionError("model", rule, "none")
    nominal = names_only or (state.is_nominal and not is_onert)
    state.save(target, trainable_only=False, nominal=nominal, model=file)


def describe(checkpoint: Checkpoint, kind: str) -> list[str]:
    """Describes a checkpoint, line by line."""
    lines = [f"format: {kind}", f"optimizer: {printable(checkpoint.optimizer)}"]
    lines += _values(checkpoint.hyper_parameters)
    lines += ["progress:", *_values(asdict(checkpoint.progress))]
    if checkpoint.properties:
        lines += ["properties:", *_values({k: repr(v) for k, v in checkpoint.properties.items()})]
    total = sum(e.nbytes for e in checkpoint.entries)
    contents = "names and shapes only" if checkpoint.is_nominal else f"{total:,} bytes"
    lines.append(f"arrays: {len(checkpoint.entries)}, {contents}")
    names = [(printable(e.tensor), printable(e.role)) for e in checkpoint.entries]
    width = max((len(name) for name, _ in names), default=0)
    roles = max((len(role) for _, role in names), default=0)
    return lines + [
        f"  {name:{width}}  {role:{roles}}  {e.dtype} {list(e.shape)}"
        for (name, role), e in zip(names, checkpoint.entries, strict=True)
    ]


def _values(values: Mapping[str, object]) -> list[str]:
    return [f"  {printable(k)} = {printable(v, LINE)}" for k, v in values.items()]


def _sizes(step: int, sizes: Mapping[str, Sequence[int]]) -> list[str]:
    """Describes an onert checkpoint without its model."""
    optimizer = "adam" if "m" in sizes else "sgd"
    count = len(sizes["weight"])
    lines = ["format: onert", f"optimizer: {optimizer}", f"  step = {step}", f"tensors: {count}"]
    return lines + [
        f"  {k}  " + ", ".join(f"{role} {each[k]:,} bytes" for role, each in sizes.items())
        for k in range(count)
    ]
