"""Drawings of people, for models that find them: random pixels are far from what they know."""

import numpy as np

from odt.kernels.rows.opdef import Array

# Ellipses of a person who stands: row, column, half height, half width, as fractions of the image.
BODY = ((0.51, 0.5, 0.18, 0.1),)
SKIN = ((0.27, 0.5, 0.08, 0.06), (0.49, 0.37, 0.16, 0.03), (0.49, 0.63, 0.16, 0.03))
DARK = (
    *((0.22, 0.5, 0.04, 0.065), (0.265, 0.476, 0.008, 0.012), (0.265, 0.524, 0.008, 0.012)),
    *((0.74, 0.45, 0.18, 0.035), (0.74, 0.55, 0.18, 0.035)),
)
COLORS = ((BODY, (0.2, 0.3, 0.7)), (SKIN, (0.85, 0.65, 0.55)), (DARK, (0.2, 0.15, 0.15)))


def people(samples: int, height: int, width: int) -> Array:
    """Returns (samples, height, width, 3) float32 in 0 … 1: a person each, somewhat to the side."""
    rng = np.random.default_rng(0)
    images = np.full((samples, height, width, 3), 0.8, np.float32)
    rows, columns = np.indices((height, width)) / [[[height]], [[width]]]
    for image in images:
        down, right = rng.uniform(-0.05, 0.05, 2)
        for ellipses, color in COLORS:
            for row, column, tall, wide in ellipses:
                at = ((rows - row - down) / tall) ** 2 + ((columns - column - right) / wide) ** 2
                image[at < 1] = color
    images += rng.normal(scale=0.01, size=images.shape)
    return images.clip(0, 1)
