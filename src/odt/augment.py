"""Augmentation on the fly: random changes of the training samples, different in each epoch."""

from odt.core.data.augmentations.augmentation import Augmentation
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

__all__ = [
    "Augmentation",
    "Brightness",
    "Contrast",
    "Crop",
    "Cutout",
    "Flip",
    "FrequencyMask",
    "Gain",
    "Mixup",
    "Noise",
    "Rotate",
    "Saturation",
    "Scale",
    "Shift",
    "TimeMask",
    "TimeShift",
]
