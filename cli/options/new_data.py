"""Options of `odt predict` and `odt eval` for new photos, sounds and tables: --source and --as."""

import re
import sys
from collections.abc import Iterator
from typing import IO, cast

import click

from odt.cli.options.sections import combine, option
from odt.cli.output.spelling import spell
from odt.core.options.option import DATA
from odt.datasets.frames import JPEG, RAW, read_frames
from odt.errors import OdtError
from odt.kernels.rows.opdef import Array

STDIN = "-"

new_data_options = combine(
    option(
        DATA,
        "--source",
        common=True,
        metavar="PATH",
        help="New data: an image, a sound, a table, or a folder or archive of files. They are "
        "prepared according to the preprocessing record in MODEL.",
    ),
    option(
        DATA,
        "--as",
        "as_record",
        type=click.Path(),
        metavar="RECORD|MODEL",
        help="Take the preprocessing record for --source from the JSON file of training data, or "
        "from another model.",
    ),
)

frame_options = combine(
    option(
        DATA,
        "--frame-size",
        metavar="WIDTHxHEIGHT",
        help="Size of raw camera frames on standard input (--source -).",
    ),
    option(
        DATA,
        "--pixel-format",
        type=click.Choice([*RAW, JPEG]),
        help="Format of the frames.  [default: rgb24 with --frame-size, else jpeg]",
    ),
)


def show_note(note: str) -> None:
    """Prints a note about the model or the samples."""
    click.echo(spell(note), err=True)


def refuse_both(source: str | None, files: str | None, as_record: str | None) -> None:
    """Raises OdtError for --source beside --load-input, and for --as without --source."""
    if source and files:
        raise OdtError("--source: must be given without --load-input, but got both.")
    if as_record and not source:
        raise OdtError("--as: must be given with --source, but got it alone.")


def camera_frames(frame_size: str | None, pixel_format: str | None) -> Iterator[Array]:
    """Returns the frames on standard input.

    Raises:
        OdtError: if the size is missing or no size.
    """
    form = pixel_format or ("rgb24" if frame_size else JPEG)
    if form == JPEG:
        return read_frames(_stdin(), JPEG)
    size = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", frame_size or "")
    if size is None:
        raise OdtError(
            f"--frame-size: must be WIDTHxHEIGHT for {form}, such as 640x480, but got "
            f"{frame_size or 'none'}."
        )
    width, height = map(int, size.groups())
    return read_frames(_stdin(), form, height, width)


def _stdin() -> IO[bytes]:
    """Standard input, without waiting for more bytes than there are."""
    stream = sys.stdin.buffer
    return cast(IO[bytes], getattr(stream, "raw", stream))
