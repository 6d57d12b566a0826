"""Checks of output paths: no input is overwritten, no two outputs are one file, endings fit."""

import os
from collections.abc import Collection, Mapping

from odt.errors import OdtError

FORMATS = {".circle": "circle", ".tflite": "tflite"}  # model formats by file ending
# Endings of files that no model is written to.
FOREIGN = {".h5", ".hdf5", ".keras", ".onnx", ".pb", ".pt", ".pth", ".ckpt", ".odt"}
FOREIGN |= {".npy", ".npz", ".csv", ".json", ".zip", ".py"}


def check_outputs(
    written: Mapping[str, str | None],
    read: Mapping[str, str | None],
    replaces: Collection[tuple[str, str]] = (),
) -> None:
    """Refuses to overwrite an input or another output.

    Args:
        written: paths of outputs by option, None for an option that was left out.
        read: paths of inputs, likewise.
        replaces: pairs of an output and an input that it may overwrite.

    Raises:
        OdtError: if two paths are one file.
    """
    others = dict(read)
    for name, path in written.items():
        for other, read_path in others.items():
            if path and read_path and (name, other) not in replaces and _same(path, read_path):
                raise OdtError(
                    f"{name} {path}: must not be another file of the command, but got that of "
                    f"{other}. Give another name."
                )
        others[name] = path


def check_ending(name: str, path: str, kind: str) -> None:
    """Refuses a model path with the ending of another format; unknown endings are accepted.

    Args:
        name: of the option or argument.
        path: of the file.
        kind: format of the model: circle, circle+ or tflite.

    Raises:
        OdtError: if the ending is another format's.
    """
    wanted = f".{kind.rstrip('+')}"
    ending = os.path.splitext(path)[1].lower()
    if ending in FORMATS.keys() | FOREIGN and ending != wanted:
        raise OdtError(
            f"{name} {path}: must not have the ending of another format than {kind}, but got "
            f"{ending}. Give a name in {wanted}."
        )


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # a null byte; who opens it says so
        return False
