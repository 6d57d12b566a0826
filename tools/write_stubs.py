"""Writes the stubs of the lazy packages from their tables: python tools/write_stubs.py.

Such a package loads a public name at its first use, which type checkers cannot follow. They read
`__init__.pyi` beside it, which imports all names. A test compares both.
"""

import importlib
from pathlib import Path

PACKAGES = ("odt", "odt.federated", "odt.federated.flower")
TABLES = {"PUBLIC": "dict[str, str]", "MODULES": "tuple[str, ...]", "ROWS": "tuple[str, ...]"}


def stubs() -> dict[Path, str]:
    """Returns the stub of each lazy package."""
    packages = [importlib.import_module(name) for name in PACKAGES]
    return {Path(str(p.__file__)).with_suffix(".pyi"): stub(vars(p)) for p in packages}


def stub(package: dict[str, object]) -> str:
    """Returns the text of a stub.

    Args:
        package: the names that the package itself defines.
    """
    public, modules, rows = (package.get(table, ()) for table in TABLES)
    assert isinstance(public, dict)
    assert isinstance(modules, tuple)
    assert isinstance(rows, tuple)
    imports = [(module, f"{name} as {name}") for name, module in public.items()]
    imports += [(str(package["__name__"]), f"{name} as {name}") for name in modules]
    imports += [(module, "*") for module in rows]
    lines = [f"from {module} import {name}" for module, name in sorted(imports)]
    types = TABLES | {"__version__": "str"}
    lines += ["", *(f"{name}: {types[name]}" for name in types if name in package), ""]
    return "\n".join(["# Written by tools/write_stubs.py from __init__.py.", *lines])


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
