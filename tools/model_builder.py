"""The builder of small models, under the name by which tests and tools import it."""

from odt.core.export.model_builder import ModelBuilder, table

__all__ = ["ModelBuilder", "table"]
