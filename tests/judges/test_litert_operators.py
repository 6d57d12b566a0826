"""LiteRT as judge of operators on floats, one file for each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder
from support.judges import difference, litert, odt, random_inputs

Build = Callable[[ModelBuilder], int]
SHAPE = (1, 4, 5)


def cumsum(axis: int, **options: Any) -> Build:
    def build(b: ModelBuilder) -> int:
        x = b.add_input(SHAPE)
        return b.add_operator("CUMSUM", (x, b.add_constant(axis)), SHAPE, **options)

    return build


def update(start: Sequence[int]) -> Build:
    """An input with a block of another input."""

    def build(b: ModelBuilder) -> int:
        inputs = b.add_input(SHAPE), b.add_input((1, 2, 3)), b.add_constant(list(start))
        return b.add_operator("DYNAMIC_UPDATE_SLICE", inputs, SHAPE)

    return build


def update_constant(b: ModelBuilder) -> int:
    """A constant with a block of an input, at a place that another input gives."""
    start = b.add_constant(np.array([[0, 1, 2]], np.int32))
    number = b.add_input((1, 1), "int32")
    places = b.add_operator("MUL", (start, number), (1, 3), dtype="int32")
    places = b.add_operator("RESHAPE", (places, b.add_constant([3])), (3,), dtype="int32")
    inputs = b.add_weight(SHAPE, 1), b.add_input((1, 2, 3)), places
    return b.add_operator("DYNAMIC_UPDATE_SLICE", inputs, SHAPE)


OPERATORS: dict[str, Build] = {
    "cumsum": cumsum(-1),
    "cumsum, exclusive": cumsum(1, exclusive=True),
    "cumsum, reverse": cumsum(2, reverse=True),
    "cumsum, both": cumsum(1, exclusive=True, reverse=True),
    "dynamic_update_slice": update([0, 1, 2]),
    "dynamic_update_slice, outside": update([3, -1, 4]),
    "dynamic_update_slice, computed": update_constant,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_outputs_agree_with_litert(name: str, tmp_path: Path) -> None:
    """To 1e-5 of their range, for samples computed together."""
    b, path = ModelBuilder("tflite", seed=3), tmp_path / "operator.tflite"
    b.write(path, OPERATORS[name](b))
    inputs: Any = random_inputs(path, 5, seed=1)
    assert difference(odt(path, inputs)[0], litert(path, inputs)[0]) < 1e-5
