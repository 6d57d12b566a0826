"""Modules that commands load: the time of imports follows from them, so no test needs a clock."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
from support.paths import GOLDEN, ROOT

# Modules that take 1 ms or more and that few runs need.
SLOW = {
    *("click", "csv", "difflib", "email", "flatbuffers", "h5py", "hashlib", "logging", "pathlib"),
    *("importlib.metadata", "multiprocessing", "random", "shutil", "socket", "subprocess"),
    *("numpy.ma", "tempfile", "tomllib", "tqdm", "urllib.parse", "zipfile"),
}


def loaded(script: str, before: str = "sys") -> set[str]:
    """Modules that a script loads after those that are imported before.

    Without the site module, so that the finder of an editable installation loads none.
    """
    before = f"import json, sys, {before}\nbefore = {{*sys.modules}}\n"
    after = "\nprint(json.dumps([*sys.modules.keys() - before]), file=sys.stderr)"
    paths = (str(ROOT / "typings"), sysconfig.get_paths()["purelib"])
    done = subprocess.run(
        [sys.executable, "-S", "-c", before + script + after],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {*json.loads(done.stderr.splitlines()[-1])}


def odt(*words: str | Path) -> str:
    """A script that runs a command line."""
    return (
        "from odt.cli.main import main\n"
        f"try: main({[*map(str, words)]})\n"
        "except SystemExit as e: assert e.code == 0"
    )


def below(modules: set[str], package: str) -> set[str]:
    return {name for name in modules if name.startswith(f"odt.{package}.")}


def test_help_of_train_imports_no_row_and_no_engine() -> None:
    modules = loaded(odt("train", "--help"))
    assert "odt.cli.commands.train" in modules
    assert not modules & {"numpy", "odt.training.trainer", "odt.cli.options.training_run"}
    light = {"odt.core.options", *below(modules, "core.options")}  # the rows of options
    light |= {"odt.core.storage", *below(modules, "core.storage")}  # files, whatever they hold
    assert below(modules, "core") == light
    rows = {f"odt.kernels.rows.{name}" for name in ("row_index", "scalars", "scheduledef", "term")}
    assert below(modules, "kernels") == {"odt.kernels.registry", "odt.kernels.rows"} | rows
    assert not modules & (SLOW - {"click", "shutil"})  # Click asks shutil for the terminal's width


def test_the_trainer_imports_no_slow_module_and_no_row() -> None:
    modules = loaded("import odt; odt.Trainer", before="numpy")
    assert "odt.training.trainer" in modules
    assert not modules & (SLOW | {"numpy.random"})
    for folder in ("ops", "custom", "losses", "metrics", "optimizers"):
        assert not below(modules, f"kernels.{folder}")
    of_methods = ("checkpoint_state", "evaluation", "exports", "fitting", "rate_test")
    assert not modules & {f"odt.training.{name}" for name in of_methods}


def test_public_names_leave_the_collector_as_it_is() -> None:
    script = "import odt, gc; odt.TrainingInfo; assert gc.isenabled()\n"
    loaded(script + "gc.disable(); odt.Trainer; assert not gc.isenabled()", before="numpy")


def test_training_imports_no_slow_module_and_few_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((32, 28, 28, 1), np.float32))
    np.save(tmp_path / "y.npy", np.eye(10, dtype=np.float32)[np.arange(32) % 10])
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    loss = ("--loss", "categorical-crossentropy", "--metric", "accuracy")
    words = ("train", GOLDEN / "mnist/model.circle", *data, "--epochs", "1", *loss)
    modules = loaded(odt(*words), before="numpy.random")
    assert "odt.cli.options.training_run" in modules
    assert not modules & (SLOW - {"click"})
    assert below(modules, "kernels.optimizers") == {"odt.kernels.optimizers.adam"}
    assert below(modules, "kernels.losses") == {"odt.kernels.losses.categorical_crossentropy"}


def test_training_imports_no_module_of_other_models_or_budgets() -> None:
    script = f"import odt; odt.Trainer({str(GOLDEN / 'mnist/model.circle')!r}, loss='mse').weights"
    modules = loaded(script, before="numpy")
    assert "odt.core.planning.computation" in modules
    assert not below(modules, "core.lowering.streaming")
    passes = ("order", "replace_single_channels")
    assert below(modules, "core.lowering.passes") == {
        f"odt.core.lowering.passes.{name}" for name in passes
    }
    assert not modules & {
        "odt.core.checkpoints.progress",
        "odt.core.formats.protobuf",
        "odt.core.integers.fake_quantize",
        "odt.core.lowering.low_rank",
        "odt.core.lowering.normalize.dropout",
        "odt.core.lowering.normalize.inliner",
        "odt.core.planning.budget.fit_budget",
        "odt.core.planning.budget.forecast",
        "odt.core.planning.rewrites.recompute",
        "odt.core.runtime.integer_weights",
        "odt.core.training.frozen_cache",
    }
