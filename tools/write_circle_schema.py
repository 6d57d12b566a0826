"""Writes schemas/circle.py from the code that circle-schema and ai-edge-litert publish.

python tools/write_circle_schema.py; a test compares the file with the packages. Their classes have
6 MB; odt needs the names, slots, types and defaults of fields, which are in the functions Add… of
each class. TFLite's schema is written where it differs from Circle's.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from circle_schema.v0_10 import circle
from flatbuffers import number_types

PAGE = Path(__file__).parents[1] / "schemas" / "circle.py"
CIRCLE_VERSION = "0.10"
LITERT_VERSION = "2.3.0"  # of ai-edge-litert
TOP = f'''"""Tables and enumerations of the schemas of Circle and TFLite.

Made by tools/write_circle_schema.py from the packages circle-schema and ai-edge-litert; do not
edit. A table is the list of its fields in the order of their slots: name:type, and =default unless
that is 0. A type is a code of the struct module, str, a table, a union (the field before it says
which table), or one of them in brackets for a vector. A field named - is deprecated. TFLite has the
tables and enumerations of Circle, except for those in TFLITE_TABLES and TFLITE_ENUMERATIONS.
"""

VERSIONS = {{"circle": "Circle {CIRCLE_VERSION}", "tflite": "LiteRT {LITERT_VERSION}"}}

'''
UNUSED = "-"
# Fields whose names in Circle and TFLite differ → the name in TFLite.
RENAMED = {"adjoint_lhs": "adj_x", "adjoint_rhs": "adj_y"}
PARTS = re.DOTALL | re.MULTILINE
ADD = r"def {0}Add(\w+)\(builder, \w+\):\s+builder\.Prepend(\w+)Slot\((\d+), .*, (\S+)\)\n"


def circle_classes() -> Iterator[tuple[str, type, str]]:
    """Name, class and source of everything in the schema of Circle."""
    for name in sorted(m.name for m in pkgutil.iter_modules(circle.__path__)):
        module = importlib.import_module(f"{circle.__name__}.{name}")
        yield name, getattr(module, name), Path(str(module.__file__)).read_text(encoding="utf-8")


def tflite_classes() -> Iterator[tuple[str, type, str]]:
    """Name, class and source of everything in the schema of TFLite, which is one module."""
    from ai_edge_litert import schema_py_generated as tflite

    source = Path(str(tflite.__file__)).read_text(encoding="utf-8")
    names = re.findall(r"^class (\w+)\(object\):", source, re.MULTILINE)
    for name in sorted(n for n in names if n[-1] != "T" or n[:-1] not in names):
        text = re.search(rf"^class {name}\(.*?(?=^class (?!{name}T\())", source + "class ", PARTS)
        assert text, name
        yield name, getattr(tflite, name), text[0]


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
        union = re.search(rf"self\.{camel[0].lower() + camel[1:]} = (?:\S+\.)?(\w+)Creator\(", text)
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


def schema(
    classes: Iterator[tuple[str, type, str]],
) -> tuple[dict[str, dict[int, str]], dict[str, str]]:
    """The enumerations and the tables of a schema."""
    enumerations, tables = {}, {}
    for name, cls, text in classes:
        members = vars(cls)
        if "Init" in members:
            tables[name] = fields(name, text)
        else:
            values = {n: v for n, v in members.items() if isinstance(v, int) and n[:2] != "__"}
            enumerations[name] = {v: n for n, v in values.items()}
    return enumerations, tables


def dictionary(name: str, entries: Mapping[str, Any]) -> str:
    """The source of a dictionary of tables or enumerations."""
    lines = [f"{name} = {{\n"]
    for key, entry in entries.items():
        if isinstance(entry, str):
            lines.append(f'    "{key}": "{entry}",\n')
        else:
            values = "".join(f'        {v}: "{n}",\n' for v, n in entry.items())
            lines.append(f'    "{key}": {{\n{values}    }},\n')
    return "".join([*lines, "}\n"])


def page() -> str:
    """The whole file."""
    enumerations, tables = schema(circle_classes())
    other_enumerations, other_tables = schema(tflite_classes())
    other_tables = {n: text for n, text in other_tables.items() if tables.get(n) != text}
    # Circle adds codes below 0, whose options have codes above TFLite's.
    other_enumerations = {
        n: codes
        for n, codes in other_enumerations.items()
        if not codes.items() <= enumerations.get(n, {}).items()
    }
    return TOP + "\n".join(
        (
            dictionary("ENUMERATIONS", enumerations),
            dictionary("TABLES", tables),
            dictionary("TFLITE_ENUMERATIONS", other_enumerations),
            dictionary("TFLITE_TABLES", other_tables),
        )
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
