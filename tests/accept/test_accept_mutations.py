"""Damaged states, runs and federations (20,000) and integer files (10,000): an answer or one line.

ODT_ACCEPT_CASES sets another number, of integer files half of it.
"""

import os
from pathlib import Path

import pytest
from support import damaged_integers
from support.fuzzed_states import KINDS, fuzz, prepare

pytestmark = pytest.mark.accept
CASES = int(os.environ.get("ODT_ACCEPT_CASES", "20000"))
PART = 500
FILES = range(-(-CASES // 2 // len(damaged_integers.MAKERS) // PART))
PARTS = [(name, k) for name in KINDS for k in range(-(-CASES // len(KINDS) // PART))]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    prepare(folder)
    return folder


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_damaged_states_at_length(name: str, part: int, files: Path, tmp_path: Path) -> None:
    fuzz(KINDS[name], files, tmp_path, min(PART, CASES), seed=1 + part)


@pytest.mark.parametrize("kind", damaged_integers.MAKERS)
@pytest.mark.parametrize("part", FILES)
def test_damaged_integer_files_at_length(kind: str, part: int, tmp_path: Path) -> None:
    count = CASES // 2 // len(damaged_integers.MAKERS) + 1
    damaged_integers.fuzz(kind, tmp_path, min(PART, count - part * PART), seed=100 + part)
