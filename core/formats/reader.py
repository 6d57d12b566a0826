"""Reads model files of all formats. All models are read here."""

import os
import stat

from odt.core.formats.flatbuffer.flatbuffer import FORMATS
from odt.core.formats.flatbuffer.reader import parse_model
from odt.core.model.model import Model
from odt.core.storage.mapped_files import map_or_read
from odt.errors import ModelError, OptionError


def read_model(
    path: str | os.PathLike[str], signature: str | None = None, subgraph: int = 0
) -> Model:
    """Maps and checks a model file.

    Args:
        path: the file, or an nnpackage that holds it.
        signature: key of the signature whose subgraph is used; None for `subgraph`.
        subgraph: number of the subgraph that is used.

    Raises:
        ModelError: if the file cannot be read or breaks a rule of its format.
        OptionError: if there is no such signature, or `path` is not a path.
        LostFileError: if the file became shorter meanwhile.
    """
    if not isinstance(path, str | os.PathLike):
        rule = "must be the path of a model file"
        raise OptionError("model", rule, type(path).__name__, "Write the bytes to a file first.")
    name = os.fspath(path)
    kind: str | None = None  # type of the model that an nnpackage names
    if os.path.isdir(name):
        from odt.core.formats.nnpackage import packaged_model

        name, kind = packaged_model(name)
    try:
        handle = os.open(
            name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                actual = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or pipe"
                raise ModelError(f"{name}: a model must be a file, but got {actual}")
            if not status.st_size:
                raise ModelError(f"{name}: a model must have 8 bytes or more, but got 0")
            data = map_or_read(handle, name)
        finally:
            os.close(handle)
    except (OSError, ValueError) as e:  # ValueError: a null byte in the path
        reason = getattr(e, "strerror", None) or str(e)
        raise ModelError(f"{name}: must be a readable file, but got: {reason.lower()}.") from e
    view = memoryview(data)
    model = _parse(view, name, signature, subgraph)
    model.check_file()
    if kind not in (None, model.format):
        raise ModelError(
            f"{os.fspath(path)}: its MANIFEST must name the model's type, {model.format}, but got "
            f"{kind}"
        )
    return model


def _parse(view: memoryview, name: str, signature: str | None, subgraph: int) -> Model:
    """Parses a model of any format; loads the reader of ONNX only for other files."""
    if bytes(view[4:8]) not in FORMATS:
        from odt.core.formats.onnx.reader import is_onnx, parse_onnx

        if is_onnx(view):
            return parse_onnx(view, name, signature, subgraph)
    return parse_model(view, name, signature, subgraph)
