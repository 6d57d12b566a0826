"""Exceptions that a user can cause.

Messages have the form “where: rule, but got values. What to do.” An exception that is not an
OdtError is a bug in odt and keeps its traceback.
"""

MOST = 400  # maximum length of a message in characters


def one_line(text: str, most: int) -> str:
    """Text on one line, with its middle left out if it is longer than `most`."""
    if len(text) > most:
        begin = most * 2 // 3
        text = f"{text[:begin]} … {text[begin + 3 - most :]}"
    return text if text.isprintable() else one_line(escaped(text), most)


def escaped(text: str) -> str:
    """Text with control characters written as Python's escape sequences."""
    control = {
        ord(c): c.encode("unicode_escape").decode() for c in set(text) if not c.isprintable()
    }
    return text.translate(control)


class OdtError(Exception):
    """Base class of errors that the user can correct; commands print one line and exit with 1.

    Attributes:
        details: the full text where the one line is shortened; `odt -v` prints it.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(one_line(message, MOST))
        self.details = details or (message if len(message) > MOST else "")


class ModelError(OdtError):
    """A model or checkpoint file that is damaged, or cannot be read or written."""


class ShapeError(OdtError):
    """Shapes or dtypes that an operator does not accept; the caller adds the node's name."""


class UnsupportedError(OdtError):
    """A valid model that odt cannot train; the message lists all reasons."""


class DataError(OdtError):
    """Data that does not match the model, or holds values that the loss cannot use."""


class LostFileError(OdtError):
    """A memory-mapped file that was truncated, or could not be read, during use."""


class OptionError(OdtError):
    """Arguments or options that are invalid, or contradict each other, the model or the data."""


class TrainingError(OdtError):
    """Training that cannot continue: the loss is NaN or infinite."""


class OutputError(OdtError):
    """Standard output that can no longer be written."""


class OdtWarning(UserWarning):
    """A likely mistake that does not stop training, such as samples that fill no batch."""
