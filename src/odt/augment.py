"""Augmentation on the fly: random changes of the training samples, made anew in each epoch."""

from collections.abc import Sequence
from typing import Any

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
    Shift,
)
from odt.core.data.augmentations.registry import parse_augmentations
from odt.core.data.augmentations.sounds import FrequencyMask, Gain, TimeMask, TimeShift
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.training.input_pipeline import InputPipeline, prepared_nbytes
from odt.run_samples import Samples

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
    "Shift",
    "TimeMask",
    "TimeShift",
]


def chosen(augment: Any) -> tuple[Augmentation, ...]:
    """The augmentations that an argument of `fit` names.

    Args:
        augment: as in `fit`.

    Raises:
        OptionError: if a name or a value is not known.
    """
    return parse_augmentations(augment)


def pipeline(
    samples: Samples, specs: SampleSpecs, batch: int, augmentations: Sequence[Augmentation]
) -> InputPipeline:
    """Makes the pipeline of a training run.

    Args:
        samples: samples of the run.
        specs: specs of one sample of the model.
        batch: batch size.
        augmentations: changes of the samples.

    Raises:
        OptionError: if an augmentation does not fit the data.
    """
    shapes = [column.rows.shape[1:] for column in samples.data.inputs]
    order = samples.order
    return InputPipeline(
        samples.data,
        order.samples,
        specs.input_specs,
        specs.target_specs,
        shapes,
        batch,
        augmentations,
        order.seed,
    )


def batches_nbytes(specs: SampleSpecs, batch: int, augmentations: Any) -> int:
    """Bytes of the batches that a pipeline prepares.

    Args:
        specs: specs of one sample of the model.
        batch: batch size.
        augmentations: as in `fit`; None for none.
    """
    changes = parse_augmentations(augmentations)
    every = (*specs.input_specs, *specs.target_specs)
    return prepared_nbytes(every, batch, changes) if changes else 0
