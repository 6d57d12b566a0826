"""Cells of tables: what a column holds, and the numbers that its cells become.

A column holds numbers, also as spreadsheets write them (1.234,50 or $5.00), yes and no, words,
several numbers in a cell, or dates. Its kind is found from the first rows of the training data and
stands in the preprocessing record, so that new rows are read alike.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from odt.dataclass import dataclass

MISSING = frozenset([
    "", "?", "na", "n/a", "nan", "null", "none", "<na>", "#n/a", "#na", "n.a.", "#null!",
    "#div/0!", "#value!", "#ref!", "#num!", "#name?",
])  # fmt: skip
DASHES = frozenset(["-", "--", ".", "…", "–", "—"])  # a missing number
# Pairs of words for 1 and 0; a column has words of one pair.
PAIRS = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("on", "off"))
BOOLEANS = {word: 1.0 - k for pair in PAIRS for k, word in enumerate(pair)}
PLAIN, POINT, COMMA = "plain", "point", "comma"  # styles of numbers
EXPONENT = r"(?:[eE][+-]?\d+)?"
STYLES = {
    POINT: re.compile(rf"[+-]?(?:\d{{1,3}}(?:,\d{{3}})+|\d*)(?:\.\d*)?{EXPONENT}"),
    COMMA: re.compile(rf"[+-]?(?:\d{{1,3}}(?:\.\d{{3}})+|\d*)(?:,\d*)?{EXPONENT}"),
}
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+")
MONEY = re.compile(r"^(?:[$€£¥₹]|USD|EUR|GBP|CHF)\s*|\s*(?:[$€£¥₹%]|USD|EUR|GBP|CHF)$")
BETWEEN = re.compile(r"(?<=\d)[ '’\u00a0\u2009\u202f](?=\d{3}(?:\D|$))")
BRACKETS = str.maketrans("[](){};", "       ")
TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
DAYS = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%Y/%m/%d",
        "%Y.%m.%d", "%d-%m-%Y", "%m-%d-%Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y",
        "%b %d, %Y", "%B %d, %Y", "%a %b %d %Y")  # fmt: skip
ISO = "iso"
MAX_DATE = 40  # characters
DATE = re.compile(r"\d[-./:]\d|\d[- ][A-Za-z]{3}|[A-Za-z]{3},? \d")  # in every date
FORMATS = (ISO, *(f"{day}{time}" for day in DAYS for time in TIMES), "%H:%M", "%H:%M:%S")
DAY, WEEK, YEAR = "time of day", "weekday", "time of year"
TURNS = {WEEK: 7.0, YEAR: 366.0, DAY: 86400.0}  # length of a period, in days, days and seconds
LEAST_NUMBERS = 0.8  # of the cells of a column of numbers
MAX_HEAD = 200  # cells with which each format of dates is tried

Numbers: TypeAlias = Sequence[float]


def is_missing(cell: str) -> bool:
    """Whether a cell is empty or says that there is no value."""
    return cell.strip().lower() in MISSING


def is_number(cell: str) -> bool:
    """Whether a cell is a number or missing."""
    return number_in(cell) is not None or is_missing(cell)


def number_in(cell: str) -> float | None:
    """Returns the number in a cell, as program text has it; None for other text."""
    try:
        return float(cell)
    except ValueError:
        return None


def looks_like_value(cell: str) -> bool:
    """Whether a cell is no name of a column: a number in any style, yes or no, a date, several."""
    text = _bare(cell)
    styled = any(c.isdigit() for c in text) and any(s.fullmatch(text) for s in STYLES.values())
    return (
        is_number(cell)
        or styled
        or cell.strip().lower() in ("true", "false")
        or _numbers_in(cell) is not None
        or any(_date(cell, form) is not None for form in _likely(cell))
    )


@dataclass(frozen=True, slots=True)
class NumberCells:
    """Numbers.

    Attributes:
        style: plain as in program text; point or comma for the decimal sign, with the other one
            between thousands, and with signs of currency.
        width: how many numbers a cell becomes.
    """

    style: str = PLAIN
    width: int = 1

    def values(self, cell: str) -> Numbers:
        if is_missing(cell) or cell.strip() in DASHES:
            return (math.nan,)
        text = cell
        if self.style != PLAIN:
            text = _bare(cell)
            if STYLES[self.style].fullmatch(text) and any(c.isdigit() for c in text):
                thousands, decimal = (",", ".") if self.style == POINT else (".", ",")
                text = text.replace(thousands, "").replace(decimal, ".")
        return (float(text),)

    def names(self, column: str) -> list[str]:
        return [column]

    def describe(self) -> dict[str, Any]:
        return {} if self.style == PLAIN else {"number": self.style}


@dataclass(frozen=True, slots=True)
class BooleanCells:
    """Yes and no, true and false: 1 and 0."""

    width: int = 1

    def values(self, cell: str) -> Numbers:
        if is_missing(cell):
            return (math.nan,)
        value = BOOLEANS.get(cell.strip().lower())
        value = float(cell) if value is None else value
        if value not in (0, 1):
            raise ValueError("must hold yes or no, 1 or 0")
        return (value,)

    def names(self, column: str) -> list[str]:
        return [column]

    def describe(self) -> dict[str, Any]:
        return {"booleans": True}


@dataclass(frozen=True, slots=True)
class VectorCells:
    """Several numbers in a cell, separated by spaces or commas, such as the pixels of an image."""

    width: int

    def values(self, cell: str) -> Numbers:
        if is_missing(cell):
            return (math.nan,) * self.width
        numbers = _numbers_in(cell)
        if numbers is None or len(numbers) != self.width:
            raise ValueError(f"must hold {self.width} numbers")
        return numbers

    def names(self, column: str) -> list[str]:
        return [f"{column}[{k}]" for k in range(self.width)]

    def describe(self) -> dict[str, Any]:
        return {"numbers": self.width}


@dataclass(frozen=True, slots=True)
class DateCells:
    """Dates: sine and cosine of the weekday, of the time of year and of the time of day.

    Attributes:
        form: format of `strptime`, or iso.
        parts: which of the three.
    """

    form: str
    parts: tuple[str, ...] = (WEEK, YEAR, DAY)

    @property
    def width(self) -> int:
        return 2 * len(self.parts)

    def values(self, cell: str) -> Numbers:
        if is_missing(cell):
            return (math.nan,) * self.width
        date = _date(cell, self.form)
        if date is None:
            raise ValueError(f"must hold dates of the form {self.form}")
        seconds = date.hour * 3600 + date.minute * 60 + date.second
        time = {WEEK: date.weekday(), YEAR: date.timetuple().tm_yday - 1, DAY: seconds}
        angles = [2 * math.pi * time[part] / TURNS[part] for part in self.parts]
        return [function(angle) for angle in angles for function in (math.sin, math.cos)]

    def names(self, column: str) -> list[str]:
        return [f"{column} {part} {f}" for part in self.parts for f in ("sin", "cos")]

    def describe(self) -> dict[str, Any]:
        return {"date": self.form, "parts": [*self.parts]}


@dataclass(frozen=True, slots=True)
class WordCells:
    """Words: the number of each word; a word that is not known has the number −1.

    Attributes:
        numbers: word → number; grows unless the words are known.
        is_known: whether the words are those of the training data.
        unknown: word that is not known → how often it came.
    """

    numbers: dict[str, int]
    is_known: bool
    unknown: dict[str, int]
    width: int = 1

    def values(self, cell: str) -> Numbers:
        word = cell.strip()
        if is_missing(word):
            return (math.nan,)
        if word in self.numbers:
            return (self.numbers[word],)
        if self.is_known:
            self.unknown[word] = self.unknown.get(word, 0) + 1
            return (-1,)
        self.numbers[word] = len(self.numbers)
        return (self.numbers[word],)

    def names(self, column: str) -> list[str]:
        return [f"{column}={word}" for word in sorted(self.numbers)]

    def describe(self) -> dict[str, Any]:
        return {"words": sorted(self.numbers)}


# `values` returns the numbers of a cell, NaN for a missing one; ValueError means that the cell does
# not fit. `width` is their count. `names` returns a name for each, `describe` what a record holds.
Cells: TypeAlias = NumberCells | BooleanCells | VectorCells | DateCells | WordCells


def recorded_cells(column: Mapping[str, Any]) -> Cells:
    """Returns what a column of a preprocessing record holds.

    Raises:
        KeyError, TypeError, ValueError: for values that `describe` does not write.
    """
    if "words" in column:
        numbers = {str(word): k for k, word in enumerate(column["words"])}
        return WordCells(numbers, is_known=True, unknown={})
    if "numbers" in column:
        return VectorCells(int(column["numbers"]))
    if "date" in column:
        parts = tuple(part for part in TURNS if part in column["parts"])
        return DateCells(str(column["date"]), parts)
    if column.get("booleans"):
        return BooleanCells()
    style = str(column.get("number", PLAIN))
    if style not in (PLAIN, *STYLES):
        raise ValueError(style)
    return NumberCells(style)


def find_cells(cells: Sequence[str], delimiter: str) -> Cells | None:
    """Returns what a column holds, by its first cells; None for text.

    A few cells of text among numbers are errors in a column of numbers.

    Args:
        cells: cells of the column.
        delimiter: delimiter of the table, which tells decimal commas from those between thousands.
    """
    if all(number_in(cell) is not None for cell in cells):
        return NumberCells()
    values = [c for c in cells if not is_missing(c) and c.strip() not in DASHES]
    if (kind := _find(values, delimiter)) is not None:
        return kind
    usual = [c for c in values if any(s.fullmatch(_bare(c)) for s in STYLES.values())]
    return _find(usual, delimiter) if len(usual) >= LEAST_NUMBERS * len(values) else None


def _find(values: Sequence[str], delimiter: str) -> Cells | None:
    """Returns what cells hold of which none is missing; None if they have nothing in common."""
    if all(map(is_number, values)):
        return NumberCells()
    words = {c.strip().lower() for c in values} - {"0", "1"}
    if any(words <= {*pair} for pair in PAIRS):
        return BooleanCells()
    texts = [_bare(c) for c in values]
    if all(any(ch.isdigit() for ch in t) for t in texts):
        for style in (POINT, COMMA) if delimiter == "," else (COMMA, POINT):
            if all(STYLES[style].fullmatch(t) or is_number(t) for t in texts):
                return NumberCells(style)
    numbers = _numbers_in(values[0])
    if numbers is not None and all(_numbers_in(c) is not None for c in values[:MAX_HEAD]):
        return VectorCells(len(numbers))
    return None


def has_thousands(cells: Sequence[str]) -> bool:
    """Whether all cells are whole numbers, some with points between thousands: 1.234."""
    values = [c.strip() for c in cells if not is_missing(c)]
    marked = [bool(THOUSANDS.fullmatch(c)) for c in values]
    return any(marked) and all(m or c.isdecimal() for m, c in zip(marked, values, strict=True))


def find_dates(cells: Sequence[str], form: str = "") -> list[DateCells]:
    """Returns the forms of dates that all cells have.

    Args:
        cells: first cells of a column.
        form: format of `strptime`; empty for all usual ones.
    """
    values = [c for c in cells if not is_missing(c)]
    forms = [form] if form else _likely(values[0]) if values else []
    possible = []
    for candidate in forms:
        if any(_date(cell, candidate) is None for cell in values[:MAX_HEAD]):
            continue
        dates = [date for cell in values if (date := _date(cell, candidate)) is not None]
        if len(dates) == len(values):
            possible.append(DateCells(candidate, _parts(dates, candidate)))
    return possible


def _parts(dates: Sequence[datetime], form: str) -> tuple[str, ...]:
    """Returns the parts of dates that their form has; the time of day if it is not always 0:00."""
    timed = any((d.hour, d.minute, d.second) != (0, 0, 0) for d in dates)
    dated = form == ISO or "%d" in form
    return (*((WEEK, YEAR) if dated else ()), *((DAY,) if timed or not dated else ()))


def _likely(cell: str) -> list[str]:
    """Returns the formats of dates that a cell has."""
    if len(cell) > MAX_DATE or not DATE.search(cell):
        return []
    return [form for form in FORMATS if _date(cell, form) is not None]


def _date(cell: str, form: str) -> datetime | None:
    """Returns the date of a cell; None if it does not have the form."""
    text = cell.strip()
    try:
        if form != ISO:
            return datetime.strptime(text, form)
        return None if text.isdecimal() else datetime.fromisoformat(text)
    except ValueError:
        return None


def _bare(cell: str) -> str:
    """Returns a number without signs of currency and spaces between thousands; (5) is −5."""
    text = cell.strip()
    if text.startswith("(") and text.endswith(")"):
        text = f"-{text[1:-1]}"
    sign = text[:1] if text[:1] in "+-" else ""
    text = MONEY.sub("", MONEY.sub("", text[len(sign) :].strip()))
    return sign + BETWEEN.sub("", text)


def _numbers_in(cell: str) -> list[float] | None:
    """Returns the numbers of a cell, separated by spaces or commas; None for fewer than two."""
    text = cell.translate(BRACKETS)
    parts = text.replace(", ", " ").split() if " " in text.strip() else text.split(",")
    if len(parts) < 2:
        return None
    try:
        return [math.nan if is_missing(p) else float(p) for p in parts]
    except ValueError:
        return None
