"""What must be true of the files that a command writes.

None may be one that is read, or another that is written; none may end as what it is not.
"""

import os
from collections.abc import Collection, Mapping

from odt.errors import OptionError

FORMATS = {".circle": "circle", ".tflite": "tflite"}  # of models, by a name's ending


def check_outputs(
    written: Mapping[str, str | None],
    read: Mapping[str, str | None],
    replaces: Collection[tuple[str, str]] = (),
) -> None:
    """Refuses to write over what a command reads or writes besides.

    Args:
        written: paths by option, None for what was left out.
        read: likewise.
        replaces: pairs of names, an output and an input that it may take the place of.

    Raises:
        OptionError: if two of them are one file.
    """
    others = dict(read)
    for name, path in written.items():
        for other, its in others.items():
            if path and its and (name, other) not in replaces and _same(path, its):
                raise OptionError(
                    f"{name} {path}: must be a file of its own, but got that of {other}. "
                    "Give another name."
                )
        others[name] = path


def check_ending(name: str, path: str, kind: str) -> None:
    """Refuses a model file whose ending says the other format; any other ending will do.

    Args:
        name: of the option or argument.
        path: of the file.
        kind: what it will be, circle, circle+ or tflite.

    Raises:
        OptionError: if the ending is the other format's.
    """
    wanted = f".{kind.rstrip('+')}"
    ending = os.path.splitext(path)[1].lower()
    if ending in FORMATS and ending != wanted:
        raise OptionError(
            f"{name} {path}: must not end as another format, for it is {kind}, but got {ending}. "
            f"Give a name in {wanted}."
        )


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # a null byte; who opens it says so
        return False
