"""Preprocessing of `odt gen-datafile` from its options."""

import numpy as np

from odt.cli.options.datafile import DatafileOptions
from odt.datasets.model_signature import ModelSignature
from odt.datasets.pictures import Resize, parse_augmentation
from odt.datasets.preprocess import Preprocessing, numbers
from odt.datasets.recorded_steps import parse_steps
from odt.datasets.source import Source
from odt.errors import OdtError


class Steps:
    """Preprocessing steps from the options and --like. The constructor checks the options."""

    def __init__(self, o: DatafileOptions, like: ModelSignature | None) -> None:
        self._o = o
        self._like = like
        self._augmentation = parse_augmentation(o.augment, o.augment_factor)
        self._mean, self._std = numbers(o.mean, "mean"), numbers(o.std, "std")
        if any(s <= 0 for s in self._std):
            raise OdtError(f"--std: must be above 0, but got {o.std}.")
        if o.scale == "standardize" and (self._mean or self._std):
            raise OdtError(
                "--scale standardize: must be given without --mean and --std, which it computes, "
                "but got both. Leave one out."
            )
        size = shape(o.size, "--size") if o.size else None
        if size is not None and len(size) != 2:
            raise OdtError(f"--size: must be HEIGHTxWIDTH, but got {o.size}.")
        fit = o.fit
        if o.model == "mobilenetv2":
            size, fit = (224, 224), "crop-or-pad"
        if size is None and like is not None:
            size = like.picture_size()
        self.resize = Resize(*size, o.resize, fit) if size else None
        if o.masks and self.moves():
            raise OdtError("--augment: must be noise alone with --masks, which do not move.")
        self._colour = o.color or (like.colour() if like else "keep")
        values_given = o.scale or self._mean or self._std
        self._recorded = like.record if like and not values_given else None

    def moves(self) -> tuple[str, ...]:
        """Returns the names of augmentations that move values of a sample."""
        a = self._augmentation
        return tuple(n for n in ("flip", "shift", "crop") if a is not None and getattr(a, n))

    def early_resize(self) -> Resize | None:
        """Returns the resize that decoding can do, if no other step comes before it."""
        return None if self.moves() or self._colour == "grayscale" else self.resize

    def of(self, source: Source) -> Preprocessing:
        """Returns the preprocessing for the samples of a source."""
        picture = source.kind == "image"
        target = self._like.inputs[0] if self._like else None
        mean, std = self._mean, self._std
        dtype, default = target.dtype if target else np.dtype(np.float32), "0..1"
        quantized = self._like is not None and self._like.is_quantized()
        if self._like is not None and quantized:  # data are quantized when they are read
            of_bytes = picture and not mean and self._recorded is None
            dtype, default = (
                np.dtype(np.uint8 if of_bytes else np.float32),
                self._like.picture_scale(),
            )
        dtype = np.dtype(self._o.dtype or dtype)
        # Other integer inputs of the model take 0 … 255.
        whole = dtype.kind in "iu" and not self._o.dtype and not quantized
        scale = self._o.scale or (default if picture and not whole else "none")
        if self._recorded is not None and not whole:
            steps = parse_steps(self._recorded.steps)
            scale, mean, std = steps.scale, steps.mean, steps.std
        return Preprocessing(
            missing=self._o.missing,
            colour=self._colour if picture else "keep",
            augmentation=self._augmentation,
            resize=self.resize if picture else None,
            scale=scale,
            mean=mean,
            std=std,
            channels_first=picture and self._like is not None and self._like.channels_first(),
            shape=target.shape if target and self._like and len(self._like.inputs) == 1 else (),
            flatten=self._o.flatten,
            dtype=dtype,
        )

    def note(self, source: Source, inputs: Preprocessing) -> str:
        """Returns a note on the scale of images for --like; empty for none."""
        if self._like is None or source.kind != "image" or self._o.scale or self._mean:
            return ""
        if self._recorded is not None:
            return f"note: {self._like.path}: its metadata give the scale of the inputs."
        if inputs.scale != "0..1":
            return ""
        return (
            f"note: {self._like.path} does not say the range of its inputs, so that it is taken "
            "for 0..1. Give --scale -1..1 or none if the model was trained with such images."
        )


def shape(text: str, option: str) -> tuple[int, ...]:
    """Parses a shape such as 28x28x1."""
    parts = text.lower().split("x") if text else []
    if not all(p.isdecimal() and int(p) for p in parts):
        raise OdtError(f"{option}: must be numbers with x between, but got {text}.")
    return tuple(int(p) for p in parts)
