"""Files of adapters in all forms."""

from pathlib import Path

import pytest
from support.damaged_adapters import FORMS, fuzz


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files_give_adapters_or_one_line(form: str, tmp_path: Path) -> None:
    fuzz(form, tmp_path, 60, seed=1)
