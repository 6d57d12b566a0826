"""Tests are sentences; helpers over fixtures; numbers say where they come from."""

import pytest
from support.limits import FOREVER


@pytest.fixture(autouse=True)
def _checks_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `odt check` finds must not depend on the machine's speed."""
    monkeypatch.setattr("odt.core.training.self_test.MOST_SECONDS", FOREVER)
