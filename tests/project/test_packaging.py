"""The wheel and the source distribution hold the package, whole and alone, and it runs."""

import ast
import importlib
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath
from types import EllipsisType

import numpy as np
import pytest
from support.base_packages import BASE
from support.paths import FOLDERS, ROOT

import odt

MOST_INSTALLED = 4 * 10**6  # bytes
FILES = ["pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"]
SETUP = runpy.run_path(str(ROOT / "setup.py"))
for_interpreters = SETUP["for_interpreters"]
MUST_NOT_SHIP = {"tests", "tools", "examples", "typings", "docs"}


def sources() -> set[str]:
    """Files of the package as they must be in the wheel."""
    found = set()
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".fbs", ".in"} or path.name == "py.typed":
                inside = path.relative_to(ROOT / folder).as_posix()
                found.add(f"{package.replace('.', '/')}/{inside}")
    return found


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that was built from it."""
    tree = tmp_path_factory.mktemp("tree")
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    for folder in FOLDERS.values():
        ignore = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignore)
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree],
        check=True,
        capture_output=True,
    )
    return out


def test_the_lists_of_c_files_are_complete() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (module,) = settings["tool"]["setuptools"]["ext-modules"]
    for listed, ending in ((module["sources"], "c"), (module["depends"], "h")):
        there = sorted(
            str(p.relative_to(ROOT)) for p in ROOT.glob(f"kernels/native/src/*.{ending}")
        )
        assert listed == there


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.glob("odt-*.whl")
    return wheel


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(wheel_of(dist)) as wheel:
        names = set(wheel.namelist())
    info = {n for n in names if n.partition("/")[0].endswith(".dist-info")}
    compiled = {n for n in names if n.startswith("odt/kernels/native/_kernels.")}
    assert names - info - compiled == sources()
    assert len(compiled) == any(map(shutil.which, ("cc", "gcc")))
    assert any(n.endswith("licenses/LICENSE") for n in info)


def test_an_installation_takes_at_most_4_mb_beside_numpy(dist: Path) -> None:
    """Counted as the files named in RECORD, without .pyc."""
    with zipfile.ZipFile(wheel_of(dist)) as wheel:
        sizes = [entry.file_size for entry in wheel.infolist()]
    for name in BASE - {"odt", "numpy"}:
        for file in distribution(name).files or ():
            path = Path(str(file.locate()))
            if file.suffix != ".pyc" and path.is_file():
                sizes.append(path.stat().st_size)
    assert sum(sizes) <= MOST_INSTALLED


def test_the_source_distribution_ships_no_tests(dist: Path) -> None:
    (archive,) = dist.glob("odt-*.tar.gz")
    with tarfile.open(archive) as tar:
        tops = {PurePosixPath(n).parts[1] for n in tar.getnames() if "/" in n}
    assert tops >= {"cli", "core", "kernels", "schemas", "src", "LICENSE", "pyproject.toml"}
    assert not tops & MUST_NOT_SHIP


def test_the_wheel_runs_where_nothing_else_is(dist: Path, tmp_path: Path) -> None:
    """A fresh environment: the wheel, and the libraries it names, from where they are."""
    venv.create(tmp_path, symlinks=True, with_pip=False)
    python = tmp_path / "bin/python"
    subprocess.run(
        [sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--no-index",
         "--quiet", wheel_of(dist)],
        check=True,
    )  # fmt: skip
    libraries = Path(np.__file__).parents[1]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(libraries)}

    def output(*args: str | Path) -> str:
        return subprocess.check_output(args, env=env, text=True, cwd=tmp_path)

    where = output(python, "-c", "import odt; print(odt.__file__)")
    assert Path(where).is_relative_to(tmp_path), "the test runs the checkout, not the wheel"
    assert output(python, "-m", "odt", "--version").startswith("odt ")
    for command in ([], ["train"], ["quantize"]):
        here = subprocess.check_output([sys.executable, "-m", "odt", *command, "--help"], text=True)
        there = output(tmp_path / "bin/odt", *command, "--help")
        assert there.split("\n\n", 1)[1] == here.split("\n\n", 1)[1]


def test_the_source_code_in_wheels_lacks_what_only_readers_need() -> None:
    before = [
        '"""A module."""',
        "from collections.abc import Iterator, Sized",
        "from typing import (",
        "    TYPE_CHECKING, Any, ClassVar,",
        "    Protocol as Protocol,",
        "    cast,",
        ")",
        "if TYPE_CHECKING:",
        "    from array import array",
        "class Wrong(Exception):  # a class",
        '    """Says',
        '    why."""',
        "def twice(x: Any = 1, *all: Sized) -> Iterator[Any]:",
        '    """Doubles."""',
        '    text: str = cast("Iterator", "# kept")  # not kept',
        '    label = f"{x + 1:> 4} {{a, b}}" if x not in all else -1',
        "    self.names: list[str] = []",
        "    self.counts = dict[str, int]()",
        "    pairs = (x, x) + (x, x)",
        "    assert self.names is not None",
        "    assert isinstance(x, int)",
        "    assert find(x) is not None",
        "    assert x > 0",
        "    if all:",
        "        assert isinstance(all, tuple)",
        "    return (",
        "        x,",
        "        text, '''",
        "    kept''',",
        "    )",
        "class Point:",
        "    x: int = 0",
        "    kind: ClassVar[Any]",
        "    more: Sized | None",
    ]
    after = [
        "from typing import Any,ClassVar,Protocol as Protocol",
        "class Wrong(Exception):",
        " ...",
        "def twice(x=1,*all):",
        " text='# kept'",
        " label=f'{x + 1:> 4} {{a, b}}'if x not in all else-1",
        " self.names=[]",
        " self.counts=dict()",
        " pairs=(x,x)+(x,x)",
        " assert find(x)is not None",
        " assert x>0",
        " if all:",
        "  pass",
        r" return x,text,'\n    kept'",
        "class Point:",
        " x:int=0",
        " kind:ClassVar[Any]",
        " more:None",
    ]
    assert for_interpreters("\n".join(before)) == "\n".join(after) + "\n"


def test_modules_of_the_python_api_keep_types_and_docstrings_in_wheels() -> None:
    values = [getattr(odt, name) for name in odt.PUBLIC]
    public = {c.__module__ for v in values if isinstance(v, type) for c in v.__mro__}
    internal = {f"odt.{name}" for name in SETUP["INTERNAL"]}
    assert not (public | set(odt.PUBLIC.values())) & internal
    for name in internal:
        importlib.import_module(name)
    for path in (ROOT / "src" / "odt").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        short = SETUP["without_comments"](source)
        assert ast.dump(ast.parse(short)) == ast.dump(ast.parse(source)), path
        assert len(short) <= len(source), path


class WithoutTypes(ast.NodeTransformer):
    """And without what they may have needed. Fields stay fields, of a class or of each instance."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test) == "TYPE_CHECKING" else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node.func:
            case ast.Name("cast"):
                return node.args[1]
            case ast.Subscript(ast.Name("dict" | "list" | "set" | "Counter") as made):
                node.func = made
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.Assert | None:
        simple = not {ast.NamedExpr, ast.BoolOp} & {type(n) for n in ast.walk(node.test)}
        calls = [ast.unparse(n.func) for n in ast.walk(node.test) if isinstance(n, ast.Call)]
        narrows = ast.unparse(node.test).endswith(" is not None") and not calls
        return None if simple and (narrows or calls == ["isinstance"]) else node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        for k, field in enumerate(node.body):
            match field:
                case ast.AnnAssign(annotation=ast.Name("bool" | "float" | "int" | "str")):
                    pass
                case ast.AnnAssign(annotation=annotation):
                    field.annotation = ast.Constant("ClassVar" in ast.unparse(annotation))
                case _:
                    node.body[k] = self.visit(field)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)


def code_of(source: str) -> str:
    """The code without docstrings and types."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef():
                match node.body[:1]:
                    case [ast.Expr(ast.Constant(str() | EllipsisType()))]:
                        del node.body[0]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(WithoutTypes().visit(tree))


@pytest.mark.parametrize("folder", ["core", "kernels", "cli", "src/odt"])
def test_shortened_modules_have_the_same_code(folder: str, tmp_path: Path) -> None:
    for number, path in enumerate((ROOT / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        short = for_interpreters(source)
        assert code_of(short) == code_of(source), path
        (tmp_path / f"{path.stem}_{number}.py").write_text(short, encoding="utf-8")
    undefined = ("check", "--isolated", "--quiet", "--select", "F821", "--output-format", "concise")
    subprocess.run([sys.executable, "-m", "ruff", *undefined, tmp_path], check=True)
