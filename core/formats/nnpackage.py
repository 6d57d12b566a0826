"""nnpackages: folders with a model, whose name is in metadata/MANIFEST.

{"major-version": "1", "minor-version": "2", "patch-version": "0",
 "configs": [""], "models": ["m.circle"], "model-types": ["circle"]}

Only the keys models and model-types are required, as in onert.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odt.core.formats.file_kinds import folder_kind
from odt.core.storage.atomic_files import AtomicFile, write_atomically
from odt.core.storage.json_text import json_text, parse_json
from odt.core.storage.reading import read_input, reading, shortened_json, unwritable
from odt.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = os.path.join("metadata", "MANIFEST")
VERSION = {"major-version": "1", "minor-version": "2", "patch-version": "0"}
TYPES = ("circle", "tflite")
MAX_BYTES = 1 << 20  # of a MANIFEST


def packaged_model(package: str | os.PathLike[str]) -> tuple[str, str]:
    """Finds the model file of a package and its type.

    Raises:
        ModelError: if the folder is not a package, or its MANIFEST breaks a rule.
    """
    path = os.path.join(os.fspath(package), MANIFEST)
    if not os.path.exists(path):
        folder = os.fspath(package)
        if (other := folder_kind(folder)) is not None:
            raise ModelError(
                f"{folder}: a model must be a file, but got {other.instead_of_model(folder)}"
            )
        raise ModelError(
            f"{folder}: a model must be a file, but got a folder without {MANIFEST}. "
            "Give a model file or an nnpackage."
        )
    data = read_input(path, "a JSON file", ModelError, most=MAX_BYTES)
    with reading(path, "must be a JSON file", ModelError):
        content = parse_json(data)
    if not isinstance(content, dict):
        raise ModelError(f"{path}: must be an object, but got {shortened_json(content)}")
    major = content.get("major-version", "1")
    if str(major) != "1":
        raise ModelError(f"{path}: major-version must be 1, but got {shortened_json(major)}")
    name = _single_text(content, "models", path)
    if name in {"", ".", ".."} or os.path.basename(name) != name or not name.isprintable():
        raise ModelError(
            f"{path}: models must name a file of the package, but got {shortened_json(name)}"
        )
    kind = _single_text(content, "model-types", path)
    if kind not in TYPES:
        raise ModelError(
            f"{path}: model-types must be {' or '.join(TYPES)}, but got {shortened_json(kind)}"
        )
    return os.path.join(os.fspath(package), name), kind


def write_package(model: "Path", kind: str, folder: "Path", config: "Path | None" = None) -> None:
    """Makes a package of a model file; other files in the folder are kept.

    Args:
        model: the model file, which is copied under its name.
        kind: circle or tflite.
        folder: folder of the package; it is created with its parents if necessary.
        config: a file of key=value lines to include.

    Raises:
        ModelError: if a file cannot be read or written, or `config` has the name of the MANIFEST.
    """
    copies = {folder / model.name: model}
    if config is not None:
        if config.name == os.path.basename(MANIFEST):
            raise ModelError(f"{config}: must have another name than the package's {MANIFEST}")
        copies[folder / "metadata" / config.name] = config
    content = {
        **VERSION,
        "configs": [config.name if config else ""],
        "models": [model.name],
        "model-types": [kind],
    }
    contents = {target: read_input(source, error=ModelError) for target, source in copies.items()}
    try:
        (folder / "metadata").mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ModelError(unwritable(folder, e, "folder")) from e
    for target, data in contents.items():
        write_atomically(target, [data])
    with AtomicFile(folder / MANIFEST) as file:
        file.write(json_text(content, indent=2).encode() + b"\n")


def _single_text(content: Mapping[str, Any], key: str, path: str) -> str:
    """Returns the only text of a list in a MANIFEST; raises ModelError for other values."""
    values = content.get(key)
    if not isinstance(values, list) or len(values) != 1 or not isinstance(values[0], str):
        actual = "nothing" if values is None else shortened_json(values)
        raise ModelError(f"{path}: {key} must be a list of one text, but got {actual}")
    return values[0]
