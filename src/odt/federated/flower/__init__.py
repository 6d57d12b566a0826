"""Federated learning with Flower: a ClientApp, a ServerApp and a grid that checks replies.

Needs `pip install 'odt[flower]'`. `odt docs flower` has worked examples.
"""

import importlib
from typing import Any

from odt.errors import MissingPackageError

# Public name → its module, loaded when the name is first used; type checkers read __init__.pyi.
PUBLIC = {
    "client_app": "odt.federated.flower.client",
    "server_app": "odt.federated.flower.server",
    "run_in_process": "odt.federated.flower.in_process",
    "CheckedGrid": "odt.federated.flower.checked_grid",
    "make_keys": "odt.federated.flower.keys",
    "client_of": "odt.federated.flower.settings",
    "trainer_of": "odt.federated.flower.settings",
}


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(PUBLIC[name])
    except ModuleNotFoundError as e:
        if (e.name or "").split(".")[0] not in ("flwr", "cryptography"):
            raise
        raise MissingPackageError(
            "odt.federated.flower: Flower must be installed, but is not. Install it with "
            "pip install 'odt[flower]'."
        ) from None
    return getattr(module, name)
