"""Writes schemas/circle.py from the code that circle-schema publishes.

python tools/write_circle_schema.py; a test compares the file with the package. The classes of the
package have 5 MB; odt needs the names, slots, types and defaults of fields, which are in the
functions Add… of each class.
"""

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

from circle_schema.v0_10 import circle
from flatbuffers import number_types

PAGE = Path(__file__).parents[1] / "schemas" / "circle.py"
TOP = '''"""Tables and enumerations of the Circle schema 0.10, which are also those of TFLite 2.20.

Made by tools/write_circle_schema.py from the package circle-schema; do not edit. A table is the
list of its fields in the order of their slots: name:type, and =default unless that is 0. A type is
a code of the struct module, str, a table, a union (the field before it says which table), or one
of them in brackets for a vector. A field named - is deprecated.
"""

'''
UNUSED = "-"
# Fields whose names in Circle and TFLite differ → the name in TFLite.
RENAMED = {"adjoint_lhs": "adj_x", "adjoint_rhs": "adj_y"}
ADD = r"def {0}Add(\w+)\(builder, \w+\):\s+builder\.Prepend(\w+)Slot\((\d+), .*, (\S+)\)\n"


def classes() -> dict[str, Any]:
    """Class name → module of everything in the schema."""
    names = sorted(m.name for m in pkgutil.iter_modules(circle.__path__))
    return {n: importlib.import_module(f"{circle.__name__}.{n}") for n in names}


def fields(name: str, text: str) -> str:
    """The fields of a table, from the code of its class."""
    result = {}
    for camel, kind, slot, default in re.findall(ADD.format(name), text):
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", camel).lower()
        code = type_of(camel, kind, text)
        number = {"True": 1, "False": 0}.get(default) or float(default)
        end = f"={number:g}" if number else ""
        result[int(slot)] = f"{RENAMED.get(snake, snake)}:{code}{end}"
    return " ".join(result.get(k, f"{UNUSED}:B") for k in range(max(result, default=-1) + 1))


def type_of(camel: str, kind: str, text: str) -> str:
    """The type of a field, from its accessors."""
    if kind != "UOffsetTRelative":
        return code_of(kind)
    accessor = re.search(rf"    def {camel}\(self.*?(?=\n    def |\ndef )", text, re.DOTALL)
    assert accessor, camel
    body = accessor[0]
    is_vector = f"def {camel}Length(self)" in text
    element = re.search(r"self\._tab\.Get\(flatbuffers\.number_types\.(\w+)Flags", body)
    table = re.search(r"obj = (\w+)\(\)", body)
    if ".Union(obj" in body:
        union = re.search(rf"self\.{camel[0].lower() + camel[1:]} = \S+\.(\w+)Creator\(", text)
        assert union, camel
        return union[1]
    if ".String(" in body:
        base = "str"
    elif table:
        base = table[1]
    else:
        assert element, camel
        base = code_of(element[1])
    return f"[{base}]" if is_vector else base


def code_of(kind: str) -> str:
    """The code of the struct module for a type as flatbuffers calls it."""
    return str(getattr(number_types, f"{kind}Flags").packer_type.format).strip("<")


def page() -> str:
    """The whole file."""
    enumerations, tables = [], []
    for name, module in classes().items():
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        members = vars(getattr(module, name))
        if "Init" in members:
            tables.append(f'    "{name}": "{fields(name, text)}",\n')
        else:
            values = "".join(
                f'        {v}: "{n}",\n' for n, v in members.items() if isinstance(v, int)
            )
            enumerations.append(f'    "{name}": {{\n{values}    }},\n')
    return (
        f"{TOP}ENUMERATIONS = {{\n{''.join(enumerations)}}}\n\nTABLES = {{\n{''.join(tables)}}}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
