"""20,000 damaged checkpoints and artifacts give an answer or one line.

ODT_ACCEPT_CASES sets another number.
"""

import os
from pathlib import Path

import pytest
from support.fuzzed_states import KINDS, fuzz, prepare

pytestmark = pytest.mark.accept
CASES = int(os.environ.get("ODT_ACCEPT_CASES", "20000"))
PART = 500
PARTS = [(name, k) for name in KINDS for k in range(-(-CASES // len(KINDS) // PART))]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    prepare(folder)
    return folder


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_damaged_states_at_length(name: str, part: int, files: Path, tmp_path: Path) -> None:
    fuzz(KINDS[name], files, tmp_path, min(PART, CASES), seed=1 + part)
