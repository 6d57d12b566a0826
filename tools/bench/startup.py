"""Measures what it costs to start odt and its peers: python tools/bench/startup.py [--repeat 20].

Each row is a process that imports something and ends, compared with a process that starts less.
Processes take turns: the time is the median, over the turns, of the differences of elapsed time.
The memory is the difference of resident memory at the end, measured once. odt is installed from a
wheel, as users have it, because the finder of an editable installation takes time too. Writes its
figures into docs/benchmarks.json.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/

from make_models import main as make_model

from bench.machine import processor
from bench.report import write_values
from bench.systems import HERE, SYSTEMS, System, set_up

ROOT = HERE.parents[1]
ODT = System("odt", "", needs=((str(ROOT),),))
PYTHON, NUMPY = "Python alone", "`import numpy`"
RANDOM = "`import numpy, numpy.random`"
TRAIN = "imports of `odt train`"
COMMAND = "import sys; from odt.cli.main import main; main(%r)"
MEMORY = "try: exec(%r)\nfinally: print(open('/proc/self/status').read())"
WARM = 2  # turns that write bytecode and fill the page cache


@dataclass(frozen=True)
class Start:
    """A process to measure.

    Attributes:
        system: whose environment runs it.
        code: what Python runs.
        base: title of the process that starts less.
    """

    system: System
    code: str
    base: str = PYTHON


STARTS = {
    PYTHON: Start(ODT, "pass"),
    NUMPY: Start(ODT, "import numpy"),
    "`odt --help`": Start(ODT, COMMAND % ["--help"]),
    "`odt train --help`": Start(ODT, COMMAND % ["train", "--help"]),
    "`import odt; odt.Trainer`": Start(ODT, "import numpy, odt; odt.Trainer", NUMPY),
    RANDOM: Start(ODT, "import numpy, numpy.random"),
    TRAIN: Start(ODT, "", RANDOM),
    "onert": Start(SYSTEMS["onert"], "import onert.experimental.train"),
    "ONNX Runtime": Start(SYSTEMS["ONNX Runtime"], "import onnxruntime"),
    "PyTorch": Start(SYSTEMS["PyTorch"], "import torch"),
    "LiteRT": Start(SYSTEMS["LiteRT, forward"], "import ai_edge_litert.interpreter"),
}


def environment() -> dict[str, str]:
    """Environment variables of the processes, which may write bytecode."""
    left_out = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "OPENBLAS_")
    return {k: v for k, v in os.environ.items() if not k.startswith(left_out)}


def milliseconds(python: Path, code: str) -> float:
    """Runs a process; returns its elapsed time in ms.

    Processor time would count the threads of OpenBLAS, which wait actively while Python imports.
    """
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    words = [str(python), "-c", code]
    start = time.perf_counter()
    child = os.posix_spawn(words[0], words, environment(), file_actions=nowhere)
    _, status = os.waitpid(child, 0)
    elapsed = time.perf_counter() - start
    if status:
        raise click.ClickException(f"startup: {' '.join(words)} failed")
    return elapsed * 1000


def megabytes(python: Path, code: str) -> float:
    """Runs a process; returns its resident memory at the end, in MB."""
    words = [str(python), "-c", MEMORY % code]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def modules_of_training(python: Path) -> list[str]:
    """Modules that `odt train` has loaded at its end, in the order in which it loaded them."""
    with tempfile.TemporaryDirectory() as folder:
        x, y, model = (str(Path(folder) / name) for name in ("x.npy", "y.npy", "m.circle"))
        np.save(x, np.zeros((64, 28, 28, 1), np.float32))
        np.save(y, np.eye(10, dtype=np.float32)[np.arange(64) % 10])
        make_model(["cnn", model], standalone_mode=False)
        words = ["train", model, "--load-input", x, "--load-expected", y, "--epochs", "1"]
        at_exit = "import atexit, sys; atexit.register(lambda: print(*sys.modules))"
        done = subprocess.run(
            [str(python), "-c", f"{at_exit}; {COMMAND % words}"],
            env=environment(), capture_output=True, text=True, check=True,
        )  # fmt: skip
    return done.stdout.splitlines()[-1].split()


def import_all(names: Sequence[str]) -> str:
    """Code that imports modules as the command does, after NumPy."""
    return (
        "import importlib, numpy, numpy.random, sys\n"
        "from odt.collector import quick_imports\n"
        f"with quick_imports():\n  for name in {[*names]}:\n"
        "    if name not in sys.modules and name != '__main__':\n"
        "      try: importlib.import_module(name)\n"
        "      except ImportError: pass  # of another name than its file\n"
    )


def install(out: Path) -> Path:
    """Installs odt from a wheel of the working tree; returns the Python of its environment."""
    set_up(ODT, out)
    python = ODT.python(out)
    command = [str(python), "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"]
    subprocess.run([*command, str(ROOT)], check=True)
    return python


def measure(repeat: int, systems: Sequence[str], out: Path) -> dict[str, dict[str, float]]:
    """Measures odt and systems: title of a process → ms and MB above its base.

    odt is as `install` left it.

    Args:
        repeat: number of turns.
        systems: names of systems; those that cannot be installed are left out.
        out: folder of the environments.
    """
    starts = {
        title: start
        for title, start in STARTS.items()
        if (start.system == ODT or start.system in map(SYSTEMS.get, systems))
        and not set_up(start.system, out)
    }
    python = ODT.python(out)
    codes = {title: start.code for title, start in starts.items()}
    codes[TRAIN] = import_all(modules_of_training(python))
    pythons = {title: start.system.python(out) for title, start in starts.items()}
    memory = {title: megabytes(pythons[title], code) for title, code in codes.items()}
    turns: list[dict[str, float]] = []
    for _ in range(WARM + repeat):
        turns.append({title: milliseconds(pythons[title], c) for title, c in codes.items()})
    figures = {}
    for title, start in starts.items():
        base = None if title == PYTHON else start.base
        pairs = [turn[title] - (turn[base] if base else 0) for turn in turns[WARM:]]
        mb = memory[title] - (memory[base] if base else 0)
        figures[title] = {"ms": statistics.median(pairs), "mb": mb}
    return figures


def table(figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The lines that the command prints."""
    width = max(map(len, figures))
    return [
        f"{title:{width}}  {cell['ms']:5.0f} ms  {cell['mb']:6.1f} MB"
        + ("" if title == PYTHON else f"  above {STARTS[title].base}")
        for title, cell in figures.items()
    ]


@click.command()
@click.option("--repeat", default=20, show_default=True, help="Turns.")
@click.option("--peers", default="onert torch litert ort", show_default=True, help="Environments.")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "bench-out")
def main(repeat: int, peers: str, out: Path) -> None:
    """Measures start-up and writes its figures into docs/benchmarks.json."""
    out.mkdir(parents=True, exist_ok=True)
    systems = [name for name, s in SYSTEMS.items() if s.environment in peers.split()]
    install(out)
    figures: dict[str, Any] = measure(repeat, systems, out)
    path = out / "more.json"
    other_figures = json.loads(path.read_text()) if path.exists() else {}
    other_figures |= {"startup": figures, "startup_processor": processor()}
    path.write_text(json.dumps(other_figures, indent=1))
    values = ROOT / "docs/benchmarks.json"
    content = json.loads(values.read_text(encoding="utf-8"))
    write_values(content | {"startup": figures, "startup_processor": processor()}, ROOT / "docs")
    click.echo("\n".join(table(figures)))


if __name__ == "__main__":
    main()
