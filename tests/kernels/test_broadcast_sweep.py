"""Operators that broadcast two or three inputs as NumPy does: shapes of ranks 0 to 5.

tests/kernels/test_ops.py tests the same operators with shapes chosen by hand; here hypothesis
chooses them.
"""

from typing import Any

import hypothesis.extra.numpy as shapes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from op_db import OP_DB, OpInfo
from support.op_run import Arrays, Case, row_of

from odt.kernels.families.binary import BINARY

OTHERS = {"BROADCAST_ARGS", "BATCH_MATMUL", "SELECT"}  # broadcast otherwise, or not at all
NAMES = [n for n in OP_DB if n not in OTHERS and row_of(n).inputs in (BINARY, ("c", *BINARY))]
STEP = 1e-6

Shapes = tuple[tuple[int, ...], ...]


@st.composite
def matching(draw: Any, count: int) -> Shapes:
    """Shapes that can be broadcast together, of ranks from 0 to 5."""
    found = draw(
        shapes.mutually_broadcastable_shapes(num_shapes=count, max_dims=5, min_side=0, max_side=3)
    )
    return tuple(found.input_shapes)


def reference(info: OpInfo, inputs: Arrays) -> np.ndarray[Any, Any]:
    return np.asarray(info.reference({}, inputs)["y"])


def gradient(info: OpInfo, inputs: Arrays, name: str, dy: np.ndarray[Any, Any]) -> Any:
    """Central differences of Σ y · dy by one input, element by element."""
    x = inputs[name]
    found = np.empty(x.shape)
    for at in np.ndindex(x.shape):
        sides = []
        for step in (STEP, -STEP):
            moved = x.copy()
            moved[at] += step
            sides.append(np.sum(reference(info, inputs | {name: moved}) * dy))
        found[at] = (sides[0] - sides[1]) / (2 * STEP)
    return found


@pytest.mark.parametrize("name", NAMES)
@settings(derandomize=True, max_examples=50, database=None)
@given(data=st.data())
def test_values_and_gradients_of_broadcast_inputs(name: str, data: Any) -> None:
    info, row = OP_DB[name], row_of(name)
    found = data.draw(matching(len(row.inputs)))
    rng = np.random.default_rng(0)
    inputs: Arrays = {}
    for n, shape in zip(row.inputs, found, strict=True):
        how = info.draws.get(n, info.draw)
        inputs[n] = np.asarray(rng.random(shape) < 0.5 if n == "c" else how(rng, shape))
    case = Case.make(row, row.attrs({}, {}), inputs)
    wanted = reference(info, inputs)
    got = case.forward()["y"]
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
    case.seed_gradients()
    for n in case.gradients():
        numeric = gradient(info, inputs, n, case.arrays["dy"])
        np.testing.assert_allclose(case.gradient(n), numeric, rtol=1e-6, atol=1e-6, err_msg=f"d{n}")
