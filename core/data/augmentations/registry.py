"""All augmentations by name, and their text form: NAME or NAME:VALUE, separated by commas."""

import difflib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from odt.core.data.augmentations.augmentation import Augmentation, Custom
from odt.core.data.augmentations.general import Mixup, Noise
from odt.core.data.augmentations.images import (
    Brightness,
    Contrast,
    Crop,
    Cutout,
    Flip,
    Rotate,
    Saturation,
    Scale,
    Shift,
)
from odt.core.data.augmentations.sounds import FrequencyMask, Gain, TimeMask, TimeShift
from odt.errors import OptionError

CLASSES: tuple[type[Augmentation], ...] = (
    *(Flip, Shift, Crop, Scale, Rotate, Brightness, Contrast, Saturation, Cutout),
    *(TimeShift, Gain, TimeMask, FrequencyMask, Noise, Mixup),
)
NONE = "none"
BY_WORD = {kind.word: kind for kind in CLASSES}


def parse_augmentations(value: Any) -> tuple[Augmentation, ...]:
    """Returns augmentations from text, or from a sequence of texts, objects and functions.

    Args:
        value: the text, augmentation, function or sequence; None for none.

    Raises:
        OptionError: if a name is unknown or a value is invalid.
    """
    if value is None:
        return ()
    is_several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    items: Sequence[Any] = value if is_several else [value]
    augmentations: list[Augmentation] = []
    for item in items:
        if isinstance(item, str):
            texts = (text.strip() for text in item.split(","))
            augmentations += [_parse(text) for text in texts if text not in ("", NONE)]
        elif isinstance(item, Augmentation):
            augmentations.append(item)
        elif callable(item) and not isinstance(item, type):
            augmentations.append(Custom(item))
        else:
            raise OptionError("augment", "must be names, augmentations or functions", repr(item))
    return tuple(augmentations)


def _parse(text: str) -> Any:
    """Returns the augmentation of NAME or NAME:VALUE, whose class has one field."""
    name, colon, value = text.partition(":")
    name = name.strip().lower().replace("_", "-")
    if name == Custom.word:
        raise OptionError("augment", "functions must be given again to resume", name)
    kind: Any = BY_WORD.get(name)
    if kind is None:
        close = difflib.get_close_matches(name, BY_WORD, n=1)
        hint = f"Did you mean {close[0]}?" if close else ""
        raise OptionError("augment", f"must be one of {', '.join(BY_WORD)}", name, hint)
    if not colon:
        return kind()
    (field,) = fields(kind)
    if field.type is str:
        return kind(value.strip())
    try:
        return kind(float(value))
    except ValueError:
        rule = f"{name}: its value must be a number"
        raise OptionError("augment", rule, value or "none") from None
