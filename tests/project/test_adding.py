"""A loss, an optimizer, … is added by its own file and the file that tests it, and nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.paths import FOLDERS, ROOT

MODEL = ROOT / "tests/golden/mnist/model.circle"

LOSS = '''"""Log-cosh: a sample's loss is the mean of log(cosh(x − t)) over its elements.

x (N, …)    t like x    scale (1,)    loss (1,)

loss = scale · Σₙ meanᵢ log(cosh(xₙᵢ − tₙᵢ))        dx = scale tanh(x − t) / D, D elements a sample
"""

import numpy as np

from odt.errors import ShapeError
from odt.kernels.lossdef import LossDef
from odt.kernels.opdef import Array, Kernel, OpDef, Specs, TensorSpec


def infer(attrs: None, s: Specs) -> Specs:
    if s["t"] != s["x"] or not s["x"].shape:
        raise ShapeError(f"t must be like x, (N, …), but got x {s['x']}, t {s['t']}")
    return {"loss": TensorSpec((1,), s["x"].dtype)}


def difference(attrs: None, s: Specs) -> Specs:
    return {"difference": s["x"]}


def forward(
    attrs: None, *, x: Array, t: Array, scale: Array, loss: Array, difference: Array
) -> None:
    np.subtract(x, t, out=difference)
    np.cosh(difference, out=difference)
    np.log(difference, out=difference)
    loss[0] = np.sum(difference) * (scale[0] / (x.size // x.shape[0]))


def grad_x(attrs: None, *, x: Array, t: Array, scale: Array, dx: Array) -> None:
    np.subtract(x, t, out=dx)
    np.tanh(dx, out=dx)
    np.multiply(dx, scale[0] / (x.size // x.shape[0]), out=dx)


LOSS = LossDef(
    op=OpDef(
        "log_cosh",
        inputs=("x", "t", "scale"),
        infer=infer,
        forward=Kernel(forward, reads=("x", "t", "scale"), writes=("loss",), workspace=difference),
        grads={"x": Kernel(grad_x, reads=("x", "t", "scale"), writes=("dx",))},
        stops=("t", "scale"),
        outputs=("loss",),
    ),
    formula="mean of log cosh(x − t)",
)
'''

LOSS_TABLE = '''"""Log-cosh, against its formula in float64."""

import numpy as np

from op_db import OpInfo, Options, Sample


def log_cosh(o: Options, i):
    values = np.log(np.cosh(i["x"] - i["t"]))
    return {"loss": np.sum([np.mean(v) for v in values]) * i["scale"]}


def dense(label, shape):
    return Sample(label, {"x": shape, "t": shape, "scale": np.array([0.3])}, {}, {}, ("scale",))


INFO = OpInfo(
    "log_cosh",
    log_cosh,
    samples=(dense("rank 2", (3, 4)), dense("rank 1", (4,))),
    large=dense("large", (512, 512)),
    loose=10,
)
'''


OPTIMIZER = '''"""RMSprop: p ← p − lr g / (√v + ε), v ← ρ v + (1 − ρ) g²."""

from dataclasses import dataclass

import numpy as np

from odt.kernels.opdef import TILE, Array, HyperParameter, UpdateRule


@dataclass(frozen=True, slots=True)
class RmsPropAttrs:
    rho: float = 0.9
    epsilon: float = 1e-7


def slots(attrs: RmsPropAttrs) -> tuple[str, ...]:
    return ("v",)


def run(
    attrs: RmsPropAttrs,
    learning_rate: float,
    step: int,
    *,
    p: Array,
    g: Array,
    work: Array,
    v: Array,
) -> None:
    for at in range(0, p.size, TILE):
        here = slice(at, at + TILE)
        pt, gt, vt = p[here], g[here], v[here]
        wt = work[0, : pt.size]
        np.multiply(gt, gt, out=wt)
        np.subtract(wt, vt, out=wt)
        np.multiply(wt, 1 - attrs.rho, out=wt)
        np.add(vt, wt, out=vt)
        np.sqrt(vt, out=wt)
        np.add(wt, attrs.epsilon, out=wt)
        np.divide(gt, wt, out=wt)
        np.multiply(wt, learning_rate, out=wt)
        np.subtract(pt, wt, out=pt)


RULE = UpdateRule(
    "rmsprop",
    RmsPropAttrs,
    slots,
    run,
    work=1,
    hyper_parameters=(
        HyperParameter("rho", "Decay rate of the squared gradients for RMSprop.", most=1),
        HyperParameter("epsilon", "Constant added to the denominator."),
    ),
)
'''

OPTIMIZER_CASE = """
def rmsprop(p: float, g: float, t: int, state: dict[str, float]) -> float:
    state["v"] = 0.9 * state.get("v", 0.0) + 0.1 * g * g
    return p - RATE * g / (sqrt(state["v"]) + 1e-7)


CASES = {
    "rmsprop": ("rmsprop", {}, rmsprop),
"""

METRIC_CLASS = """class MaxError:
    \"\"\"Greatest |y − t| over all values.\"\"\"

    def __init__(self) -> None:
        self.greatest = 0.0

    def update(self, y: Array, t: Array) -> None:
        for a, b in _blocks(y, t, 1):
            self.greatest = max(self.greatest, float(np.abs(a - b).max()))

    def value(self) -> float:
        return self.greatest


@dataclass(frozen=True, slots=True)
class MetricDef:
"""
METRIC_ROW = """    MetricDef("max_error", MaxError, "greatest |y − t|", _FLOATS),
)
METRICS:"""
METRIC_CASE = """CASES = {
    "max_error": (np.array([[1.0], [4.0]], np.float32), np.array([[0.0], [6.0]], np.float32), 2.0),
"""


class Copy:
    """A copy of the project laid out as the installed package, with its tests.

    Attributes:
        root: the folder that PYTHONPATH names; the package is `odt` in it.
        touched: files that were added.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.touched: list[str] = []
        ignored = shutil.ignore_patterns("__pycache__", "src")
        for package, folder in sorted(FOLDERS.items()):  # odt before odt.cli
            shutil.copytree(ROOT / folder, root / package.replace(".", "/"), ignore=ignored)
        for folder in ("op_db", "support", "kernels", "core/training"):
            shutil.copytree(ROOT / "tests" / folder, root / "tests" / folder, ignore=ignored)
        for module in (ROOT / "tests").glob("*.py"):
            shutil.copy(module, root / "tests")

    def add(self, path: str, text: str) -> None:
        file = self.root / path
        assert not file.exists(), f"{path} is no new file"
        file.write_text(text, encoding="utf-8")
        self.touched.append(path)

    def edit(self, path: str, changes: dict[str, str]) -> None:
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        for old, new in changes.items():
            assert text.count(old) == 1, f"{path}: {old}"
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
        self.touched.append(path)

    def test(self, *words: str) -> None:
        """Runs tests of the copy; there must be some."""
        done = self.run("-m", "pytest", "-q", "-c", os.devnull, "--rootdir", self.root, *words)
        assert " passed" in done

    def run(self, *words: str | Path, status: int = 0) -> str:
        """Runs Python on the copy; gives what it prints."""
        paths = (self.root, self.root / "tests", ROOT / "tools")
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def odt(self, *words: str | Path, status: int = 0) -> str:
        return self.run("-m", "odt", *words, status=status)

    def data(self, samples: int = 64) -> tuple[str | Path, ...]:
        """Options for data files of the MNIST model, written here."""
        rng = np.random.default_rng(0)
        files = self.root / "x.npy", self.root / "t.npy"
        np.save(files[0], rng.random((samples, 28, 28, 1), np.float32))
        np.save(files[1], np.eye(10, dtype=np.float32)[rng.integers(0, 10, samples)])
        return "--load-input", files[0], "--load-expected", files[1]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    made = Copy(tmp_path)
    assert str(tmp_path) in made.run("-c", "import odt.core; print(odt.core.__file__)")
    return made


def test_a_loss_is_added_by_its_file_and_its_table(copy: Copy) -> None:
    copy.add("odt/kernels/losses/log_cosh.py", LOSS)
    copy.add("tests/op_db/log_cosh.py", LOSS_TABLE)
    assert len(copy.touched) == 2
    copy.test("tests/kernels/test_ops.py", "-k", "log_cosh")
    assert "|log-cosh]" in "".join(copy.odt("train", "--help").split())
    words = ("train", MODEL, *copy.data(), "--loss", "log-cosh", "--metric", "accuracy")
    trained = copy.odt(*words, "--epochs", "2", "--export-checkpoint", copy.root / "c.odt")
    assert "log cosh" in trained
    assert "categorical_accuracy" in trained
    resumed = copy.odt(*words, "--epochs", "3", "--checkpoint", copy.root / "c.odt")
    assert "Epoch 3/3" in resumed
    copy.odt("check", MODEL, "--loss", "log-cosh")
    assert "log-cosh" in copy.odt(*words, "--export-circleplus", copy.root / "p.circle", status=1)


def test_an_optimizer_is_added_by_its_file_and_its_case(copy: Copy) -> None:
    copy.add("odt/kernels/optimizers/rmsprop.py", OPTIMIZER)
    copy.edit("tests/kernels/test_optimizers.py", {"CASES = {\n": OPTIMIZER_CASE.lstrip("\n")})
    assert len(copy.touched) == 2
    copy.test("tests/kernels/test_optimizers.py", "-k", "rmsprop or every_rule")
    shown = "".join(copy.odt("train", "--help").split())
    assert "[sgd|adam|adamw|rmsprop]" in shown
    assert "--rho" in shown
    words = ("train", MODEL, *copy.data(), "--loss", "mean-squared-error")
    words = (*words, "--optimizer", "rmsprop", "--rho", "0.8")
    trained = copy.odt(*words, "--epochs", "2", "--export-checkpoint", copy.root / "c.odt")
    assert "rmsprop" in trained
    resumed = copy.odt(*words, "--epochs", "3", "--checkpoint", copy.root / "c.odt")
    assert "Epoch 3/3" in resumed
    refused = copy.odt(*words, "--export-circleplus", copy.root / "p.circle", status=1)
    assert "but got rmsprop" in refused
    assert "--rho" in copy.odt(*words[:-4], "--rho", "0.8", status=1)  # adam has none


def test_a_metric_is_added_by_its_row_and_its_case(copy: Copy) -> None:
    copy.edit(
        "odt/core/training/metrics.py",
        {
            "@dataclass(frozen=True, slots=True)\nclass MetricDef:\n": METRIC_CLASS,
            ")\nMETRICS:": METRIC_ROW,
        },
    )
    copy.edit("tests/core/training/test_metrics.py", {"CASES = {\n": METRIC_CASE})
    assert len(copy.touched) == 2
    copy.test("tests/core/training/test_metrics.py")
    words = ("train", MODEL, *copy.data(), "--epochs", "1", "--loss")
    trained = copy.odt(*words, "categorical-crossentropy", "--metric", "max-error")
    assert "max_error: [0]" in trained
    refused = copy.odt(*words, "sparse-categorical-crossentropy", "--metric", "max-error", status=1)
    assert "targets of max-error must be values" in refused
