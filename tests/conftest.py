"""Tests are sentences; helpers over fixtures; numbers say where they come from."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.chromium import MISSING, PROGRAM, Chromium
from support.limits import FOREVER
from support.no_wheels import SkippingFinder

from odt.core.storage.free_memory import in_process_of

# make accept ONLY=flower runs these in an environment of its own; Flower alone is not enough:
# `flwr run` offline needs Ray, and epsilon dp-accounting.
FLOWER = ("flwr", "ray", "dp_accounting")
collect_ignore_glob = [] if all(map(find_spec, FLOWER)) else ["flower/*"]

sys.meta_path.append(SkippingFinder)

# A slow or busy machine is no failure.
settings.register_profile(
    "any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any_machine")

# They start commands and compilers, for seconds each.
SLOW = ("tests/project/", "tests/compilation/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests come first, so that short ones keep all cores busy until the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW))


@pytest.fixture(autouse=True)
def _checks_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `odt check` finds must not depend on the machine's speed."""
    monkeypatch.setattr("odt.core.training.loss_probe.MAX_SECONDS", FOREVER)


@pytest.fixture
def training_alone() -> Iterator[None]:
    """Memory budgets count training alone: the process of the tests is larger than a command's."""
    with in_process_of(0):
        yield


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    """A headless Chromium, for tests of acceptance."""
    if not PROGRAM:
        pytest.fail(MISSING, False)
    chromium = Chromium(tmp_path / "profile")
    yield chromium
    chromium.close()
