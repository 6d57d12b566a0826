"""Preprocessing of `odt gen-datafile` from its options."""

from typing import Any

import numpy as np

from odt.cli.options.datafile import DatafileOptions
from odt.core.storage.reading import whole_number
from odt.datasets.model_signature import ModelSignature
from odt.datasets.pictures import Resize, parse_augmentation
from odt.datasets.preprocess import Preprocessing, numbers
from odt.datasets.recorded_steps import parse_steps
from odt.datasets.source import Source
from odt.errors import OdtError


class Steps:
    """Preprocessing steps from the options and --like.

    Args:
        options: the options.
        like: the model of --like; None for none.

    Raises:
        OdtError: if the options are invalid or contradict each other.
    """

    def __init__(self, options: DatafileOptions, like: ModelSignature | None) -> None:
        self._options = options
        self._like = like
        self._augmentation = parse_augmentation(options.augment, options.augment_factor)
        self._mean, self._std = numbers(options.mean, "mean"), numbers(options.std, "std")
        if any(std <= 0 for std in self._std):
            raise OdtError(f"--std: must be above 0, but got {options.std}.")
        if options.scale == "standardize" and (self._mean or self._std):
            raise OdtError(
                "--scale standardize: must be given without --mean and --std, which it computes, "
                "but got both. Leave one out."
            )
        size = shape(options.size, "--size") if options.size else None
        if size is not None and len(size) != 2:
            raise OdtError(f"--size: must be HEIGHTxWIDTH, but got {options.size}.")
        fit = options.fit
        if options.model == "mobilenetv2":
            size = (224, 224)
            fit = "crop-or-pad"
        if size is None and like is not None:
            size = like.picture_size()
        self.resize = Resize(*size, options.resize, fit) if size else None
        if options.masks and self.moves():
            raise OdtError("--augment: must be noise alone with --masks, which do not move.")
        self._color = options.color or (like.color() if like else "keep")
        has_scaling = options.scale or self._mean or self._std
        self._record = like.record if like and not has_scaling else None

    def moves(self) -> tuple[str, ...]:
        """Returns the names of augmentations that move values of a sample."""
        if self._augmentation is None:
            return ()
        return tuple(n for n in ("flip", "shift", "crop") if getattr(self._augmentation, n))

    def early_resize(self) -> Resize | None:
        """Returns the resize that decoding can do, if no other step comes before it."""
        return None if self.moves() or self._color == "grayscale" else self.resize

    def preprocessing(self, source: Source) -> Preprocessing:
        """Returns the preprocessing for the samples of a source."""
        like = self._like
        is_image = source.kind == "image"
        dtype: np.dtype[Any] = np.dtype(np.float32)
        default_scale = "0..1"
        is_quantized = like is not None and like.is_quantized()
        if like is not None and is_quantized:  # data are quantized when they are read
            has_bytes = is_image and not self._mean and self._record is None
            dtype = np.dtype(np.uint8 if has_bytes else np.float32)
            default_scale = like.picture_scale()
        elif like is not None:
            dtype = like.inputs[0].dtype
        dtype = np.dtype(self._options.dtype or source.dtype or dtype)
        # Integer inputs of a model that is not quantized take 0 … 255.
        is_integer = dtype.kind in "iu" and not self._options.dtype and not is_quantized
        scale = self._options.scale or (default_scale if is_image and not is_integer else "none")
        mean, std = self._mean, self._std
        if self._record is not None and not is_integer:
            steps = parse_steps(self._record.steps)
            scale = steps.scale
            mean = steps.mean
            std = steps.std
        return Preprocessing(
            missing=self._options.missing,
            color=self._color if is_image else "keep",
            augmentation=self._augmentation,
            resize=self.resize if is_image else None,
            scale=scale,
            mean=mean,
            std=std,
            channels_first=is_image and like is not None and like.channels_first(),
            shape=like.inputs[0].shape if like is not None and len(like.inputs) == 1 else (),
            flatten=self._options.flatten,
            dtype=dtype,
        )

    def note(self, source: Source, inputs: Preprocessing) -> str:
        """Returns a note on the scale of images for --like; empty for none."""
        if self._like is None or source.kind != "image" or self._options.scale or self._mean:
            return ""
        if self._record is not None:
            return f"note: {self._like.path}: its metadata give the scale of the inputs."
        if inputs.scale != "0..1":
            return ""
        return (
            f"note: {self._like.path} does not say the range of its inputs, so that it is taken "
            "for 0..1. Give --scale -1..1 or none if the model was trained with such images."
        )


def shape(text: str, option: str) -> tuple[int, ...]:
    """Parses a shape such as 28x28x1; () for an empty text.

    Raises:
        OdtError: if the text is no shape.
    """
    parts = text.lower().split("x") if text else []
    numbers = tuple(filter(None, map(whole_number, parts)))
    if len(numbers) < len(parts):
        raise OdtError(f"{option}: must be numbers with x between, but got {text}.")
    return numbers
