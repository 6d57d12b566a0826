"""Progress bars on standard error: only on a terminal, and only after two seconds."""

import sys
import time
from collections.abc import Callable
from typing import Any

DELAY = 2.0  # seconds
SHOWN: "list[Progress]" = []  # those with a bar on the terminal


def clear_bars() -> None:
    """Clears the lines of all bars for other output; the next moves draw them again."""
    for progress in SHOWN:
        progress.clear()


class Progress:
    """Progress bars with the remaining time, one after the other.

    Args:
        unit: unit of the numbers; B for bytes.
    """

    def __init__(self, unit: str = " samples") -> None:
        self._unit = unit
        self._is_terminal = sys.stderr.isatty()
        self._name = ""
        self._total: int | None = None
        self._begun = 0.0  # time of `begin`
        self._bar: Any = None  # made after DELAY

    def begin(self, name: str, total: int | None) -> None:
        """Ends the previous bar and begins a new one at 0.

        Args:
            name: text before the bar.
            total: number at the end of the bar; None if unknown.
        """
        self.close()
        self._name = name
        self._total = total
        self._begun = time.monotonic()

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """Advances the bar with a name; begins a new bar if the name is new."""
        if name != self._name:
            self.begin(name, total)
        self.move(done)

    def move(self, done: int, note: Callable[[], str] = str) -> None:
        """Advances the bar.

        Args:
            done: number of finished units.
            note: returns the text after the bar, by default none; called only while a bar is shown.
        """
        if not self._is_terminal:
            return
        if self._bar is None:
            seconds = time.monotonic() - self._begun
            if seconds < DELAY:
                return
            from tqdm import tqdm

            self._bar = tqdm(
                desc=self._name,
                total=self._total,
                unit=self._unit,
                unit_scale=self._unit == "B",
                leave=False,
                dynamic_ncols=True,
                delay=1e-9,  # not drawn at 0 before the first update
            )
            self._bar.start_t -= seconds  # the rate counts from the start
            self._bar.last_print_t -= seconds
            SHOWN.append(self)
        self._bar.set_postfix_str(note(), refresh=False)
        self._bar.update(done - self._bar.n)

    def rename(self, name: str) -> None:
        """Changes the text before the bar."""
        self._name = name
        if self._bar is not None:
            self._bar.set_description(name, refresh=False)

    def clear(self) -> None:
        """Clears the line of the bar for other output; the next move draws it again."""
        if self._bar is not None:
            self._bar.clear()

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()
            SHOWN.remove(self)
        self._bar = None
        self._name = ""
