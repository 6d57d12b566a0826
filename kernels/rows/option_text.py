"""Text with options: NAME or NAME:OPTION=VALUE,OPTION=VALUE, such as step:decay-rate=0.5."""


def parse_options(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Splits a text into a name and its options, all with underscores and in lower case.

    Hyphens of names stand for underscores; those of values are signs, as in 1e-3.

    Args:
        text: the text.

    Returns:
        The name, and (option, value) in the order of the text.
    """
    name, _, listed = text.lower().partition(":")
    pairs = (item.partition("=") for item in listed.split(",") if item)
    return _word(name), [(_word(option), value.strip()) for option, _, value in pairs]


def _word(text: str) -> str:
    return text.strip().replace("-", "_")
