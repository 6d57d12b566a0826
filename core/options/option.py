"""Option: the row of an option of a training run.

The row defines the option on the command line, the check of its value, the field of training info
and of checkpoints, the settings of federations and the line in docs/reference.md.
"""

from collections.abc import Collection, Mapping
from dataclasses import field, fields
from typing import Any, Literal, TypeAlias

from odt.dataclass import dataclass, replace

# Groups of options, which are the sections of the help.
DATA = "Data"
LOSS = "Loss and metrics"
OPTIMIZER = "Optimizer"
SELECTION = "What trains"
MEMORY = "Memory and cores"
VALIDATION = "Validation"
EXPORT = "Checkpoints and export"
FEDERATION = "Federation"
REPLAY = "Stored features"
OTHER = "Other options"
# Where an option is stored. An option of circle+ metadata is in checkpoints, too.
NOWHERE = "not stored"
COMPARED = "checkpoint, to report that it has changed"
CHECKPOINT = "checkpoint"
CIRCLE_PLUS = "circle+, checkpoint"

MAX_SAMPLES = 2**31 - 1  # in a batch: the limit of circle+


@dataclass(frozen=True, slots=True)
class Number:
    """A real number.

    Attributes:
        rule: what the number must be, for messages.
        least: smallest value.
        most: largest value; None for no limit.
        open_least, open_most: whether a value must be above `least`, or below `most`.
        remedy: what to do about another number, for messages.
    """

    rule: str
    least: float = 0
    most: float | None = None
    open_least: bool = False
    open_most: bool = False
    remedy: str = ""

    def holds(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        above = value > self.least if self.open_least else value >= self.least
        if self.most is None:
            return above
        return above and (value < self.most if self.open_most else value <= self.most)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of at least `least` and at most `most`; None for no limit."""

    least: int
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """One of several words.

    Attributes:
        words: the words, as Python spells them.
        implied: word of an option without a value; empty if it needs one.
        onert: onert_train's numbers for words.
        first_zero: word that 0 stood for in the first onert_train.
    """

    words: Collection[str]
    implied: str = ""
    onert: Mapping[str, str] = field(default_factory=dict)
    first_zero: str = ""


@dataclass(frozen=True, slots=True)
class Switch:
    """True or False.

    Attributes:
        off: whether the command line has --no-NAME, too.
    """

    off: bool = False


@dataclass(frozen=True, slots=True)
class File:
    """The path of a file or folder.

    Attributes:
        written: whether the file is written; no recipe may name it.
    """

    written: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """A value that has a form of its own on the command line, such as 64MB.

    Attributes:
        name: the form, a key of FORMS in cli/options/rows.py.
        values: description of the values, for docs/reference.md.
        kind: kind of the value in Python; None if the code that reads it checks it.
        several: type in Python of the values of an option that the command line takes several
            times; the entries of a mapping are pairs. Empty for an option of one value.
    """

    name: str
    values: str
    kind: Number | Whole | None = None
    several: Literal["", "list", "mapping"] = ""


@dataclass(frozen=True, slots=True)
class RowName:
    """The name of a row of a register.

    Attributes:
        register: LOSSES, OPTIMIZERS or SCHEDULES. The name of a loss or a schedule is part of a
            text that may hold hyper-parameters, as huber:delta=0.5.
        also: further words, such as none for no loss.
        first_zero: row that 0 stood for in the first onert_train.
    """

    register: Collection[str]
    also: tuple[str, ...] = ()
    first_zero: str = ""


@dataclass(frozen=True, slots=True)
class ByOutput:
    """Values of single outputs, by name or number: pairs, each an option OUTPUT=VALUE.

    Attributes:
        values: kind of the values.
        word: word for a value in the help.
    """

    values: Number | RowName
    word: str


@dataclass(frozen=True, slots=True)
class ByPattern:
    """Numbers of weights by patterns of their names or operators: pairs, each GLOB=NUMBER.

    Attributes:
        numbers: bounds of the numbers.
        word: word for a number in the help.
        has_default: whether the pattern may be left out.
    """

    numbers: Number
    word: str
    has_default: bool = False


Kind: TypeAlias = Number | Whole | Word | Switch | File | Form | RowName | ByOutput | ByPattern


@dataclass(frozen=True, slots=True)
class Option:
    """The row of an option.

    Attributes:
        default: value if neither the user nor a file gives one.
        kind: type and bounds.
        group: section of the help.
        help: text of the help, which begins with the term of the field and names options as Python
            does, `ema=`.
        stored: NOWHERE, COMPARED, CHECKPOINT or CIRCLE_PLUS.
        metavar: word for the value in the help; None for that of the kind.
        shown_default: default as the help shows it; None to show none.
        federated: whether clients of federations have it: `odt fed` and Flower apps.
        clients: default of clients of federations, if it is another; None for the same.
        common: whether the help of a command with many options shows it.
        spellings: names on the command line without dashes, the usual one first; empty for `name`
            with hyphens.
        of_train: default of `odt train`, if it is not that of Python.
        compiled: whether C programs of `odt compile` have it; for options of the steps of training.
        name: name in Python: that of its field, or its key in a table.
    """

    default: Any
    kind: Kind
    group: str
    help: str
    stored: str = NOWHERE
    metavar: str | None = None
    shown_default: str | None = None
    federated: bool = False
    clients: Any = None
    common: bool = False
    spellings: tuple[str, ...] = ()
    of_train: Any = None
    compiled: bool = False
    name: str = ""

    @property
    def word(self) -> str:
        """The usual name on the command line without dashes, as in recipes and Flower apps."""
        return self.spellings[0] if self.spellings else self.name.replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """The names on the command line, the usual one first."""
        return tuple(f"--{word}" for word in self.spellings or (self.word,))


def option(default: Any, kind: Kind, group: str, help: str, **attributes: Any) -> Any:
    """A field of a dataclass that is the row of an option."""
    row = Option(default, kind, group, help, **attributes)
    return field(default=default, metadata={Option: row})


def table(**rows: Option) -> Mapping[str, Option]:
    """Returns rows by name, with their `name` set."""
    return {name: replace(row, name=name) for name, row in rows.items()}


def rows_of(cls: type) -> Mapping[str, Option]:
    """Returns the rows of a dataclass by the names of their fields."""
    rows = [f for f in fields(cls) if Option in f.metadata]
    return table(**{row.name: row.metadata[Option] for row in rows})
