"""Exceptions that a user can cause.

Messages have the form “where: rule, but got values. What to do.” An exception that is not an
OdtError is a bug in odt and keeps its traceback.

Messages and warnings name options as Python does, in backticks: `batch_size=`, `shuffle=True`,
`mean_squared_error`, `Model.summary()`. The command line translates them (cli/output/spelling.py).
"""

import sys
import warnings

MAX_MESSAGE = 400  # maximum length of a message in characters
ELLIPSIS = " … "


def one_line(text: str, limit: int) -> str:
    """Returns text on one line, without its middle if it has more than `limit` characters."""
    if len(text) > limit:
        begin = limit * 2 // 3
        end = limit - begin - len(ELLIPSIS)
        text = f"{text[:begin]}{ELLIPSIS}{text[-end:]}"
    return text if text.isprintable() else one_line(escaped(text), limit)


def escaped(text: str) -> str:
    """Returns text with control characters written as Python's escape sequences."""
    if text.isprintable():
        return text
    control = {
        ord(c): c.encode("unicode_escape").decode() for c in set(text) if not c.isprintable()
    }
    return text.translate(control)


class OdtError(Exception):
    """Base class of errors that the user can correct; commands print one line and exit with 1.

    Attributes:
        details: the full text of a message that was shortened to one line, which `odt -v` prints;
            else empty.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(one_line(message, MAX_MESSAGE))
        self.details = details or (message if len(message) > MAX_MESSAGE else "")


class ModelError(OdtError):
    """A model or checkpoint file that is damaged, or cannot be read or written."""


class ShapeError(OdtError):
    """Shapes or dtypes that an operator does not accept."""


class UnsupportedError(OdtError):
    """A valid model that odt cannot train, compute or convert; the message gives the reasons."""


class DataError(OdtError):
    """Data that does not match the model, or holds values that the loss cannot use."""


class MissingPackageError(OdtError):
    """An optional package that is not installed; the message tells how to install it."""


class LostFileError(OdtError):
    """A memory-mapped file that was truncated, or could not be read, during use."""


class OptionError(OdtError):
    """An argument that is invalid, or contradicts others, the model or the data.

    Args:
        field: name of the argument; several names are joined by ", ".
        rule: what its value must be or have.
        got: the value, or the exception with the reason; None if the rule contains it.
        remedy: what to do, as complete sentences.

    Attributes:
        field, rule, got, remedy: the same.
    """

    def __init__(self, field: str, rule: str, got: object = None, remedy: str = "") -> None:
        where = ", ".join(f"`{name}=`" for name in field.split(", "))
        colon = ":" if isinstance(got, Exception) else ""
        but = "" if got is None else f", but got{colon} {got}"
        super().__init__(f"{where}: {rule}{but}" + (remedy and f". {remedy}"))
        self.field = field
        self.rule = rule
        self.got = got
        self.remedy = remedy

    def __reduce__(self) -> tuple[type["OptionError"], tuple[object, ...]]:
        return type(self), (self.field, self.rule, self.got, self.remedy)


class TrainingError(OdtError):
    """Training that cannot continue, for example because the loss is NaN or infinite."""


class OutputError(OdtError):
    """Standard output that can no longer be written."""


class OdtWarning(UserWarning):
    """A likely mistake that does not stop training, such as samples that fill no batch."""


def warn(message: str | None) -> None:
    """Issues an OdtWarning that points to the user's code: to the last call from outside of odt.

    Args:
        message: text of the warning; None or empty for no warning.
    """
    if not message:
        return
    level = 2
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "odt":
        level += 1
        frame = frame.f_back
    warnings.warn(message, OdtWarning, stacklevel=level)
