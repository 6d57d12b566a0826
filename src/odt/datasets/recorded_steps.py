"""Preprocessing in the form of a record: explicit steps, which can be read from JSON values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from odt.core.data.scale import SCALES as OF_BYTES
from odt.core.data.sidecar import DTYPES
from odt.core.model.record import CHANNELS_FIRST
from odt.core.storage.reading import printable
from odt.datasets.pictures import FITS, METHODS, Resize
from odt.datasets.preprocess import COLORS, MISSING, Preprocessing
from odt.errors import DataError, OdtError
from odt.kernels.rows.opdef import Array


def explicit(preprocessing: Preprocessing, picture: Array) -> Preprocessing:
    """Returns the steps with explicit colors and image size, so that they accept any photo.

    Args:
        preprocessing: the steps.
        picture: any image of the data, before preprocessing.
    """
    if picture.ndim not in (2, 3):
        return preprocessing
    resized = preprocessing.resized(picture)
    channels = resized.shape[2] if resized.ndim == 3 else 1
    return replace(
        preprocessing,
        color={1: "grayscale", 3: "rgb"}.get(channels, preprocessing.color),
        resize=preprocessing.resize or Resize(*resized.shape[:2]),
    )


def parse_steps(steps: Sequence[Mapping[str, Any]]) -> Preprocessing:
    """Reads preprocessing in the form of `describe`.

    Raises:
        DataError: for an unknown step, or values of the wrong type.
    """
    fields: dict[str, Any] = {}
    for step in steps:
        values = {name: value for name, value in step.items() if name != "step"}
        try:
            fields |= PARSERS[str(step["step"])](values)
        except OdtError:
            raise
        except Exception as e:  # JSON may hold values of any type
            raise DataError(
                f"the preprocessing record must have the steps {', '.join(PARSERS)}, but got "
                f"{printable(step)}."
            ) from e
    return Preprocessing(**fields)


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _word(value: Any, words: Sequence[str]) -> str:
    if value not in words:
        raise ValueError(value)
    return str(value)


# Step → its values as fields of Preprocessing.
PARSERS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "missing": lambda v: {"missing": _word(v["policy"], MISSING), "fill": _floats(v["values"])},
    "color": lambda v: {"color": _word(v["to"], COLORS)},
    "resize": lambda v: {
        "resize": Resize(
            int(v["height"]),
            int(v["width"]),
            _word(v.get("method", "bilinear"), METHODS),
            _word(v.get("fit", "stretch"), FITS),
        )
    },
    "scale": lambda v: {"scale": _word(v["to"], OF_BYTES)},
    "mean and std": lambda v: {"mean": _floats(v["mean"]), "std": _floats(v["std"])},
    "axes": lambda v: {"channels_first": _word(v["to"], (CHANNELS_FIRST,)) == CHANNELS_FIRST},
    "flatten": lambda v: {"flatten": True},
    "shape": lambda v: {"shape": tuple(int(n) for n in v["shape"])},
    "dtype": lambda v: {"dtype": np.dtype(_word(v["dtype"], sorted(DTYPES)))},
}
