"""Runs odt commands, one argument list a line of standard input, with only its base packages.

A finder on sys.meta_path refuses every other package, except the standard library and the finders
of editable installations, as if it were not installed.
"""

import importlib.abc
import json
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

BASE = {"odt", "numpy", "click", "flatbuffers", "tqdm", "threadpoolctl"}


class OnlyBase(importlib.abc.MetaPathFinder):
    """Import finder that refuses packages other than the base packages and the standard library."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top not in BASE | sys.stdlib_module_names and not top.startswith("__editable__"):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, OnlyBase())
    from odt.cli.main import main  # after the finder

    for line in sys.stdin:
        try:
            main(json.loads(line), standalone_mode=True)
        except SystemExit as e:
            print(f"\nexit {e.code}", flush=True)
