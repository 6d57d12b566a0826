"""Leaves docstrings and comments of internal packages out of wheels; pyproject.toml says the rest.

With its base packages, but NumPy, an installation must take at most 4 MB, and a wheel 1 MB.
"""

import ast
import io
import tokenize
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# Docstrings of cli/commands are the help. Those of odt.Trainer and its kin stay; those of
# federations and of the interfaces of other systems are in docs/ alone.
INTERNAL = (
    *("odt.core", "odt.kernels", "odt.cli.options", "odt.cli.output", "odt.cli.runs"),
    *("odt.federated", "odt.compat", "odt.experimental"),
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def without_docstrings(source: str) -> str:
    """Empties the lines of docstrings and comments; every statement keeps its line number."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, Documented) or ast.get_docstring(node, clean=False) is None:
            continue
        text = node.body[0]
        assert text.end_lineno is not None
        lines[text.lineno - 1 : text.end_lineno] = [""] * (text.end_lineno - text.lineno + 1)
        if len(node.body) == 1 and not isinstance(node, ast.Module):
            lines[text.lineno - 1] = " " * text.col_offset + "..."
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return "\n".join(lines) + "\n"


class BuildPy(build_py):
    """Copies modules into the build; an editable installation uses the sources themselves."""

    def build_module(self, module: str, module_file: str, package: str) -> tuple[str, bool]:
        """Copies a module, without docstrings if its package is internal."""
        path, copied = super().build_module(module, module_file, package)
        if f"{package}.".startswith(tuple(f"{name}." for name in INTERNAL)):
            source = Path(module_file).read_text(encoding="utf-8")
            Path(path).write_text(without_docstrings(source), encoding="utf-8", newline="\n")
        return path, copied


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy})
