"""Checks of output paths: no file is read and written or written twice, extensions fit formats."""

import os
from collections.abc import Collection, Mapping

from odt.core.model.model import OTHER_SUFFIXES
from odt.errors import OdtError

FORMATS = {".circle": "circle", ".tflite": "tflite"}  # file name extension → model format
ONNX_ENDING = ".onnx"


def check_outputs(
    written: Mapping[str, str | None],
    read: Mapping[str, str | None],
    replaces: Collection[tuple[str, str]] = (),
) -> None:
    """Refuses to overwrite an input or another output.

    Args:
        written: output paths by option, None for an option that was left out.
        read: input paths, in the same form.
        replaces: pairs of an output and an input that it may overwrite.

    Raises:
        OdtError: if two paths are the same file.
    """
    others = dict(read)
    for name, path in written.items():
        for other, read_path in others.items():
            if path and read_path and (name, other) not in replaces and _same(path, read_path):
                raise OdtError(
                    f"{name} {path}: must be a file of its own, but got the file of {other}. Give "
                    "another name."
                )
        others[name] = path


def extension_of(name: str, path: str, allowed: Collection[str]) -> str:
    """Returns the extension of an output path, in lower case.

    Args:
        name: name of the option or argument.
        path: path of the file.
        allowed: extensions of the formats that can be written.

    Raises:
        OdtError: if the extension is none of them.
    """
    extension = os.path.splitext(path)[1].lower()
    if extension not in allowed:
        raise OdtError(
            f"{name} {path}: must end in {' or '.join(allowed)}, but got {extension or 'none'}."
        )
    return extension


def check_ending(name: str, path: str, kind: str) -> None:
    """Refuses a model path with the extension of another format; unknown extensions are accepted.

    Args:
        name: name of the option or argument.
        path: path of the file.
        kind: format of the model: circle, circle+, tflite or onnx.

    Raises:
        OdtError: if the extension belongs to another format.
    """
    expected_ending = f".{kind.rstrip('+')}"
    ending = os.path.splitext(path)[1].lower()
    if ending in {*FORMATS, ONNX_ENDING, *OTHER_SUFFIXES} and ending != expected_ending:
        raise OdtError(
            f"{name} {path}: must have an extension that fits {kind}, but got {ending}. Give a "
            f"name that ends in {expected_ending}."
        )


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of the files does not exist yet
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # a null byte, which opening the file will report
        return False
