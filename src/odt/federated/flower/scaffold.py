"""Writes a Flower app: its project file with settings, two short modules and a README."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from odt.core.storage.reading import printable, unwritable
from odt.errors import OdtError, OptionError

TEMPLATES = Path(__file__).with_name("app")


def scaffold(folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
    """Writes the app.

    Args:
        folder: a new or empty folder; its name is the name of the app.
        settings: settings of the app; `clients` must be among them.

    Raises:
        OdtError: if the folder has files, or cannot be written.
        OptionError: if its name cannot be the name of an app.
    """
    path = Path(folder)
    name = re.sub(r"[^a-z0-9]+", "-", path.resolve().name.lower()).strip("-")[:32].strip("-")
    if not name:
        raise OptionError("DIR", "must have a letter or digit in its name", os.fspath(folder))
    for key, value in settings.items():
        if isinstance(value, str) and not _is_utf8(value):
            raise OptionError(key, "must be text in UTF-8, which TOML needs", printable(value))
    try:
        if path.exists() and any(path.iterdir()):
            raise OdtError(f"{path}: must be new or empty, but has files. Give another folder.")
        path.mkdir(parents=True, exist_ok=True)
        lines = "\n".join(f"{key} = {_toml(value)}" for key, value in settings.items())
        words = {"name": name, "clients": settings["clients"], "settings": lines}
        for template in sorted(TEMPLATES.glob("*.in")):
            text = Template(template.read_text(encoding="utf-8")).substitute(words)
            (path / template.name.removesuffix(".in")).write_text(text, encoding="utf-8")
    except OSError as e:
        raise OdtError(unwritable(path, e, "folder")) from e


def _is_utf8(text: str) -> bool:
    """Whether text can be written as UTF-8; the path of a file need not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _toml(value: Any) -> str:
    """Returns a TOML value; JSON's texts, numbers and booleans are TOML's, too."""
    return json.dumps(value, ensure_ascii=False)
