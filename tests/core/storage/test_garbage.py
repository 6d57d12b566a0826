"""The collector of cyclic garbage is as it was after a pause."""

import gc
from collections.abc import Iterator

import pytest

from odt.collector import paused_collector


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


def test_what_a_pause_leaves_is_old_and_what_the_user_froze_stays_frozen() -> None:
    gc.unfreeze()  # what commands froze in this process
    with paused_collector():
        made = [gc]
    assert any(each is made for each in gc.get_objects(generation=2))
    gc.freeze()
    try:
        with paused_collector():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
