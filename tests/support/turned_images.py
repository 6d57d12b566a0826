"""CIFAR-10 images turned by 90°, which the shipped ResNet-8 files have not seen."""

import io
import zipfile

import numpy as np
from PIL import Image

from odt.kernels.rows.opdef import Array
from support.accept_data import complete


def turned(part: str) -> tuple[Array, Array]:
    """Images turned by 90°, and the numbers of their classes; part is "train" or "test"."""
    with zipfile.ZipFile(complete("data", "image", "cifar10-jpg-subset.zip")) as archive:
        names = sorted(n for n in archive.namelist() if f"{part}/" in n and n.endswith(".jpg"))
        classes = sorted({n.split("/")[-2] for n in names})
        images = [Image.open(io.BytesIO(archive.read(n))).convert("RGB") for n in names]
    x = np.stack([np.rot90(np.asarray(image)) for image in images]).astype(np.float32)
    return x, np.array([classes.index(n.split("/")[-2]) for n in names], np.int32)
