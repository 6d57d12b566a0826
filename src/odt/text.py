"""Sizes and tables as text."""

from collections.abc import Collection, Sequence


def size(nbytes: int) -> str:
    """Formats a number of bytes: 812 B, 1.6 kB, 14 MB."""
    value, unit = float(nbytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"


def table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Formats a table; returns its lines, with two blanks between columns.

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
