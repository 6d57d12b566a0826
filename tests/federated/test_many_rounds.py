"""A federation gathers no memory, threads or files; tests/accept has 1,000 rounds."""

from pathlib import Path

from support.many_rounds import growth

OF_A_ROUND = 4000  # bytes: its result in the history, and in the text of log and checkpoint


def test_rounds_gather_nothing_but_their_results(tmp_path: Path) -> None:
    grown = growth(40, tmp_path)
    assert max(grown["threads"], grown["files"]) <= 0  # threads that just ended may still be listed
    assert grown["memory"] < OF_A_ROUND
