"""JSON text of values, and values of JSON text.

Modules that `import odt; odt.Trainer` loads take them from here: importing `json` takes as long as
importing ten modules of odt, and most trainings begin without it.
"""

from typing import Any


def json_text(value: Any, **style: Any) -> str:
    """Returns the text of a value; `style` is that of json.dumps.

    Raises:
        ValueError: if `allow_nan=False` is given and a number is infinite or NaN.
    """
    import json

    return json.dumps(value, **style)


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a text.

    Raises:
        ValueError: if it is not JSON.
        RecursionError: if it is nested too deeply.
    """
    import json

    return json.loads(text)


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON, as `object_pairs_hook` of json.loads.

    Raises:
        ValueError: if it has a name twice, of which json.loads takes the last one.
    """
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {json_text(twice)} twice")
    return values
