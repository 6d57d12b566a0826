"""The collector of cyclic garbage is as it was after a pause."""

import gc
import sys
import weakref
from collections.abc import Iterator

import pytest

from odt.collector import paused_collector, quick_imports


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_restores_the_state_also_after_an_error(enabled: bool) -> None:
    if not enabled:
        gc.disable()

    @paused_collector()
    def fail() -> None:
        assert not gc.isenabled()
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError, match=r"^$"):
            fail()
        assert gc.isenabled() == enabled


def test_pauses_may_be_nested() -> None:
    with paused_collector():
        with paused_collector():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_imports_are_old_and_what_the_user_froze_stays_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with quick_imports():
        loaded_before = [gc]
    assert not any(each is loaded_before for each in gc.get_objects(generation=2))
    with quick_imports():
        made = [gc]
        monkeypatch.setitem(sys.modules, "a_new_module", gc)
    assert any(each is made for each in gc.get_objects(generation=2))
    gc.freeze()
    try:
        with quick_imports():
            monkeypatch.setitem(sys.modules, "another_module", gc)
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_no_collection_follows_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    collections: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append(phase)

    gc.callbacks.append(note)
    try:
        with quick_imports():
            made = [[k] for k in range(3 * gc.get_threshold()[0])]
            monkeypatch.setitem(sys.modules, "a_new_module", gc)
    finally:
        gc.callbacks.remove(note)
    assert made
    assert not collections


def test_cycles_of_a_loop_of_plans_are_collected() -> None:
    class Cycle:
        pass

    gone = []
    for _ in range(2000):
        with paused_collector():
            cycle = Cycle()
        cycle.own = cycle  # type: ignore[attr-defined]
        gone.append(weakref.ref(cycle))
    assert gone[0]() is None
