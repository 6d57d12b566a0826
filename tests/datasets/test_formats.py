"""Formats of sources, one module each in src/odt/datasets/formats."""

from odt.datasets.open_source import FORMATS, SOURCE_FORMATS


def test_suffixes_and_places_belong_to_one_format() -> None:
    suffixes = [s for row in SOURCE_FORMATS.values() for s in row.suffixes]
    assert len(suffixes) == len({*suffixes})
    assert FORMATS[:3] == ("auto", "images", "wav")


def test_every_format_describes_its_contents() -> None:
    assert [row.name for row in SOURCE_FORMATS.values() if not row.contents] == []
