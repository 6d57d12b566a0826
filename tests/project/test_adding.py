"""A loss, an optimizer, a metric, a quantized operator, …: added by few files each.

All are added to one copy of the project, exactly as CONTRIBUTING.md says; `make pages` then writes
what is generated, the project's own tests of lists and pages must pass, and each addition is used.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.additions import (
    EDITED,
    INTEGER_FACTS,
    NEW,
    OPTION,
    PASS_ROW,
    PASSES,
    QUANTIZED,
    TOUCHED,
)
from support.paths import ROOT

FOLDERS = (
    "cli",
    "core",
    "docs",
    "examples",
    "kernels",
    "schemas",
    "src",
    "tests",
    "tools",
    "typings",
)
FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml")
DATA = ("golden", "golden_torch", "models", "plans")  # folders of tests that are only linked

GENERATED_CODE = (
    "kernels/rows/row_index.py",
    "kernels/rows/quantized_index.py",
    "src/odt/losses.py",
    "src/odt/optimizers.py",
    "src/odt/training/step_keywords.py",
)
GENERATED = {*GENERATED_CODE, "docs/api.md", "docs/data-sources.md", "docs/reference.md"}
GENERATED |= {f"docs/api/{name}.md" for name in ("losses", "models", "optimizers", "training")}
MODEL = "tests/golden/mnist/model.circle"
TRAIN = f"train {MODEL} --load-input x.npy --load-expected t.npy"


class Copy:
    """A copy of the project that Python imports through its folder `typings`.

    Attributes:
        root: its folder.
        touched: the files that were added or edited, by hand.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.touched: list[str] = []
        ignored = shutil.ignore_patterns("__pycache__", *DATA)
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, root / folder, symlinks=True, ignore=ignored)
        for name in DATA:
            (root / "tests" / name).symlink_to(ROOT / "tests" / name)
        for name in FILES:
            shutil.copy(ROOT / name, root)

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

    def changed(self) -> set[str]:
        """Files that are not those of the project."""
        paths = set()
        for folder in FOLDERS:
            for path in (self.root / folder).rglob("*"):
                name = path.relative_to(self.root).as_posix()
                if path.is_file() and not path.is_symlink() and "__pycache__" not in name:
                    original = ROOT / name
                    if not original.exists() or original.read_bytes() != path.read_bytes():
                        paths.add(name)
        return paths

    def run(self, *words: str | Path, status: int = 0) -> str:
        """Runs Python on the copy, which must end with this status; returns what it prints."""
        paths = (self.root / folder for folder in ("typings", "tests", "tools"))
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

    def odt(self, *commands: str, status: int = 0) -> list[str]:
        """Runs command lines in one process; returns what each prints, all with this status."""
        script = [
            "import sys, click.testing, odt.cli.main as m",
            "for line in sys.argv[1:]:",
            "    done = click.testing.CliRunner().invoke(m.main, line.split())",
            "    if done.exception and not isinstance(done.exception, SystemExit):",
            "        raise done.exception",
            "    print(done.exit_code, ' '.join(done.output.split()), sep='\\0', end='\\0')",
        ]
        words = self.run("-c", "\n".join(script), *commands).split("\0")[:-1]
        assert {*words[::2]} == {str(status)}, words
        return words[1::2]

    def page(self, name: str) -> str:
        return (self.root / "docs" / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The project with all additions; the pages are written again."""
    project = Copy(tmp_path_factory.mktemp("copy"))
    for path, text in NEW.items():
        project.add(path, text)
    for path, changes in EDITED.items():
        project.edit(path, changes)
    project.run("tools/write_pages.py")
    rng = np.random.default_rng(0)
    np.save(project.root / "x.npy", rng.random((64, 28, 28, 1), np.float32))
    np.save(project.root / "t.npy", np.eye(10, dtype=np.float32)[rng.integers(0, 10, 64)])
    return project


def test_each_is_added_by_two_or_three_files(copy: Copy) -> None:
    numbers = {kind: len(files) for kind, files in TOUCHED.items()}
    assert numbers == dict.fromkeys(TOUCHED, 2) | {"lowering pass": 3, "option of a run": 3}
    assert sorted(copy.touched) == sorted(path for files in TOUCHED.values() for path in files)
    assert copy.changed() - {*copy.touched} == GENERATED


def test_the_projects_tests_ask_for_nothing_else(copy: Copy) -> None:
    for command in (("check",), ("format", "--check")):
        copy.run("-m", "ruff", *command, "--no-cache", *copy.touched, *GENERATED_CODE)
    lists = [
        "tests/api/test_public_names.py",
        "tests/cli/test_cli_options.py",
        "tests/datasets/test_formats.py",
        "tests/datasets/test_json_lines.py",
        "tests/core/options/test_keyword_options.py",
        "tests/core/options/test_training_options.py",
        "tests/core/lowering/passes/test_drop_double_negations.py",
        "tests/core/lowering/passes/test_order.py",
        "tests/core/training/test_fitting_metrics.py",
        "tests/kernels/test_metrics.py",
        "tests/project/test_generated_tables.py",
    ]
    copy.run("-m", "pytest", "-q", "-n0", *lists)
    tables = [f"tests/kernels/{name}.py" for name in ("test_ops", "test_optimizers")]
    picked = "log_cosh or signum or LogCosh or Signum or written or public or every or has_a_row"
    quantized = ("tests/kernels/test_quantized_rows.py", "tests/judges/test_operator_versions.py")
    copy.run("-m", "pytest", "-q", "-n0", *quantized, "-k", "ABS or every")
    page = "tests/api/test_api_page.py"
    assert " passed" in copy.run("-m", "pytest", "-q", "-n0", *tables, page, "-k", picked)


def test_the_loss_is_everywhere(copy: Copy) -> None:
    train = f"{TRAIN} --loss log-cosh --metric accuracy"
    shown, trained, resumed, _ = copy.odt(
        "train --help-all",
        f"{train} --epochs 2 --export-checkpoint c.odt",
        f"{train} --epochs 3 --checkpoint c.odt",
        f"check {MODEL} --loss log-cosh",
    )
    assert "|log-cosh" in shown.replace(" ", "")
    assert "log cosh" in trained
    assert " - accuracy: [0] " in trained
    assert "Epoch 3/3" in resumed
    (refused,) = copy.odt(f"{train} --export-circleplus p.circle", status=1)
    assert "log-cosh" in refused
    assert "| log-cosh |" in copy.page("reference.md")
    assert "odt.LogCosh()" in copy.page("api/losses.md")


def test_the_optimizer_is_everywhere(copy: Copy) -> None:
    train = f"{TRAIN} --loss mean-squared-error --optimizer signum --beta 0.8"
    shown, trained, resumed = copy.odt(
        "train --help-all",
        f"{train} --epochs 2 --export-checkpoint s.odt",
        f"{train} --epochs 3 --checkpoint s.odt",
    )
    assert "|signum" in shown.replace(" ", "")
    assert "--beta FLOAT RANGE Decay rate of the momentum for Signum." in shown
    assert "signum" in trained
    assert "Epoch 3/3" in resumed
    words = train.replace("signum", "adam")
    circle_plus, no_beta = copy.odt(f"{train} --export-circleplus p.circle", words, status=1)
    assert "but got signum" in circle_plus
    assert "--beta" in no_beta
    assert "| signum | `odt.Signum` |" in copy.page("reference.md")
    assert re.search(
        r"odt\.Signum\(learning_rate: .*, beta: float = 0\.9\)", copy.page("api/optimizers.md")
    )
    trainer = f"odt.Trainer({MODEL!r}, loss=odt.LogCosh(), optimizer=odt.Signum(0.1, beta=0.5))"
    copy.run("-c", f"import odt; {trainer}")


def test_the_option_is_everywhere(copy: Copy) -> None:
    train = f"{TRAIN} --loss categorical-crossentropy"
    shown, of_clients, _, _, resumed, changed = copy.odt(
        "train --help-all",
        "fed init --help-all",
        f"plan {MODEL} --loss categorical-crossentropy --least-rate 0.02",
        f"{train} --epochs 1 --least-rate 0.02 --export-checkpoint o.odt",
        f"{train} --epochs 2 --checkpoint o.odt",
        f"{train} --epochs 2 --checkpoint o.odt --least-rate 0.03",
    )
    text = "--least-rate FLOAT RANGE Smallest learning rate of --schedule; 0 for none."
    assert text in shown
    assert text in of_clients
    assert "least rate" not in resumed
    assert "it was written with least rate 0.02, now 0.03" in changed
    (refused,) = copy.odt(f"{train} --least-rate -1", status=2)
    assert "--least-rate" in refused
    trainer = f"odt.Trainer({MODEL!r}, checkpoint='o.odt')"
    copy.run("-c", f"import odt; assert {trainer}.session.recipe.info.least_rate == 0.02")
    assert "| `--least-rate` | `least_rate` | a number of at least 0 | 0 |" in copy.page(
        "reference.md"
    )
    assert "least_rate: float = 0.0" in copy.page("api/models.md")
    assert "least_rate: float | None = None" in copy.page("api/training.md")


def test_the_option_of_a_run_is_everywhere(copy: Copy) -> None:
    train = f"{TRAIN} --loss categorical-crossentropy --epochs 3"
    shown, trained, stopped = copy.odt(
        "train --help-all", f"{train} --target-loss 0", f"{train} --target-loss 1000"
    )
    assert "--target-loss FLOAT RANGE Target: stop after an epoch whose training loss" in shown
    assert "Epoch 3/3" in trained
    assert "Epoch 1/3" in stopped
    assert "Epoch 2/3" not in stopped
    (refused,) = copy.odt(f"{train} --target-loss -1", status=2)
    assert "--target-loss" in refused
    assert "| `--target-loss` | `target_loss` | a number of at least 0 |" in copy.page(
        "reference.md"
    )
    assert "target_loss: float | None = None" in copy.page("api/training.md")


def test_what_is_missing_of_an_option_of_a_run_is_named(copy: Copy) -> None:
    tests = "tests/core/options/test_keyword_options.py"
    trainer = copy.root / "src/odt/training/trainer.py"
    text = trainer.read_text(encoding="utf-8")
    trainer.write_text(text.replace("target_loss=target_loss", "target_loss=None"), "utf-8")
    named = copy.run("-m", "pytest", "-q", "-n0", tests, "-k", "target_loss", status=1)
    trainer.write_text(text, encoding="utf-8")
    assert "odt.Trainer.fit: pass target_loss on to be checked" in named


def test_what_is_missing_of_an_option_is_named(copy: Copy) -> None:
    tests = "tests/core/options/test_training_options.py"
    test = ("-m", "pytest", "-q", "-n0", tests, "-k", "least_rate or written")
    use, keywords = copy.root / OPTION[1], copy.root / "src/odt/training/step_keywords.py"
    code, types = use.read_text(encoding="utf-8"), keywords.read_text(encoding="utf-8")
    use.write_text(code.replace("info.least_rate", "0.0"), encoding="utf-8")
    assert "least_rate has no effect: let its code read info.least_rate" in copy.run(
        *test, status=1
    )
    use.write_text(code, encoding="utf-8")
    keywords.write_text(types.replace("    least_rate: float | None\n", ""), encoding="utf-8")
    assert "run `make pages`" in copy.run(*test, status=1)
    keywords.write_text(types, encoding="utf-8")


def test_the_metric_is_everywhere(copy: Copy) -> None:
    train = f"{TRAIN} --epochs 1 --metric max-error"
    (trained,) = copy.odt(f"{train} --loss categorical-crossentropy")
    assert "max_error: [0]" in trained
    (refused,) = copy.odt(f"{train} --loss sparse-categorical-crossentropy", status=1)
    assert "targets of max-error must be values" in refused
    assert "| max-error |" in copy.page("reference.md")


def test_the_data_format_is_everywhere(copy: Copy) -> None:
    rows = [{"x": [k, 2 * k], "y": [3 * k]} for k in range(10)]
    (copy.root / "table.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = "--regression --split train=1.0 --no-shuffle --out-dir out"
    copy.odt(f"gen-datafile --source table.jsonl {options}")
    x = np.fromfile(copy.root / "out/train.input.bin", np.float32).reshape(-1, 2)
    np.testing.assert_array_equal(x, [row["x"] for row in rows])
    assert "| jsonl | JSON object in each line | `.jsonl` |" in copy.page("data-sources.md")


def test_the_quantized_operator_is_written_and_computed(copy: Copy) -> None:
    script = [
        "import numpy as np, odt",
        "from odt.core.export.model_builder import ModelBuilder",
        "from odt.core.formats.reader import read_model",
        "from odt.core.integers.integer_graph import integer_graph",
        "net = ModelBuilder('tflite', seed=2)",
        "net.write('abs.tflite', net.add_operator('ABS', (net.add_input((1, 4)),), (1, 4)))",
        "x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4)",
        "odt.quantize('abs.tflite', x).model.save('integers.tflite')",
        "model = read_model('integers.tflite')",
        "print([node.op for node in integer_graph(model).nodes])",
    ]
    assert "'INTEGER_ABS'" in copy.run("-c", "\n".join(script))


def test_what_is_missing_of_a_quantized_operator_is_named(copy: Copy) -> None:
    test = (
        "-m",
        "pytest",
        "-q",
        "-n0",
        "tests/kernels/test_quantized_rows.py",
        "-k",
        "have_one or every",
    )
    row, kernel = (copy.root / name for name in QUANTIZED)
    text, code = row.read_text(encoding="utf-8"), kernel.read_text(encoding="utf-8")
    row.write_text(text.replace(INTEGER_FACTS, ""), encoding="utf-8")
    assert "kernels/ops/<name>.py of ['ABS']" in copy.run(*test, status=1)
    row.write_text(text, encoding="utf-8")
    kernel.unlink()
    assert f"write {QUANTIZED[1]}" in copy.run(*test, status=1)
    kernel.write_text(code, encoding="utf-8")


def test_a_pass_without_a_place_in_the_order_is_named(copy: Copy) -> None:
    order, tests = copy.root / PASSES, "tests/core/lowering/passes/test_order.py"
    text = order.read_text(encoding="utf-8")
    order.write_text(text.replace(PASS_ROW, '    Pass("merge_norms",'), encoding="utf-8")
    named = copy.run("-m", "pytest", "-q", "-n0", tests, "-k", "every_module", status=1)
    order.write_text(text, encoding="utf-8")
    assert f"{PASSES}: add drop_double_negations" in named
