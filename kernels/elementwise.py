"""What operators that work element by element share."""

import numpy as np

from odt.kernels.opdef import Attrs, Specs, TensorSpec


def same_as_x(attrs: Attrs, s: Specs) -> Specs:
    return {"y": s["x"]}


def mask_like_y(attrs: Attrs, s: Specs) -> Specs:
    return {"mask": TensorSpec(s["y"].shape, np.dtype(bool))}
