"""What a user can cause. Each message is one line: where: rule, but got values. What to do.

Anything that is not an OdtError is a bug in odt and keeps its traceback.
"""

MOST = 400  # characters of a message


def one_line(text: str, most: int) -> str:
    """Text on one line, with its middle left out if it is longer than `most`."""
    if len(text) > most:
        begin = most * 2 // 3
        text = f"{text[:begin]} … {text[begin + 3 - most :]}"
    return text if text.isprintable() else one_line(escaped(text), most)


def escaped(text: str) -> str:
    """Text with its control characters as Python escapes them."""
    control = {
        ord(c): c.encode("unicode_escape").decode() for c in set(text) if not c.isprintable()
    }
    return text.translate(control)


class OdtError(Exception):
    """Something the user can put right; commands print it as one line and exit with 1.

    Attributes:
        details: all that the line leaves out; `odt -v` prints it.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(one_line(message, MOST))
        self.details = details or (message if len(message) > MOST else "")


class ModelError(OdtError):
    """A model file that breaks a rule of its format, or cannot be read or written."""


class ShapeError(OdtError):
    """Shapes or dtypes that an operator does not take; the caller adds where."""


class UnsupportedError(OdtError):
    """A sound model that odt cannot train; names every reason at once."""


class DataError(OdtError):
    """Training data that does not fit the model, or holds values no loss can use."""


class LostFileError(OdtError):
    """A mapped file that became shorter, or whose disk failed, while it was read."""


class OptionError(OdtError):
    """Options that contradict each other, the model or the data."""


class TrainingError(OdtError):
    """Training that cannot go on, such as a loss that is no longer finite."""


class OutputError(OdtError):
    """A standard output that no longer takes what is printed."""


class OdtWarning(UserWarning):
    """Something that may not be as intended, such as samples that fill no batch."""
