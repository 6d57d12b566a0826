"""Slots in core/formats/flatbuffer/slots.py, compared with the tables of both schemas."""

import inspect

import pytest

from odt.core.formats.flatbuffer import slots
from odt.core.formats.flatbuffer.schema_tables import TABLES_OF, fields_of

CLASSES = [cls for _, cls in inspect.getmembers(slots, inspect.isclass)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_slots_are_those_of_the_schema(cls: type) -> None:
    table = cls.__name__.removesuffix("Slot")
    schemas = [schema for schema, tables in TABLES_OF.items() if table in tables]
    fields = {f.name.upper(): f.slot for schema in schemas for f in fields_of(table, schema)}
    values = {name: slot for name, slot in vars(cls).items() if name.isupper()}
    assert values
    assert values.items() <= fields.items()
