"""Sidecars: a JSON file beside a data file that describes its contents.

`train.input.bin.json` describes `train.input.bin`: shape and dtype of a sample, number of samples,
class names, source and preprocessing. Raw files have no header that could hold this. The format
has a version; readers ignore unknown keys.
"""

import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from odt.core.data.scale import SCALES
from odt.core.storage.json_text import json_text, parse_json
from odt.core.storage.reading import check_shape, listed, printable, read_input, reason
from odt.dataclass import dataclass
from odt.errors import DataError
from odt.kernels.rows.opdef import TensorSpec

FORMAT = "odt-data"
VERSION = 1
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = frozenset(("bool", *INTEGERS, "float16", "float32", "float64"))
# Keys of the recipe that odt reads, with the types of their values.
RECIPE = {"files": (dict,), "source": (dict, str), "preprocessing": (list,), "boxes": (dict,)}


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Description of a data file.

    Attributes:
        tensors: shape and dtype of one sample of each tensor, in the file's order.
        samples: number of samples.
        classes: class names by label; empty if there are none.
        sha256: SHA-256 of the data file, in hexadecimal.
        recipe: source, preprocessing, split, counts: plain JSON values.
        scale: one of SCALES, applied when the integers are read as floats; empty for none.
    """

    tensors: tuple[TensorSpec, ...]
    samples: int
    classes: tuple[str, ...] = ()
    sha256: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    scale: str = ""

    @property
    def record_content(self) -> Mapping[str, Any]:
        """The JSON object from which `record_of` reads the preprocessing record."""
        return {**self.recipe, "classes": list(self.classes)}

    @property
    def nbytes(self) -> int:
        """Bytes of the data in raw layout."""
        return self.samples * sum(t.nbytes for t in self.tensors)

    def to_json(self) -> str:
        """The text of the JSON file."""
        tensors = [{"shape": list(t.shape), "dtype": t.dtype.name} for t in self.tensors]
        content = {
            "format": FORMAT,
            "version": VERSION,
            "samples": self.samples,
            "tensors": tensors,
            "classes": list(self.classes),
            "sha256": self.sha256,
        }
        if self.scale:
            content["scale"] = self.scale
        return json_text(content | dict(self.recipe), indent=1, ensure_ascii=False) + "\n"

    def to_bytes(self) -> bytes:
        """The JSON file; characters of file names that UTF-8 cannot encode are escaped."""
        return self.to_json().encode("utf-8", "backslashreplace")


def sidecar_path(path: str) -> str:
    """Returns the path of the sidecar of a data file."""
    return f"{path}.json"


def read_sidecar(path: str) -> Sidecar | None:
    """Reads the sidecar of a data file; None if the file has none.

    Raises:
        DataError: if the sidecar breaks the format.
    """
    where = sidecar_path(path)
    if not os.path.lexists(where):
        return None
    text = read_input(where, "readable JSON")
    try:
        return _parse(parse_json(text.decode()))
    except Exception as e:  # JSON may be anything
        raise DataError(
            f"{where}: must be JSON of format {FORMAT} {VERSION}, but got: {reason(e)}. "
            "Write the data again, or delete the JSON."
        ) from e


def _parse(content: dict[str, Any]) -> Sidecar:
    """Returns the sidecar of a JSON object; raises any error if a value is invalid."""
    if content["format"] != FORMAT or content["version"] != VERSION:
        name, version = printable(content["format"], 40), printable(content["version"], 40)
        raise ValueError(f"format {name} {version}")
    tensors = tuple(_spec(t) for t in content["tensors"])
    samples = content["samples"]
    for tensor in tensors:
        check_shape((samples, *tensor.shape), tensor.dtype.itemsize)
    if not tensors:
        raise ValueError("no tensors")
    classes = _names(content)
    scale = content.get("scale", "")
    if scale not in ("", *SCALES):
        raise ValueError(f"scale {printable(scale)}")
    sidecar_keys = {"format", "version", "samples", "tensors", "classes", "sha256", "scale"}
    recipe = {k: v for k, v in content.items() if k not in sidecar_keys}
    for key, kinds in RECIPE.items():
        if key in recipe and not isinstance(recipe[key], kinds):
            raise TypeError(f"{key} must be {' or '.join(k.__name__ for k in kinds)}")
    if not all(isinstance(step, dict) for step in recipe.get("preprocessing", ())):
        raise TypeError("preprocessing must be a list of steps")
    _names(recipe.get("boxes", {}))
    sha256 = str(content.get("sha256", ""))
    return Sidecar(tensors, samples, classes, sha256, recipe, scale)


def _names(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of classes, of samples or of boxes."""
    classes = content.get("classes", [])
    if not isinstance(classes, list) or not all(isinstance(c, str) for c in classes):
        raise TypeError("classes must be a list of names")
    return tuple(classes)


def _spec(tensor: dict[str, Any]) -> TensorSpec:
    shape, dtype = tensor["shape"], tensor["dtype"]
    if 0 in shape:
        raise ValueError(f"shape {listed(shape)}")
    if dtype not in DTYPES:
        raise ValueError(f"dtype {printable(dtype)}")
    check_shape(shape, np.dtype(dtype).itemsize)
    return TensorSpec(tuple(shape), np.dtype(dtype).newbyteorder("<"))
