"""No step on a real ONNX file transposes a weight, and few transposes are left in its plans.

The files are those of onnx/ in the data, whose README states their licenses.
"""

from pathlib import Path

import pytest
from support.accept_data import complete
from support.lowering import transposed_values

from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import LoweredModel, lower_model

pytestmark = pytest.mark.accept

FOLDERS = ("files", "exports", "golden/out")


def files() -> list[Path]:
    return sorted(p for f in FOLDERS for p in complete("onnx", f).glob("*.onnx"))


def computed(path: Path) -> LoweredModel | None:
    """Lowers a file; None if odt does not compute all of it, which other tests report."""
    lowered = lower_model(read_model(path))
    return None if lowered.graphs.unsupported else lowered


@pytest.mark.parametrize("path", files(), ids=lambda p: p.stem)
def test_no_step_transposes_a_weight(path: Path) -> None:
    if (lowered := computed(path)) is None:
        pytest.skip("has operators that odt does not compute")
    graph = lowered.graphs.at(lowered.graphs.file_batch)
    assert transposed_values(graph, constants=True) == 0


def test_a_tenth_of_the_transposed_values_is_left() -> None:
    before = after = 0
    for path in files():
        if (lowered := computed(path)) is not None:
            before += transposed_values(lowered.graphs.as_in_file)
            after += transposed_values(lowered.graphs.at(lowered.graphs.file_batch))
    assert before > 1e7, "put the folder onnx into the data"
    assert after <= before / 10
