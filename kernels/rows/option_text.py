"""Text with options: NAME or NAME:OPTION=VALUE,OPTION=VALUE, such as step:decay-rate=0.5."""

from odt.errors import OptionError


def parse_options(field: str, text: str) -> tuple[str, dict[str, str]]:
    """Splits a text into a name and its options, all in lower case.

    Hyphens of names stand for underscores; those of values are signs, as in 1e-3.

    Args:
        field: the argument in messages.
        text: the text.

    Returns:
        The name, and the options with their values as text, in the order of the text.

    Raises:
        OptionError: if an option occurs twice.
    """
    name, _, listed = text.lower().partition(":")
    options: dict[str, str] = {}
    for item in filter(None, map(str.strip, listed.split(","))):
        option, _, value = item.partition("=")
        word = _word(option)
        if word in options:
            raise OptionError(field, f"must have `{word}` only once", text)
        options[word] = value.strip()
    return _word(name), options


def _word(text: str) -> str:
    return text.strip().replace("-", "_")
