"""Slots in core/formats/flatbuffer/slots.py, compared with the table of the schema."""

import inspect

import pytest

from odt.core.formats.flatbuffer import slots
from odt.core.formats.flatbuffer.schema_tables import fields_of

CLASSES = [cls for _, cls in inspect.getmembers(slots, inspect.isclass)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_slots_are_those_of_the_schema(cls: type) -> None:
    fields = {f.name.upper(): f.slot for f in fields_of(cls.__name__.removesuffix("Slot"))}
    values = {name: slot for name, slot in vars(cls).items() if name.isupper()}
    assert values
    assert values.items() <= fields.items()
