"""Click types of option values: words, sizes, intervals, NAME=VALUE.

Modules of the engine are imported when a value is converted, because help does not need them.
"""

import json
import math
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from odt.cli.options.completion import items, list_items
from odt.cli.options.sections import is_typed, usual_name
from odt.cli.output.spelling import spell
from odt.errors import OptionError
from odt.kernels.registry import LOSSES, Rows
from odt.kernels.rows.row_index import SCHEDULES
from odt.text import parse_size

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from odt.kernels.rows.scheduledef import Schedule

ABOVE_ZERO = "0*[1-9][0-9]{0,17}"  # text of a whole number that int64 holds


class Word(click.ParamType[str]):
    """A choice among words in any case, with - or _, or among onert_train's numbers for them.

    The parsed value has underscores, as names in Python do.

    Args:
        words: accepted words, or a registry.
        ids: numbers of the current onert_train → words; a registry's rows have their own.
        first_zero: meaning of 0 in the first onert_train; undefined in the current one.
        also: further accepted words, listed after the others.
    """

    name = "word"

    def __init__(
        self,
        words: Collection[str],
        ids: Mapping[str, str] | None = None,
        first_zero: str = "",
        also: tuple[str, ...] = (),
    ) -> None:
        self._words = words
        self._ids = ids or {}
        self._also = also
        self.first_zero = first_zero

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are accepted."""
        return (*self._words, *self._also)

    @property
    def ids(self) -> Mapping[str, str]:
        """onert_train's number → word."""
        return self._words.onert_numbers if isinstance(self._words, Rows) else self._ids

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return f"[{'|'.join(map(_kebab, self.words))}]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Returns the words that begin with what the user has typed."""
        return items([*map(_kebab, self.words)], ctx, param, incomplete)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Parses the text of a value."""
        word = re.sub(r"[- ]", "_", str(value).strip().lower())
        if word.isdecimal():
            word = self.ids.get(word, word)
        if word in self._words:
            return word
        by_spelling = {name.replace("-", "_"): name for name in self.words}
        if word in by_spelling:
            return by_spelling[word]
        if word == "0" and self.first_zero:
            ids = ", ".join(f"{n} {_kebab(name)}" for n, name in self.ids.items())
            self.fail(
                f"0 is undefined in today's onert_train and was {_kebab(self.first_zero)} in the "
                f"first. Give a word, or today's {ids}.",
                param,
                ctx,
            )
        import difflib

        close = difflib.get_close_matches(word, by_spelling, n=1)
        hint = f" Did you mean {_kebab(close[0])}?" if close else ""
        words = ", ".join(map(_kebab, self.words))
        self.fail(f"must be one of {words}, but got {value}.{hint}", param, ctx)


class LossText(Word):
    """A loss, with hyper-parameters after a colon: huber, huber:delta=0.5."""

    name = "loss"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return f"{super().get_metavar(param, ctx)}[:OPTION=VALUE,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Parses the text of a value."""
        from odt.kernels.loss_text import canonical_loss, find_loss, is_plugin
        from odt.loss import load_loss

        word, colon, options = str(value).partition(":")
        if is_plugin(str(value)):
            if not is_typed(param, ctx) and value not in LOSSES:
                self.fail(
                    f"{value} is a custom loss of a Python module and must be given again on the "
                    "command line: odt imports no module that a file names.",
                    param,
                    ctx,
                )
            return load_loss(str(value))
        name = find_loss(word) or super().convert(word, param, ctx)
        return canonical_loss(name + colon + options) if name in LOSSES else name


class NewFile(click.Path):
    """Path of a file that a command writes in one format.

    Args:
        endings: extensions of the format; empty if the command checks the extension.
        path_type: type of the value; text if left out.
    """

    def __init__(self, *endings: str, path_type: type[Any] | None = None) -> None:
        super().__init__(path_type=path_type)
        self.endings = endings

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Returns the path.

        Raises:
            OdtError: if it ends in another extension.
        """
        from odt.cli.output.output_paths import extension_of

        if self.endings and param:
            extension_of(usual_name(param), str(value), self.endings)
        return super().convert(value, param, ctx)


class OutputPath(NewFile):
    """Path of a file that a command writes. No recipe may name one."""

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Returns the path."""
        if not is_typed(param, ctx):
            name = usual_name(param) if param else "the option"
            self.fail(
                "must be left out of a recipe, which names no file to write, but got "
                f"{value}. Give {name} on the command line.",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class MetricWord(Word):
    """A metric; replace k in top-k-accuracy by a number."""

    name = "metric"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Parses the text of a value."""
        from odt.core.training.metrics import ACCURACY, find_metric, full_name

        if value in ACCURACY:
            return ACCURACY[0]
        metric = find_metric(str(value))
        return full_name(*metric) if metric else super().convert(value, param, ctx)


class ScheduleText(click.ParamType["Schedule"]):
    """A learning rate schedule: NAME or NAME:OPTION=VALUE,…."""

    name = "schedule"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return f"[{'|'.join(map(_kebab, SCHEDULES))}][:OPTION=VALUE,…]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Returns the words that begin with what the user has typed."""
        return items([*map(_kebab, SCHEDULES)], ctx, param, incomplete)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Schedule":
        """Parses the text of a value."""
        from odt.kernels.rows.schedule_text import parse_schedule
        from odt.kernels.rows.scheduledef import Schedule

        if isinstance(value, Schedule):
            return value
        try:
            return parse_schedule(str(value))
        except OptionError as e:
            import difflib

            where = "" if e.field == self.name else f"{_kebab(e.field)}: "
            close = difflib.get_close_matches(str(value), map(_kebab, SCHEDULES), n=1)
            hint = f" Did you mean {close[0]}?" if close and not where else ""
            self.fail(spell(f"{where}{e.rule}, but got {e.got}.") + hint, param, ctx)


class Finite(click.FloatRange):
    """A number within bounds that is neither NaN nor infinite."""

    name = "float"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parses the text of a value."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"must be a finite number, but got {value}.", param, ctx)
        return number


class Size(click.ParamType[int]):
    """Bytes: 1500000, 1500kB, 1.5MB (powers of ten) or 64MiB (powers of two)."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parses the text of a value."""
        parsed = parse_size(str(value))
        if parsed is None:
            self.fail(f"must be a size such as 64MB or 64MiB, but got {value}.", param, ctx)
        return parsed


class Duration(click.ParamType[float]):
    """Seconds, or hours, minutes and seconds such as 1h30m, 45m or 90s."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parses the text of a value."""
        if isinstance(value, float):
            return value
        text = str(value).strip().lower()
        match = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9}(?:\.\d{1,6})?)s?)?", text)
        total = 0.0
        if match:
            hours, minutes, seconds = map(float, match.groups("0"))
            total = 3600 * hours + 60 * minutes + seconds
        if not total:
            self.fail(f"must be a time above 0 such as 90s, 30m or 1h30m, but got {value}.")
        return total


class Interval(click.ParamType[int]):
    """Checkpoint interval: step, epoch or a number of steps, as a number of steps; 0 for epoch."""

    name = "interval"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return "[step|epoch|N]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parses the text of a value."""
        words = {"step": 1, "epoch": 0}
        text = str(value).strip().lower()
        if text in words:
            return words[text]
        if isinstance(value, int) or re.fullmatch("[1-9][0-9]{0,8}", text):
            return int(text)
        self.fail(f"must be step, epoch or a number of steps from 1, but got {value}.", param, ctx)


class Property(click.ParamType[tuple[str, str | int | float]]):
    """NAME=VALUE. The value is an integer or a float if it has that form, else a string."""

    name = "property"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | int | float]:
        """Parses the text of a value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"must be NAME=VALUE, but got {value}.", param, ctx)
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            return name, int(text)
        if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", text, re.IGNORECASE):
            return name, float(text)
        return name, text


class GlobValue(click.ParamType[tuple[str, float]]):
    """GLOB=NUMBER: a pattern of weight names, and a number above 0.

    Args:
        what: name of the number in help and messages.
        maximum: largest accepted number.
    """

    def __init__(self, what: str, maximum: float = math.inf) -> None:
        self.name = what
        self._maximum = maximum

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return f"GLOB={self.name.upper()}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Parses the text of a value."""
        if isinstance(value, tuple):
            return value
        glob, _, text = str(value).rpartition("=")
        number = float(text) if re.fullmatch(r"\d{0,9}\.?\d{1,9}(e[+-]?\d)?", text) else 0.0
        if not glob or not 0 < number <= self._maximum:
            limit = "" if self._maximum == math.inf else f" and at most {self._maximum:g}"
            self.fail(
                f"must be GLOB={self.name.upper()} with a {self.name} above 0{limit}, "
                f"but got {value}.",
                param,
                ctx,
            )
        return glob, number


class GlobRate(click.ParamType[tuple[str, float]]):
    """[GLOB=]RATE: a pattern, empty if left out, and a probability below 1."""

    name = "glob=rate"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return "[GLOB=]RATE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Parses the text of a value."""
        if isinstance(value, tuple):
            return value
        glob, _, text = str(value).rpartition("=")
        if not re.fullmatch(r"0|0?\.\d{1,9}", text):
            self.fail(
                f"must be a rate below 1, such as 0.2 or head/*=0.2, but got {value}.", param, ctx
            )
        return glob, float(text)


class ClassWeights(click.ParamType[str | dict[int, float]]):
    """balanced, CLASS=WEIGHT,…, or a JSON file with weights by class."""

    name = "class weight"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return "[balanced|CLASS=WEIGHT,…|FILE]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | dict[int, float]:
        """Parses the text of a value."""
        from odt.core.data.sample_weights import BALANCED
        from odt.core.storage.reading import read_input, reading

        if not isinstance(value, str) or value == BALANCED:
            return value  # type: ignore[no-any-return]
        pairs: Any = [item.split("=", 1) for item in value.split(",")]
        if "=" not in value:
            with reading(value, "must be a JSON object of weights by class"):
                pairs = list(json.loads(read_input(value, "weights by class")).items())
        try:
            weights = {int(label): float(weight) for label, weight in pairs}
            if len(weights) < len(pairs):
                raise ValueError("a class twice")
            return weights
        except (TypeError, ValueError):
            self.fail(
                f"must be {BALANCED}, CLASS=WEIGHT,… for different classes such as 0=1,1=5, or a "
                f"JSON file, but got {value}.",
                param,
                ctx,
            )


class Numbers(click.ParamType[tuple[int, ...]]):
    """N,N,…: whole numbers above 0."""

    name = "numbers"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return "N,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Parses the text of a value."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(re.fullmatch(ABOVE_ZERO, part) for part in parts):
            self.fail(f"must be whole numbers above 0 such as 64,32, but got {value}.", param, ctx)
        return tuple(map(int, parts))


class Augmentations(click.ParamType[str]):
    """NAME[:VALUE],…: augmentations of training samples."""

    name = "text"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Returns the names that begin with what the user has typed after the last comma."""
        from odt.core.data.augmentations.registry import BY_WORD

        return list_items(BY_WORD, ctx, param, incomplete)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the text, which the trainer parses."""
        return str(value)


class ClassList(click.ParamType["int | tuple[str, ...]"]):
    """N or NAME,NAME,…: the number of classes, or their names."""

    name = "classes"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the forms of a value, for the help."""
        return "N|NAME,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | tuple[str, ...]:
        """Parses the text of a value."""
        names = tuple(name.strip() for name in str(value).split(","))
        if not all(names):
            self.fail(f"must be a number or names such as red,white, but got {value}.", param, ctx)
        if len(names) > 1 or not re.fullmatch("-*[0-9]+", names[0]):
            return names
        if not re.fullmatch(ABOVE_ZERO, names[0]):
            self.fail(f"must be a number of at least 1, but got {value}.", param, ctx)
        return int(value)


class InputShape(click.ParamType[tuple[str, tuple[int, ...]]]):
    """[NAME=]SHAPE: an input and its shape, such as 1x16000; a single input needs no name."""

    name = "input shape"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return "[NAME=]1x16000"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        """Parses the text of a value."""
        if isinstance(value, tuple):
            return value
        name, _, text = str(value).rpartition("=")
        if not re.fullmatch(r"[1-9][0-9]{0,9}(x[1-9][0-9]{0,9})*", text):
            self.fail(f"must be a shape such as 1x16000 or NAME=1x16000, but got {value}.")
        return name, tuple(map(int, text.split("x")))


class InputValue(click.ParamType[tuple[str, Any]]):
    """NAME=VALUE: an input and its value: a number, or numbers with commas."""

    name = "input value"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return "NAME=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        """Parses the text of a value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).rpartition("=")
        try:
            numbers = [_number(word) for word in text.split(",")]
        except ValueError:
            numbers = []
        if not name or not equals or not numbers:
            self.fail(f"must be NAME=VALUE with numbers, such as sr=16000, but got {value}.")
        return name, numbers[0] if len(numbers) == 1 else numbers


def _number(text: str) -> int | float:
    """Parses an integer, or else a float; raises ValueError for other text."""
    try:
        return int(text)
    except ValueError:
        return float(text)


class OfOutput(click.ParamType[tuple[str, Any]]):
    """OUTPUT=VALUE: a value for one model output, given by its tensor's name or its number.

    Args:
        value: type of the text after the name.
        metavar: form of the whole argument, for help and messages.
    """

    name = "of output"

    def __init__(self, value: click.ParamType[Any], metavar: str) -> None:
        self.value = value
        self.metavar = metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Returns the form of a value, for the help."""
        return self.metavar

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        """Parses the text of a value."""
        if isinstance(value, tuple):
            return value
        # Names of tensors may contain equals signs, and so may values: huber:delta=0.5.
        words = str(value).split("=")
        for k in range(len(words) - 1, 1, -1):
            with suppress(click.BadParameter):
                return "=".join(words[:k]), self.value.convert("=".join(words[k:]), param, ctx)
        if len(words) == 1 or not words[0]:
            self.fail(f"must be {self.metavar}, but got {value}.", param, ctx)
        return words[0], self.value.convert("=".join(words[1:]), param, ctx)


def _kebab(word: str) -> str:
    return word.replace("_", "-")
