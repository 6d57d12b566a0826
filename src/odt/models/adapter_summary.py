"""Files of low-rank adapters as text and as plain values: what `odt inspect` prints of them."""

import os
import zipfile
from contextlib import suppress
from typing import Any

from odt.core.export.adapter_file import ARRAY, read_adapter_file
from odt.core.export.gguf_adapters import holds_adapters
from odt.core.export.peft_adapters import ARRAYS, CONFIG
from odt.core.export.stored_adapters import StoredAdapters
from odt.core.lowering.low_rank import short_hash
from odt.core.model.graph import MAX_NAME
from odt.core.storage.reading import open_regular
from odt.errors import one_line
from odt.models.model import Path
from odt.text import quantity, size, table


def is_adapter_file(path: Path) -> bool:
    """Whether a path is a file of adapters, or PEFT's folder with one."""
    name = os.fspath(path)
    if os.path.isdir(name):
        return os.path.exists(os.path.join(name, ARRAYS))
    if os.path.basename(name) == ARRAYS:
        return os.path.exists(os.path.join(os.path.dirname(name), CONFIG))
    with (
        suppress(OSError, ValueError, zipfile.BadZipFile),
        open_regular(name) as file,
        zipfile.ZipFile(file) as archive,
    ):
        return f"{ARRAY}.npy" in archive.namelist()
    return holds_adapters(name)


def describe_adapters(path: Path) -> str:
    """Returns the text of `odt inspect` for a file of adapters.

    Raises:
        DataError: if the file is damaged.
    """
    stored = read_adapter_file(path)
    count = sum(m.a.size + m.b.size for m in stored.members)
    weights, nbytes = len(stored.members), size(os.path.getsize(stored.path))
    rows = [
        (
            one_line(m.name, MAX_NAME) or f"tensor {m.tensor}",
            str(m.a.shape),
            str(m.b.shape),
            f"{m.a.size + m.b.size:,}",
        )
        for m in stored.members
    ]
    lines = [
        f"{stored.path}: adapters in the form of {stored.form}, {nbytes}",
        f"rank {stored.rank}, alpha {stored.alpha:g}: {quantity(weights, 'weight')}, "
        f"{count:,} parameters",
        f"base: {_base(stored)}",
        "",
        *table([("WEIGHT", "A", "B", "PARAMETERS"), *rows], right=(3,)),
    ]
    return "\n".join(lines)


def adapter_values(path: Path) -> dict[str, Any]:
    """Returns plain values for JSON.

    Raises:
        DataError: if the file is damaged.
    """
    stored = read_adapter_file(path)
    return {
        "file": stored.path,
        "form": stored.form,
        "rank": stored.rank,
        "alpha": stored.alpha,
        "base": stored.base,
        "model_hash": stored.model,
        "weights": [
            {"name": m.name, "a": list(m.a.shape), "b": list(m.b.shape)} for m in stored.members
        ],
    }


def _base(stored: StoredAdapters) -> str:
    """Returns what the file says of the model for which the adapters were made."""
    parts = [one_line(stored.base, MAX_NAME)] if stored.base else []
    if stored.model:
        parts.append(f"hash {one_line(short_hash(stored.model), MAX_NAME)}")
    return ", ".join(parts) or "not in the file; odt compares names and shapes of the weights"
