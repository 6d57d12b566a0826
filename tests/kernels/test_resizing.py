"""What the operator table cannot ask of resizing: how positions are rounded."""

import numpy as np
import pytest
from op_db import Options
from support.op_run import Case, row_of


# Recorded from LiteRT 2.3 on an image whose pixels are their row numbers. In exact arithmetic
# these lie at 13, 31 and 16; float32 puts them a little before.
@pytest.mark.parametrize(
    ("size", "out", "options", "place", "source"),
    [
        (26, 11, {"half_pixel_centers": True}, 5, 12),
        (62, 14, {}, 7, 30),
        (32, 15, {"align_corners": True}, 7, 15),
    ],
)
def test_the_nearest_is_that_of_float32(
    size: int, out: int, options: Options, place: int, source: int
) -> None:
    row = row_of("RESIZE_NEAREST_NEIGHBOR")
    attrs = row.attrs(options, {"size": np.array([out, 1], np.int32)})
    case = Case.make(row, attrs, {"x": np.arange(float(size)).reshape(1, size, 1, 1)})
    assert case.forward()["y"][0, place, 0, 0] == source
