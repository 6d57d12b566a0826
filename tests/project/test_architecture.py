"""Imports point down; the lists of packages and the links for type checkers are complete."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence, Set
from functools import cache
from pathlib import Path

from support.paths import FOLDERS, ROOT

import odt

BASE = {"odt.errors", "odt.dataclass", "odt.collector"}  # below all layers that use them
TRAINER = "odt.training.trainer"
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
    # Its apps need the extra odt[flower]; the command line imports it for `odt fed init` alone.
    "odt.federated.flower": (
        {"odt", "odt.core", "odt.kernels"} | BASE,
        {"numpy", "flwr", "cryptography"},
    ),
    "odt.errors": (set(), set()),
    "odt.dataclass": (set(), set()),
    "odt.collector": (set(), set()),
    "odt.__main__": ({"odt.cli"}, set()),
}
# Within core a folder imports only itself and those before it.
CORE = [
    "storage",
    "options",
    "model",
    "formats",
    "data",
    "lowering",
    "integers",
    "planning",
    "recipe",
    "runtime",
    "training",
    "export",
    "quantization",
    "checkpoints",
    "emit",
]
# Within the Python API a folder or file imports only itself and those before it.
API = [
    "text",
    "arguments",
    "habit_tables",
    "habits",
    "progress",
    "charts",
    "datasets",
    "tasks",
    "loss",
    "losses",
    "optimizer",
    "optimizers",
    "data",
    "augment",
    "models",
]
API += ["training", "evaluation", "runs", "live", "personalization", "artifacts"]
API += ["compilation", "compat"]
API += ["experimental", "federated"]
# Within kernels a folder or file imports only itself and those before it.
KERNELS = ["rows", "geometry", "native", "families", "ops", "custom", "integer"]
KERNELS += ["losses", "chunked_loss", "optimizers", "metrics", "registry", "loss_text"]
KERNELS += ["plugin_loss"]
# Slow modules of the standard library, flatbuffers and threadpoolctl, which only some runs need,
# may be imported inside functions; parts of odt by a command, so that `--help` loads no NumPy.
MAYBE_LATE = {"csv", "difflib", "flatbuffers", "hashlib", "heapq", "json", "pathlib", "shutil"}
MAYBE_LATE |= {"concurrent", "tempfile", "threadpoolctl", "tomllib", "urllib", "webbrowser"}
MAYBE_LATE |= {"zipfile"}
# What only files of one format or of one kind need is loaded when such a file is read or written.
SOME_FILES: tuple[str, ...] = tuple(
    f"odt.core.{room}.onnx" for room in ("export", "formats", "lowering")
)
SOME_FILES += ("odt.core.formats.flatbuffer.block_scales",)
SOME_FILES += ("odt.core.formats.flatbuffer.external_buffers",)
SOME_FILES += ("odt.core.planning.chunked_loss",)  # of models with many classes
SOME_FILES += ("odt.core.planning.attention",)  # of models with products of activations
SOME_FILES += ("odt.core.formats.nnpackage", "odt.core.formats.file_kinds")  # of other files
SOME_FILES += ("odt.core.integers.equalize", "odt.core.integers.fake_quantize")  # of integers
SOME_FILES += ("odt.core.formats.flatbuffer.read_sparsity",)
SOME_FILES += ("odt.core.formats.flatbuffer.tflite_metadata",)  # of models with a record
SOME_FILES += ("odt.core.planning.stored_weights",)  # of models with integers or blocks
SOME_FILES += ("odt.core.lowering.low_rank", "odt.core.lowering.streaming.unroll")
SOME_FILES += ("odt.core.lowering.normalize.flex", "odt.core.lowering.normalize.inliner")
SOME_FILES += ("odt.core.runtime.integer_weights", "odt.core.data.quantized_range")  # of integers
# What only plans within a budget, with dropout, or with cached or recomputed activations, need.
SOME_PLANS: tuple[str, ...] = (
    "odt.core.planning.budget.fit_budget",
    "odt.core.planning.rewrites.recompute",
)
SOME_PLANS += ("odt.core.lowering.split_frozen", "odt.core.training.frozen_cache")
SOME_PLANS += ("odt.core.lowering.normalize.dropout", "odt.core.runtime.dropout_masks")
# What only checkpoints, notes for the user, undone epochs and options of some models need.
SOME_TRAININGS: tuple[str, ...] = (
    "odt.core.checkpoints.progress",
    "odt.core.model.runtime_rules",
    "odt.core.options.model_options",
    "odt.core.training.undo",
)
# What only some runs need, of modules that take milliseconds to load: what writes and quantizes
# files, augments samples, begins from a folder of artifacts, computes the integers of quantized
# models, and shows progress and objects of notebooks; and the parts of a trainer that not all use.
SOME_RUNS = (
    *SOME_PLANS,
    "odt.core.export.",
    "odt.core.formats.nnpackage",
    "odt.core.quantization.",
    "odt.core.data.augmentations.",
    "odt.core.data.columns",
    "odt.core.data.sidecar",
    "odt.core.model.record",
    "odt.core.options.fit_options",
    "odt.core.recipe.inspection",
    "odt.core.training.input_pipeline",
    "odt.core.recipe.frozen_integers",
    "odt.core.recipe.inference_graphs",
    "odt.kernels.plugin_loss",
    "odt.habit_tables",
    "odt.collector",
    "odt.habits",
    "odt.models.model_html",
    "odt.models.summary",
    "odt.progress",
    "odt.tasks.stated_anchors",
    "odt.training.checkpoint_state",
    "odt.training.checkpoints",
    "odt.training.detection",
    "odt.training.evaluation",
    "odt.training.exports",
    "odt.training.first_steps",
    "odt.training.fitting",
    "odt.training.history_html",
    "odt.training.live_curves",
    "odt.training.plan_html",
    "odt.training.pipelines",
    "odt.training.progress_bar",
    "odt.training.rate_html",
    "odt.training.rate_test",
)
LATE_IN = {
    "odt.cli": ("odt.",),
    "odt": SOME_RUNS,
    "odt.core": SOME_FILES + SOME_PLANS + SOME_TRAININGS,
}
# Imported inside functions only: slow, or an extra that may not be there.
LATE = {"dp_accounting", "h5py", "tqdm", "PIL", "matplotlib", "tensorflow_datasets", "datasets"}
LATE |= {"pillow_heif", "pyarrow", "soundfile"}


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
            if full != "odt.__version__":  # the only name that odt defines itself
                yield full if full in MODULES else node.module


@cache
def imports_of(module: str) -> Set[str]:
    return frozenset(name for node in ast.walk(tree_of(module)) for name in imported(node))


def layer_of(module: str) -> str:
    """odt.core.model.graph is of odt.core; odt.errors and odt.__main__ are layers of their own."""
    return max((name for name in MAY_IMPORT if f"{module}.".startswith(f"{name}.")), key=len)


def folder_of(module: str) -> str:
    """The folder of core that a module is in."""
    return module.removeprefix("odt.core.").partition(".")[0]


def wrong_imports(module: str) -> Iterator[str]:
    """The imports of a module that its layer, or its folder of core, may not have."""
    layer = layer_of(module)
    layers, others = MAY_IMPORT[layer]
    for name in sorted(imports_of(module)):
        top = name.partition(".")[0]
        if top != "odt":
            if top not in others | sys.stdlib_module_names | LATE:
                yield f"{module}: {layer} may not import {name}"
            continue
        below = layer_of(name)
        if below not in layers | {layer}:
            yield f"{module}: {layer} may not import {name}"
        elif layer == below == "odt.core" and name != "odt.core":
            here, there = folder_of(module), folder_of(name)
            if CORE.index(there) > CORE.index(here):
                yield f"{module}: core/{here} may not import {name}"


def test_imports_point_down() -> None:
    assert not [fault for module in MODULES for fault in wrong_imports(module)]


def test_the_command_line_imports_of_core_what_the_page_lists() -> None:
    """Commands stand on the Python API; docs/architecture.md says what they need beside it."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = page.split("\n## What the command line imports from core\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = {f"odt.core.{name}" for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    imports = {
        name
        for module in MODULES
        if layer_of(module) == "odt.cli"
        for name in imports_of(module)
        if name.startswith("odt.core.")
    }
    covered = {n: {row for row in listed if f"{n}.".startswith(f"{row}.")} for n in imports}
    assert not sorted(name for name, row in covered.items() if not row), "use the Python API"
    assert not sorted(listed - set().union(*covered.values())), "nothing imports these"


@cache
def loaded_by(module: str) -> Set[str]:
    """The imports of a module that run: not those for type checkers alone.

    `odt` loads the modules of its public names when they are first used.
    """
    names = imports_of(module)
    if module == "odt":
        names |= {*odt.PUBLIC.values(), *odt.ROWS, *(f"odt.{name}" for name in odt.MODULES)}
    for block in tree_of(module).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            names -= {name for node in ast.walk(block) for name in imported(node)}
    return names


def in_circles(below: dict[str, Set[str]]) -> list[str]:
    """Modules on a circle of imports, and those that import one of them."""
    rest = dict(below)
    while ready := {m for m, names in rest.items() if not names & rest.keys()}:
        for module in ready:
            del rest[module]
    return sorted(rest)


def test_no_module_imports_itself_through_others() -> None:
    assert not in_circles({m: loaded_by(m) for m in MODULES})


def test_types_close_no_circle_but_that_of_the_trainer() -> None:
    """Callbacks and other parts of a trainer name it in annotations."""
    below = {}
    for module in MODULES:
        loaded = loaded_by(module)
        below[module] = loaded | imports_of(module) - {TRAINER}
    assert not in_circles(below)


def test_the_python_api_imports_modules_and_not_its_own_face() -> None:
    """`import odt` would reach any module from any other through a name that is loaded late."""
    inside = {m for m in MODULES if layer_of(m) in {"odt", "odt.federated.flower"}} - {"odt"}
    assert not [module for module in sorted(inside) if "odt" in imports_of(module)]


def imports_upwards(prefix: str, order: Sequence[str]) -> list[str]:
    """Imports within a package of a folder or file that comes later in an order."""

    def place(name: str) -> int:
        return order.index(name.removeprefix(prefix).partition(".")[0])

    modules = [m for m in MODULES if m.startswith(prefix) and layer_of(m) == prefix.rstrip(".")]
    return [
        f"{module} imports {name}, which comes later"
        for module in modules
        for name in sorted(imports_of(module))
        if name.startswith(prefix) and layer_of(name) == layer_of(module)
        if place(name) > place(module)
    ]


def test_imports_within_kernels_point_down() -> None:
    assert not imports_upwards("odt.kernels.", KERNELS)


def misplaced_imports(module: str) -> Iterator[str]:
    """Imports inside functions that belong to the top of the file, and the other way round."""
    tree = tree_of(module)
    top = {id(node) for node in tree.body}
    for block in tree.body:  # if TYPE_CHECKING, try: import
        if isinstance(block, ast.If | ast.Try):
            top |= {id(node) for node in ast.walk(block)}
    for node in ast.walk(tree):
        for name in imported(node):
            package = name.partition(".")[0]
            if id(node) in top:
                if package in LATE:
                    yield f"{module}: import {name} where it is used: it is slow"
            elif package not in LATE | MAYBE_LATE and not name.startswith(
                LATE_IN.get(layer_of(module), ())
            ):
                yield f"{module}: import {name} at the top of the file"


def test_imports_are_at_the_top_except_slow_ones() -> None:
    assert not [fault for module in MODULES for fault in misplaced_imports(module)]


def test_imports_within_the_python_api_point_down() -> None:
    assert not imports_upwards("odt.", API)


def test_every_folder_of_core_has_a_place_in_the_order() -> None:
    assert sorted(CORE) == sorted(p.parent.name for p in (ROOT / "core").glob("*/__init__.py"))
    assert not [p.name for p in (ROOT / "core").glob("*.py") if p.name != "__init__.py"]


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


def test_only_the_command_line_knows_its_options() -> None:
    """Other code spells an option as in Python, such as `batch_size=`.

    CSS has --name: too, and linkers have options behind -Wl.
    """
    options = re.compile(r"(?<![\w-])(?<!var\()(?<!-Wl,)--[a-z][a-z-]*(?![\w-]|:\S)")
    sources = [p for f in ("core", "kernels", "src") for p in sorted((ROOT / f).rglob("*.py"))]
    assert not {
        str(path): spelled
        for path in sources
        if (spelled := options.findall(path.read_text(encoding="utf-8")))
    }


def test_nothing_imports_a_folder_by_its_name() -> None:
    """`import core` would load a second copy of odt.core."""
    sources = [p for f in ("tests", "tools") for p in sorted((ROOT / f).rglob("*.py"))]
    assert not {
        str(path): taken
        for path in sources
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (taken := {name.partition(".")[0] for name in imported(node)} & {*FOLDERS.values()})
    }


def test_frozen_dataclasses_are_the_fast_ones() -> None:
    """`import odt` takes less time with dataclass from odt.dataclass."""
    frozen = "\n@dataclass(frozen=True, slots=True)\n"
    texts = {module: path.read_text(encoding="utf-8") for module, path in MODULES.items()}
    assert not [
        module
        for module, text in texts.items()
        if frozen in text and "from odt.dataclass import dataclass" not in text
    ]
