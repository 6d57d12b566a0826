"""Leaves what only readers need out of internal packages in wheels; pyproject.toml says the rest.

With its base packages, but NumPy, an installation must take at most 4 MB, and a wheel 1 MB.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# Packages and modules of odt that hold no part of the Python API: odt.Trainer and its kin stay as
# they are; docstrings of federations and of the interfaces of other systems are in docs/ alone.
INTERNAL = (
    *("core", "kernels", "cli", "federated", "compat", "experimental"),
    *("artifact_files", "batch_totals", "class_labels", "comparison", "dataclass", "default_rate"),
    *("fit_warnings", "fitting", "integer_form", "option_forms", "replay", "run_samples"),
    *("state_sources", "summary", "text"),
)
HELP = ("odt.cli", "odt.cli.commands")  # whose docstrings are the help
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef | ast.Module
Place = tuple[int, int]  # line from 0, and column in bytes


def for_interpreters(source: str, *, docstrings: bool = False) -> str:
    """Removes what only readers need, which includes blank lines: tracebacks quote statements."""
    source = without_comments(source if docstrings else without_docstrings(source))
    return narrow(without_unused_imports(without_annotations(source)))


def without_docstrings(source: str) -> str:
    """Empties the lines of docstrings."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, Documented) or ast.get_docstring(node, clean=False) is None:
            continue
        text = node.body[0]
        assert text.end_lineno is not None
        lines[text.lineno - 1 : text.end_lineno] = [""] * (text.end_lineno - text.lineno + 1)
        if len(node.body) == 1 and not isinstance(node, ast.Module):
            lines[text.lineno - 1] = " " * text.col_offset + "..."
    return "\n".join(lines) + "\n"


def without_comments(source: str) -> str:
    """Removes comments."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    return "\n".join(lines) + "\n"


def without_annotations(source: str) -> str:
    """Removes annotations of functions, on one line each, and of their arguments and variables."""
    tree = ast.parse(source)
    spans = [s for s in annotations(tree) if s[0][0] == s[1][0]]
    lines = [line.encode() for line in source.splitlines()]
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.returns:
            row = node.returns.lineno - 1
            arrow = lines[row].rfind(b" ->", 0, node.returns.col_offset)
            if arrow >= 0 and end(node.returns)[0] == row:
                spans.append(((row, arrow), end(node.returns)))
    for (row, begin), (_, after) in sorted(spans, reverse=True):
        lines[row] = lines[row][:begin] + lines[row][after:]
    return b"\n".join(lines).decode() + "\n"


def annotations(tree: ast.AST, inside: bool = False) -> Iterator[tuple[Place, Place]]:
    """Yields where annotations of arguments and of local variables begin and end."""
    for node in ast.iter_child_nodes(tree):
        a = getattr(node, "annotation", None)
        if isinstance(node, ast.arg) and a is not None:
            yield (node.lineno - 1, node.col_offset + len(node.arg.encode())), end(a)
        elif isinstance(node, ast.AnnAssign) and inside and node.value and node.simple:
            yield end(node.target), end(node.annotation)
        is_function = isinstance(node, Function)
        is_local = is_function or (inside and not isinstance(node, ast.ClassDef))
        yield from annotations(node, is_local)


def end(node: ast.expr | ast.stmt) -> Place:
    """Returns where an expression or a statement ends."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno - 1, node.end_col_offset


def without_unused_imports(source: str) -> str:
    """Removes names from `from … import` that only annotations had used."""
    nodes = list(ast.walk(ast.parse(source)))
    used = {n.id for n in nodes if isinstance(n, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            used |= set(re.findall(r"\w+", node.value))  # of __all__, and of types in strings
    lines = source.splitlines()
    for node in nodes:
        if not isinstance(node, ast.ImportFrom):
            continue
        names = [a for a in node.names if a.asname == a.name or (a.asname or a.name) in used]
        if names != node.names:
            first, last = node.lineno - 1, end(node)[0]
            lines[first : last + 1] = [""] * (last - first + 1)
            short = ast.unparse(ast.ImportFrom(node.module, names, node.level)) if names else ""
            if short or node.col_offset:  # a block must not be empty
                lines[first] = " " * node.col_offset + (short or "pass")
    return "\n".join(lines) + "\n"


def narrow(source: str) -> str:
    """Drops blank lines and indents by one space instead of four, except in strings."""
    strings = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.start[0] < token.end[0]:
            strings |= set(range(token.start[0], token.end[0]))
    lines = []
    for row, line in enumerate(source.splitlines()):
        indent = len(line) - len(line.lstrip(" "))
        if row in strings:
            lines.append(line)
        elif line.strip():
            lines.append(" " * -(-indent // 4) + line[indent:])
    return "\n".join(lines) + "\n"


class BuildPy(build_py):
    """Copies modules into the build; an editable installation uses the sources themselves."""

    def build_module(self, module: str, module_file: str, package: str) -> tuple[str, bool]:
        """Copies a module, shortened if it is internal."""
        path, copied = super().build_module(module, module_file, package)
        if f"{package}.{module}".split(".")[1] in INTERNAL:
            source = Path(module_file).read_text(encoding="utf-8")
            short = for_interpreters(source, docstrings=package in HELP)
            Path(path).write_text(short, encoding="utf-8", newline="\n")
        return path, copied


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy})
