"""Damaged updates are used or refused in one line; tests/accept has 20,000 of them."""

from support.update_mutations import try_updates


def test_damaged_updates_are_used_or_refused_in_one_line() -> None:
    results = try_updates(600, seed=1)
    assert results["used"] > 50
    assert results["refused"] > 200
