"""Tests are sentences; helpers over fixtures; numbers say where they come from."""

from importlib.util import find_spec

import pytest
from support.limits import FOREVER

# make accept ONLY=flower runs these in an environment of its own; Flower alone is not enough:
# `flwr run` offline needs Ray, and epsilon dp-accounting.
FLOWER = ("flwr", "ray", "dp_accounting")
collect_ignore_glob = [] if all(map(find_spec, FLOWER)) else ["flower/*"]


@pytest.fixture(autouse=True)
def _checks_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `odt check` finds must not depend on the machine's speed."""
    monkeypatch.setattr("odt.core.training.loss_probe.MAX_SECONDS", FOREVER)
