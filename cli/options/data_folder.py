"""Option --data: a folder of odt gen-datafile, whose files replace --load-input and the like."""

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from odt.cli.options.sections import Decorator, Option, usual_name
from odt.core.options.option import DATA
from odt.core.storage.reading import listed
from odt.errors import DataError, OdtError

# Parameters of commands that name data files → kind of file.
FILES = {"load_input": "input", "load_expected": "output", "calibrate": "input"}
VALIDATION = {"validation_input": "input", "validation_expected": "output"}


class DataFolder(Option):
    """Option whose folder gives the values of other options that name data files.

    Args:
        part: part of the data that the command reads, such as train.
        validated: whether the part validation gives the validation samples.
    """

    def __init__(self, *args: Any, part: str, validated: bool, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.part = part
        self.validated = validated

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Makes the files of the folder the defaults of the options that name them.

        Raises:
            OdtError: if such an option is given, too.
            DataError: if the folder has no such files, or such an option names a folder.
        """
        folder = opts.get(str(self.name))
        flags = {p.name: usual_name(p) for p in ctx.command.params}
        kinds = {name: kind for name, kind in FILES.items() if name in flags}
        for name in kinds:
            if folder is None and os.path.isdir(path := opts.get(name) or ""):
                raise DataError(
                    f"{flags[name]}: must be a file, but {path} is a folder. Pass a folder of odt "
                    f"gen-datafile as --data {path}."
                )
        if folder is not None:
            for name in (*kinds, "source"):
                if opts.get(name) is not None:
                    raise OdtError(
                        f"--data: must be given without {flags[name]}, but got both. Leave one out."
                    )
            paths = {name: file_of(folder, self.part, kind) for name, kind in kinds.items()}
            defaults = dict(ctx.default_map or {})
            if self.validated and not any(
                opts.get(name) or defaults.get(name) for name in (*VALIDATION, "validation_split")
            ):
                validation = {
                    name: find_file(folder, "validation", k) for name, k in VALIDATION.items()
                }
                if all(validation.values()):
                    paths |= validation
            ctx.default_map = defaults | paths
        return super().handle_parse_result(ctx, opts, args)


def data_folder(part: str, *, validated: bool = False, section: str = DATA) -> Decorator:
    """Returns the option --data; `part` and `validated` are those of DataFolder."""
    also = ", and its split validation if there is one" if validated else ""
    return click.option(
        "--data",
        "data_folder",
        cls=partial(DataFolder, part=part, validated=validated),  # type: ignore[arg-type]
        section=section,
        common=True,
        expose_value=False,
        type=click.Path(),
        metavar="DIR",
        help=f"Folder of odt gen-datafile: its split {part} is read{also}.",
    )


def file_of(folder: str, part: str, kind: str) -> str:
    """Returns the data file of a part.

    Args:
        folder: folder of `odt gen-datafile`.
        part: such as train.
        kind: input or output.

    Raises:
        DataError: if there is none, or several.
    """
    path = find_file(folder, part, kind)
    if path:
        return path
    if not os.path.isdir(folder):
        raise DataError(f"--data {folder}: must be a folder, but is none.")
    files = [name for name in _names(folder) if re.search(r"\.(input|output)", name)]
    parts = sorted({name.partition(".")[0] for name in files})
    raise DataError(
        f"--data {folder}: must hold one file {part}.{kind}… of odt gen-datafile, but has files of "
        f"the parts: {listed(parts) or 'none'}. Give other files with their own options."
    )


def find_file(folder: str, part: str, kind: str) -> str:
    """Returns the data file of a part; empty if there is none or several."""
    names = [name for name in _names(folder) if name.startswith(f"{part}.{kind}")]
    return os.path.join(folder, names[0]) if len(names) == 1 else ""


def _names(folder: str) -> list[str]:
    """Returns the names of the data files in a folder; empty if it cannot be read."""
    try:
        return [name for name in os.listdir(folder) if not name.endswith(".json")]
    except OSError:
        return []
