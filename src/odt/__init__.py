"""Trains the Circle or TFLite model file that is already shipped, on the device it runs on."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:  # the table below, for type checkers
    from odt.errors import DataError as DataError
    from odt.errors import ModelError as ModelError
    from odt.errors import OdtError as OdtError
    from odt.errors import OptionError as OptionError
    from odt.errors import ShapeError as ShapeError
    from odt.errors import TrainingError as TrainingError
    from odt.errors import UnsupportedError as UnsupportedError

# Public name → its module, loaded when the name is first used: `import odt` stays instant.
FACE = {
    "DataError": "odt.errors",
    "ModelError": "odt.errors",
    "OdtError": "odt.errors",
    "OptionError": "odt.errors",
    "ShapeError": "odt.errors",
    "TrainingError": "odt.errors",
    "UnsupportedError": "odt.errors",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in FACE:
            raise AttributeError(f"module 'odt' has no attribute {name!r}")
        value = getattr(importlib.import_module(FACE[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *FACE})
