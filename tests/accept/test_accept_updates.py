"""tests/golden_updates is what torch and pytorch-optimizer give today."""

import json
from typing import Any

import pytest
from support.paths import TESTS

pytestmark = pytest.mark.accept


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """The numbers and texts of a record, by path."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, a in items for k, v in flat(a, f"{name}/{key}").items()}
    return {name: value}


def test_the_recorded_files_are_what_the_references_give() -> None:
    from record_updates import records  # torch is installed for this test alone

    for name, record in records():
        recorded = json.loads((TESTS / "golden_updates" / name).read_text())
        print(f"{name}: {recorded.pop('versions')}, now {record.pop('versions')}")
        now, then = flat(record), flat(recorded)
        assert now.keys() == then.keys()
        for path, value in now.items():
            wanted = then[path]
            if isinstance(value, float):
                wanted = pytest.approx(wanted, rel=1e-5, abs=1e-9)
            assert value == wanted, path
