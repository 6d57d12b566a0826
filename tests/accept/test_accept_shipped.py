"""Model files as others ship them: each trains whole, or the list says what blocks it.

ODT_SHIPPED_MODELS is the folder with the files; `make accept` fetches those it can. The table of
all models is printed at the end, and written to table.md in that folder.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.shipped import FORWARD, HEAD, MOVED, Result, examine

sys.path.insert(0, str(ROOT / "tools"))
from fetch_shipped_models import models

pytestmark = pytest.mark.accept

FOLDER = Path(os.environ.get("ODT_SHIPPED_MODELS", "."))
EXPORT = 1e-5  # difference from LiteRT, as a fraction of the output's range
MEMORY = 1.2  # peak memory, as a fraction of the plan's


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[list[Result]]:
    results: list[Result] = []
    yield results
    lines = [HEAD, *(result.row() for result in results)]
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + "\n".join(lines))


@pytest.mark.parametrize("entry", models(), ids=lambda entry: str(entry["name"]))
def test_a_shipped_model_trains_whole(
    entry: dict[str, Any], table: list[Result], tmp_path: Path
) -> None:
    path = FOLDER / f"{entry['name']}.tflite"
    if not path.exists():
        pytest.skip(f"no file: {entry.get('repository')}, {entry['file']}")
    result = examine(entry, path, tmp_path)
    table.append(result)
    assert bool(result.blocked) == ("blocked" in entry), result.blocked
    if not result.blocked:
        assert result.gradients in ("agree", "unknown")
        assert result.losses[1] < result.losses[0]
        # Where LiteRT's own two sets of kernels differ by more, rounding explains as much.
        assert result.forward <= max(FORWARD, 2 * result.judges)
        assert result.moved >= MOVED
        # Rounding alone can take the model of the file further from LiteRT.
        assert result.export <= max(EXPORT, 1.5 * result.forward)
        assert result.cost
        assert result.cost.memory_to_plan <= MEMORY
