"""Formats of sources, rows of the modules in src/odt/datasets/formats."""

from pathlib import Path

import pytest
from support.paths import TESTS

from odt.datasets.open_source import FORMATS, SOURCE_FORMATS, open_source
from odt.datasets.source_format import Opening
from odt.errors import DataError, MissingPackageError

BAD = (b"\0", b"a,b\n1", b"[[[", b"PK\3\4", bytes(range(255, 0, -5)))


def test_suffixes_and_places_belong_to_one_format() -> None:
    suffixes = [s for row in SOURCE_FORMATS.values() for s in row.suffixes]
    assert len(suffixes) == len({*suffixes})
    assert FORMATS[:3] == ("auto", "images", "wav")


def test_every_format_describes_its_contents() -> None:
    assert [row.name for row in SOURCE_FORMATS.values() if not row.contents] == []


def test_every_format_has_a_test() -> None:
    tests, commands = (
        "".join(path.read_text(encoding="utf-8") for path in (TESTS / folder).glob("*.py"))
        for folder in ("datasets", "cli")
    )
    for row in SOURCE_FORMATS.values():
        is_tested = f'"{row.name}"' in commands or any(
            word in tests for word in (f'"{row.name}"', *row.suffixes)
        )
        assert is_tested, f"tests/datasets: add a test of {row.name}"


@pytest.mark.parametrize("name", [row.name for row in SOURCE_FORMATS.values() if row.is_path])
def test_files_of_other_formats_are_data_errors(name: str, tmp_path: Path) -> None:
    for k, content in enumerate(BAD):
        path = tmp_path / f"{k}{''.join(SOURCE_FORMATS[name].suffixes[:1])}"
        path.write_bytes(content)
        with pytest.raises((DataError, MissingPackageError)):
            open_source(Opening(str(path), name))
