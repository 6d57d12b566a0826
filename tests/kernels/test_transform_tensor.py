"""CUSTOM:TransformTensorBilinear at the edges of images, where differences cannot judge it."""

import numpy as np
from op_db import OP_DB
from op_db.transformtensorbilinear import version_1, version_2
from support.op_run import Case, row_of

INFO = OP_DB["CUSTOM:TransformTensorBilinear"]
X = np.arange(24.0).reshape(1, 3, 4, 2) + 1
IDENTITY = np.eye(4)[None]


def transformed(m: np.ndarray, options: dict[str, object]) -> np.ndarray:
    row = row_of(INFO.name)
    return Case.make(row, row.attrs(options, {}), {"x": X, "m": m}).forward()["y"]


def test_the_identity_keeps_all_pixels() -> None:
    for options in (version_1(3, 4), version_2(3, 4)):
        np.testing.assert_array_equal(transformed(IDENTITY, dict(options)), X)


def test_positions_outside_are_zero() -> None:
    moved = IDENTITY.copy()
    moved[0, 0, 3] = 1
    y = transformed(moved, dict(version_1(3, 4)))
    np.testing.assert_array_equal(y[:, :, :3], X[:, :, 1:])
    assert not y[:, :, 3].any()
    assert not transformed(IDENTITY * np.nan, dict(version_2(3, 4))).any()
