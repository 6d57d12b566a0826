"""Leaves what only readers need out of internal packages in wheels; pyproject.toml says the rest.

With its base packages, but NumPy, an installation must take at most 4 MB, and a wheel 1 MB.
"""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import LinkError

# Packages and modules of odt that hold no part of the Python API. odt.Trainer and its kin keep
# types and docstrings; those of federations and of interfaces of other systems are in docs/ alone.
INTERNAL = (
    *("core", "kernels", "schemas", "cli", "federated", "compat", "experimental"),
    *("dataclass", "text", "artifacts.files", "data.class_labels", "data.run_samples"),
    *("evaluation.comparison", "models.summary", "personalization.replay"),
    *("training.batch_totals", "training.default_rate", "training.fit_warnings"),
    *("training.fitting", "training.integer_form", "training.option_forms"),
    "training.state_sources",
)
HELP = ("odt.cli", "odt.cli.commands")  # whose docstrings are the help
PARSED = {"bool", "float", "int", "str"}  # by the types of their fields options are parsed
SECTIONS = "kernels/native/src/sections.ld"
KINDS = {"ClassVar", "InitVar", "KW_ONLY"}  # of fields, in annotations
VALUES = ast.Name | ast.Attribute | ast.Subscript  # which are read without side effects
# Kinds of tokens. Before Python 3.12 an f-string is one token.
FSTRING_START, FSTRING_END = (getattr(tokenize, f"FSTRING_{n}", -1) for n in ("START", "END"))
WORDS, STRINGS = {tokenize.NAME, tokenize.NUMBER}, {tokenize.STRING, FSTRING_START}
LAYOUT = {tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL}
Documented = ast.FunctionDef | ast.ClassDef | ast.Module


def for_interpreters(source: str, *, docstrings: bool = False) -> str:
    """Removes what only readers need. A traceback quotes a line, which is a whole statement."""
    tree = ast.parse(source)
    if not docstrings:
        remove_docstrings(tree)
    tree = without_pass(WithoutTypes().visit(tree))
    return narrow(ast.unparse(WithoutUnusedImports(tree).visit(tree)))


def without_comments(source: str) -> str:
    """Removes comments and layout. Types and docstrings stay, for users of the Python API."""
    return narrow(ast.unparse(ast.parse(source)))


def remove_docstrings(tree: ast.Module) -> None:
    """Removes the docstrings of a module."""
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
            if not node.body and not isinstance(node, ast.Module):
                node.body = [ast.Expr(ast.Constant(...))]


def without_pass(tree: ast.Module) -> ast.Module:
    """Removes `pass` beside other statements."""
    for node in ast.walk(tree):
        for body in (getattr(node, name, []) for name in ("body", "orelse")):
            if isinstance(body, list):
                kept = [n for n in body if not isinstance(n, ast.Pass)]
                body[:] = kept or body[:1]
    return tree


class WithoutTypes(ast.NodeTransformer):
    """Removes what only type checkers read. Fields of classes keep an annotation."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        match node.test:
            case ast.Name("TYPE_CHECKING"):
                return node.orelse
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
        for field in fields:
            types = names(field.annotation)
            if not types or not (types <= PARSED or types & KINDS):
                field.annotation = ast.Constant(None)
        node.body = [n if n in fields else self.visit(n) for n in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if not node.value:
            return ast.Pass()
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name("cast"), [_, value]):
                return value
            case ast.Call(ast.Subscript(ast.Name("dict" | "list" | "set" | "Counter") as made)):
                node.func = made
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Drops those that narrow a type: without them the next use of the value raises."""
        match node.test:
            case ast.Compare(value, [ast.IsNot()], [ast.Constant(None)]):
                pass
            case ast.Call(ast.Name("isinstance"), [value, _]):
                pass
            case _:
                return node
        return ast.Pass() if isinstance(value, VALUES) else node


class WithoutUnusedImports(ast.NodeTransformer):
    """Removes names from `from … import` that only annotations had used."""

    def __init__(self, tree: ast.AST) -> None:
        strings = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
        words = (re.findall(r"\w+", text) for text in strings if isinstance(text, str))
        self.used = names(tree).union(*words)  # with those of __all__

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        node.names = [a for a in node.names if a.asname == a.name or self.used & {a.asname, a.name}]
        if node.names:
            return node
        return ast.Pass() if node.col_offset else None  # a block must not be empty


def names(tree: ast.AST) -> set[str]:
    """Returns the names of variables in code."""
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def narrow(source: str) -> str:
    """Drops blank lines and parentheses of tuples, and indents by one space, except in strings."""
    strings = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.start[0] < token.end[0]:
            strings |= set(range(token.start[0], token.end[0]))
    lines = []
    for row, line in enumerate(source.splitlines()):
        indent = len(line) - len(line.lstrip(" "))
        if row in strings:
            lines.append(line)
        elif line:
            lines.append(" " * (indent // 4) + without_parentheses(line[indent:]))
    return without_spaces("\n".join(lines) + "\n")


def without_spaces(source: str) -> str:
    """Drops spaces inside lines, except in strings and between words: 14 kB of a wheel."""
    lines, depth, before = source.splitlines(keepends=True), 0, None
    gaps = list[tuple[int, int, int]]()  # line, begin and end
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if before and before.type not in LAYOUT and before.end[0] == token.start[0] and not depth:
            words = before.type in WORDS and token.type in {*WORDS, *STRINGS}
            if not words and before.end[1] < token.start[1]:
                gaps.append((token.start[0] - 1, before.end[1], token.start[1]))
        depth += (token.type == FSTRING_START) - (token.type == FSTRING_END)
        before = token
    for row, begin, end in reversed(gaps):
        lines[row] = lines[row][:begin] + lines[row][end:]
    return "".join(lines)


def without_parentheses(statement: str) -> str:
    """Drops the parentheses around a tuple that is returned or assigned."""
    match = re.fullmatch(r"(return |[\w., ]+ = )\((.*)\)", statement)
    try:
        bare = match and ast.parse(match[1] + match[2])
    except SyntaxError:  # such as (a, b) + (c, d)
        return statement
    if match and bare and ast.dump(bare) == ast.dump(ast.parse(statement)):
        return match[1] + match[2]
    return statement


class BuildPy(build_py):
    """Copies modules into the build; an editable installation uses the sources themselves."""

    def build_module(self, module: str, module_file: str, package: str) -> tuple[str, bool]:
        """Copies a module without comments; without types and docstrings if it is internal."""
        path, copied = super().build_module(module, module_file, package)
        source = Path(module_file).read_text(encoding="utf-8")
        if f"{package}.{module}.".startswith(tuple(f"odt.{name}." for name in INTERNAL)):
            short = for_interpreters(source, docstrings=package in HELP)
        else:
            short = without_comments(source)
        Path(path).write_text(short, encoding="utf-8", newline="\n")
        return path, copied


class BuildExt(build_ext):
    """Links functions of one instruction set side by side, if the linker can do it."""

    def build_extension(self, extension: Extension) -> None:
        """Compiles and links the kernels."""
        if sys.platform == "linux":
            compiled, linked = extension.extra_compile_args, extension.extra_link_args
            extension.extra_compile_args = [*compiled, "-ffunction-sections"]
            extension.extra_link_args = [*linked, f"-Wl,-T,{SECTIONS}"]
            try:
                return super().build_extension(extension)
            except LinkError:  # a linker without such scripts
                extension.extra_compile_args, extension.extra_link_args = compiled, linked
        return super().build_extension(extension)


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildPy, "build_ext": BuildExt})
