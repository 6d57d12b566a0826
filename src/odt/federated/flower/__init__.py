"""Federated learning with Flower: a ClientApp, a ServerApp and a grid that checks replies.

Needs `pip install 'odt[flower]'`. docs/flower.md has worked examples.
"""

import importlib
from typing import TYPE_CHECKING, Any

from odt.errors import OdtError

if TYPE_CHECKING:  # the table below, for type checkers
    from odt.federated.flower.checked_grid import CheckedGrid as CheckedGrid
    from odt.federated.flower.client import client_app as client_app
    from odt.federated.flower.in_process import run_in_process as run_in_process
    from odt.federated.flower.keys import make_keys as make_keys
    from odt.federated.flower.server import server_app as server_app
    from odt.federated.flower.settings import client_of as client_of
    from odt.federated.flower.settings import trainer_of as trainer_of

# Public name → its module, loaded when the name is first used.
PUBLIC = {
    "client_app": "client",
    "server_app": "server",
    "run_in_process": "in_process",
    "CheckedGrid": "checked_grid",
    "make_keys": "keys",
    "client_of": "settings",
    "trainer_of": "settings",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f"odt.federated.flower.{PUBLIC[name]}")
        except ModuleNotFoundError as e:
            if (e.name or "").split(".")[0] not in ("flwr", "cryptography"):
                raise
            raise OdtError(
                "odt.federated.flower: Flower must be installed, but is not. Install it with "
                "pip install 'odt[flower]'."
            ) from None
        return getattr(module, name)
