"""Arrows point down, packages and links are complete, files stay small."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.paths import FOLDERS, ROOT

BASE = {"odt.errors", "odt.dataclass"}  # imported by all
MAY_IMPORT = {  # layer: other layers, other people's packages
    "odt.cli": (
        {"odt", "odt.core", "odt.federated.flower", "odt.kernels"} | BASE,
        {"click", "numpy", "tqdm"},
    ),
    "odt.core": (
        {"odt", "odt.kernels", "odt.schemas"} | BASE,
        {"flatbuffers", "numpy", "threadpoolctl"},
    ),
    "odt.kernels": (BASE, {"flatbuffers", "numpy"}),
    "odt.schemas": (set(), {"flatbuffers", "numpy"}),
    "odt": ({"odt.core", "odt.kernels"} | BASE, {"numpy"}),
    # Needs the extra odt[flower], so nothing but `odt fed init` imports it.
    "odt.federated.flower": (
        {"odt", "odt.core", "odt.kernels"} | BASE,
        {"numpy", "flwr", "cryptography"},
    ),
    "odt.errors": (set(), set()),
    "odt.dataclass": (set(), set()),
    "odt.__main__": ({"odt.cli"}, set()),
}
# Within core a folder imports only from those before it.
CORE = [
    "storage",
    "model",
    "data",
    "lowering",
    "planning",
    "recipe",
    "runtime",
    "training",
    "export",
    "quantization",
    "checkpoints",
    "datasets",
]
# Within the Python API a folder or file imports only itself and those before it.
API = ["text", "loss", "losses", "optimizer", "optimizers", "data", "augment", "models"]
API += ["training", "evaluation", "personalization", "artifacts", "compat", "experimental"]
API += ["federated"]
# Within kernels a folder or file imports only itself and those before it.
KERNELS = [
    "row_index",
    "option_text",
    "scheduledef",
    "schedules",
    "schedule_text",
    "opdef",
    "lossdef",
]
KERNELS += ["metricdef", "geometry", "native", "families", "ops", "custom", "integer"]
KERNELS += ["losses", "optimizers", "metrics", "registry", "loss_text", "plugin_loss"]
# Slow modules of the standard library and flatbuffers, which only some runs need, may be imported
# inside functions; and parts of odt that help, or training without an export, a budget, adapters,
# a cache, sparse or quantized weights, variables, meetings or short steps does not need.
MAYBE_LATE = {"csv", "difflib", "flatbuffers", "hashlib", "heapq", "pathlib", "shutil", "tempfile"}
MAYBE_LATE |= {"threadpoolctl", "tomllib", "zipfile"}
# layer: also these
INTEGERS = (
    *("recipe.frozen_integers.", "quantization.frozen_int8.", "lowering.integer_graph."),
    "training.inference.",
)
LATE_IN = {
    "odt.cli": ("odt.",),
    "odt": ("odt.core.export.", *(f"odt.core.{name}" for name in INTEGERS)),
    "odt.core": (
        *(
            "odt.core.lowering.",
            "odt.core.model.nnpackage.",
            "odt.core.planning.budget.fit_budget.",
        ),
        *("odt.core.planning.rewrites.recompute.", "odt.core.storage.atomic_files."),
        *("odt.core.model.quantization_rules.", "odt.core.model.sparsity."),
        *("odt.core.model.variables.", "odt.core.planning.stored_integers."),
        *("odt.core.runtime.integer_weights.", "odt.core.runtime.whole_batch."),
        *("odt.core.planning.meetings.", "odt.core.training.frozen_cache."),
        "odt.core.planning.gradient_blocks.",
        *("odt.kernels.families.copies.", "odt.kernels.families.output_channels."),
    ),
}
# Imported inside functions only: slow, or an extra that may not be there.
LATE = {"dp_accounting", "h5py", "tqdm", "PIL", "matplotlib", "tensorflow_datasets", "datasets"}
MOST_ARROWS = 40  # between folders of core
MOST_LINES = 400
MOST_LINES_OF_AN_OPERATOR = 150


def modules() -> dict[str, Path]:
    """Module name → file, for everything in the package."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *(p for p in parts if p != "__init__")])] = path
    return found


MODULES = modules()


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imported(node: ast.AST) -> Iterator[str]:
    """Names of modules; `from odt.core.model import graph` is odt.core.model.graph."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        assert node.module is not None
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield full if full in MODULES else node.module


def imports_of(module: str) -> set[str]:
    return {name for node in ast.walk(tree_of(module)) for name in imported(node)}


def layer_of(module: str) -> str:
    """odt.core.model.graph is of odt.core; odt.errors and odt.__main__ are layers of their own."""
    return max((name for name in MAY_IMPORT if f"{module}.".startswith(f"{name}.")), key=len)


def folder_of(module: str) -> str:
    """The folder of core that a module is in."""
    return module.removeprefix("odt.core.").partition(".")[0]


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    layer = layer_of(module)
    layers, others = MAY_IMPORT[layer]
    for name in sorted(imports_of(module)):
        top = name.partition(".")[0]
        if top != "odt":
            known = others | sys.stdlib_module_names | LATE
            assert top in known, f"{layer} may not import {name}"
            continue
        below = layer_of(name)
        assert below in layers | {layer}, f"{layer} may not import {name}"
        if layer == below == "odt.core" and name != "odt.core":
            here, there = folder_of(module), folder_of(name)
            assert CORE.index(there) <= CORE.index(here), f"core/{here} may not import {name}"


def loaded_by(module: str) -> set[str]:
    """The imports of a module that run: not those for type checkers alone."""
    names = imports_of(module)
    for block in tree_of(module).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            names -= {name for node in ast.walk(block) for name in imported(node)}
    return names


def test_no_module_imports_itself_through_others() -> None:
    below = {m: loaded_by(m) & MODULES.keys() - {"odt"} for m in MODULES}
    while ready := {m for m, names in below.items() if not names & below.keys()}:
        for module in ready:
            del below[module]
    assert not below, f"these import each other, or what does: {sorted(below)}"


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("odt.kernels.")])
def test_imports_within_kernels_point_down(module: str) -> None:
    def folder(name: str) -> str:
        return name.split(".")[2]

    for name in sorted(imports_of(module)):
        if name.startswith("odt.kernels."):
            assert KERNELS.index(folder(name)) <= KERNELS.index(folder(module)), (
                f"{name} comes after {module} in KERNELS"
            )


def test_no_imports_within_kernels_form_a_circle() -> None:
    below = {m: imports_of(m) & MODULES.keys() for m in MODULES if m.startswith("odt.kernels.")}
    while free := {m for m, names in below.items() if not names & below.keys()}:
        below = {m: names for m, names in below.items() if m not in free}
    assert not below, f"these import each other: {', '.join(sorted(below))}"


@pytest.mark.parametrize("module", MODULES)
def test_imports_are_at_the_top_except_slow_ones(module: str) -> None:
    tree = tree_of(module)
    top = {id(node) for node in tree.body}
    for block in tree.body:  # if TYPE_CHECKING, try: import
        if isinstance(block, ast.If | ast.Try):
            top |= {id(node) for node in ast.walk(block)}
    for node in ast.walk(tree):
        for name in imported(node):
            package = name.partition(".")[0]
            if id(node) in top:
                assert package not in LATE, f"import {name} where it is used: it is slow"
            elif not any(f"{name}.".startswith(x) for x in LATE_IN.get(layer_of(module), ())):
                assert package in LATE | MAYBE_LATE, f"import {name} at the top of the file"


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) == "odt" != m])
def test_imports_within_the_python_api_point_down(module: str) -> None:
    here = module.split(".")[1]
    for name in sorted(imports_of(module)):
        if name.startswith("odt.") and layer_of(name) == "odt":
            assert API.index(name.split(".")[1]) <= API.index(here), (
                f"{name} comes after {module} in API"
            )


def test_every_folder_of_core_has_a_place_in_the_order() -> None:
    assert sorted(CORE) == sorted(p.parent.name for p in (ROOT / "core").glob("*/__init__.py"))
    assert not [p.name for p in (ROOT / "core").glob("*.py") if p.name != "__init__.py"]


def test_the_folders_of_core_have_few_arrows() -> None:
    arrows = {
        (folder_of(module), folder_of(name))
        for module in MODULES
        for name in imports_of(module)
        if module.startswith("odt.core.") and name.startswith("odt.core.")
    }
    arrows = {(here, there) for here, there in arrows if here != there}
    assert len(arrows) <= MOST_ARROWS, sorted(arrows)


def test_the_packages_are_those_of_the_folders() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {n for n, path in MODULES.items() if path.name == "__init__.py"}
    assert set(settings["packages"]) == packages
    assert settings["package-dir"] == FOLDERS


def test_every_folder_with_modules_is_a_package() -> None:
    for path in MODULES.values():
        assert (path.parent / "__init__.py").exists(), f"{path.parent} has no __init__.py"


def test_the_links_for_type_checkers_are_complete() -> None:
    wanted = {p for p in (ROOT / "src/odt").iterdir() if p.name != "__pycache__"}
    wanted |= {ROOT / folder for name, folder in FOLDERS.items() if name != "odt"}
    links = {p.resolve() for p in (ROOT / "typings/odt").iterdir() if p.name != "__pycache__"}
    assert links == wanted


@pytest.mark.parametrize("folder", ["cli", "core", "kernels", "src", "tests", "tools"])
def test_files_are_small(folder: str) -> None:
    sources = (p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".c", ".h"))
    for path in sorted(sources):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines < MOST_LINES, f"{path} has {lines} lines: make it two files"


def test_operators_are_smaller() -> None:
    for path in sorted((ROOT / "kernels/ops").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") >= MOST_LINES_OF_AN_OPERATOR:
            reason = "lines because" in (ast.get_docstring(ast.parse(text)) or "")
            assert reason, f"{path}: the docstring must say why it is so long: '… lines because …'"


@pytest.mark.parametrize("folder", ["core", "kernels", "src"])
def test_only_the_command_line_knows_its_options(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        found = re.search(r"(?<![\w-])--[a-z][a-z-]*", path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: not {found[0]}, but as in Python, such as `batch_size=`"


@pytest.mark.parametrize("folder", ["tests", "tools"])
def test_nothing_imports_a_folder_by_its_name(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            tops = {name.partition(".")[0] for name in imported(node)}
            taken = tops & set(FOLDERS.values())
            assert not taken, f"{path}: import odt.{min(taken)}, not {min(taken)}"


@pytest.mark.parametrize("module", MODULES)
def test_frozen_dataclasses_are_the_fast_ones(module: str) -> None:
    text = MODULES[module].read_text(encoding="utf-8")
    if "\n@dataclass(frozen=True, slots=True)\n" in text:
        assert "from odt.dataclass import dataclass\n" in text, (
            f"{module}: import dataclass from odt.dataclass, for `import odt` takes less time then"
        )
