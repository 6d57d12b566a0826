"""What operators that work element by element share."""

import numpy as np

from odt.kernels.opdef import Attrs, Specs, TensorSpec


def same_as_x(attrs: Attrs, s: Specs) -> Specs:
    return {"y": s["x"]}


def mask_like_y(attrs: Attrs, s: Specs) -> Specs:
    return {"mask": TensorSpec(s["y"].shape, np.dtype(bool))}


def masks_like_y(attrs: Attrs, s: Specs) -> Specs:
    mask = TensorSpec(s["y"].shape, np.dtype(bool))
    return {"mask": mask, "other": mask}


# A backward that reads y and not x lets y take x's place; dx may always take dy's.
IN_PLACE = frozenset({("y", "x")})
IN_PLACE_BACK = frozenset({("dx", "dy")})
