"""Sizes, times, figures and tables as text."""

import re
from collections.abc import Collection, Sequence
from typing import Any

# Unit in upper case → bytes.
UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
}
SMALL, HUGE = 0.001, 1e7  # values below and from these are printed with an exponent


class Text(str):
    """Lines of text, which a notebook and the interactive interpreter show as lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Printed:
    """Base class of results that a notebook shows as `print` does."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def figure(value: float) -> str:
    """Formats a loss or metric: four decimals, or four digits of a small or huge value."""
    has_exponent = 0 < abs(value) < SMALL or abs(value) >= HUGE
    return f"{value:.3e}" if has_exponent else f"{value:.4f}"


def plural(count: int, one: str, several: str = "") -> str:
    """Returns the form of a noun behind a number.

    Args:
        count: the number.
        one: the noun for 1.
        several: the noun for other numbers; empty for the first with an s.
    """
    return one if count == 1 else several or f"{one}s"


def quantity(count: int, one: str, several: str = "") -> str:
    """Returns a number and its noun: 1 sample, 3 samples; arguments as of `plural`."""
    return f"{count} {plural(count, one, several)}"


def duration(seconds: float) -> str:
    """Formats a time: 8.3s, 4m10s, 1h05m."""
    if seconds < 59.95:  # which has one decimal; above, 60.0s
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def size(nbytes: int) -> str:
    """Formats a number of bytes: 812 B, 1.6 kB, 14 MB."""
    value, unit = float(nbytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:  # not 1000 kB, which is 1.0 MB
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 9.95 else f"{value:.1f} {unit}"


def parse_size(text: str) -> int | None:
    """Returns the bytes of a size such as 1500kB, 1.5MB or 64MiB; None if the text is no size."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d+)?) ?([a-z]*)", text, re.IGNORECASE)
    if match is None or match[2].upper() not in UNITS:
        return None
    return int(float(match[1]) * UNITS[match[2].upper()])


def table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Formats a table; returns its lines, with two spaces between columns.

    Args:
        rows: the cells of each row; all rows have the same length.
        right: numbers of the right-aligned columns.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
