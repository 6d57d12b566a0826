"""Measures the memory of a command in a separate process."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence

MEASURED = """
import importlib
import multiprocessing.synchronize  # which tqdm's bars use
import numpy.random  # which shuffling uses
import pkgutil
import sys
import tqdm
import odt.cli.commands.train
import odt.cli.options.training_run  # which the command imports when it runs
import odt.cli.output.training_log
import odt.training.trainer
import odt.kernels
from odt.cli.main import main
from odt.training.session import COUNTED

for name in COUNTED:  # which a budget counts before training
    importlib.import_module(name)
for module in pkgutil.walk_packages(odt.kernels.__path__, "odt.kernels."):
    if not module.name.endswith("._kernels"):
        importlib.import_module(module.name)
try:
    main(sys.argv[1:], standalone_mode=False)
except SystemExit:
    pass
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""
ROOM = 1_000_000  # bytes by which processes of one command differ


def grown(*arguments: object) -> tuple[str, int]:
    """Runs a command in a separate process; returns its output and its peak resident bytes."""
    line = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return done.stdout, int(done.stdout.split()[-1]) * 1024


def start_nbytes() -> int:
    """Returns the resident bytes of a process that has imported what training imports."""
    return grown("train", "--help")[1]


def least_budget(factor: float, *arguments: object) -> int:
    """Returns the bytes of the smallest budget that `odt train` names.

    Args:
        factor: how many times the memory of training, beside that of the process before it.
        arguments: arguments of `odt train`.
    """
    line = [sys.executable, "-c", MEASURED, "train", *map(str, arguments)]
    line += ["--memory-budget", "1MB"]
    refused = subprocess.run(line, capture_output=True, text=True, check=False).stderr
    least, process = map(float, re.findall(r"(?:at least|modules take) ([\d.]+)MB", refused)[-2:])
    return round((process + (least - process) * factor) * 1e6) + ROOM


def takes_as_predicted(
    arguments: Sequence[object], predicted: Callable[[str], int], tolerance: float
) -> bool:
    """Whether a process takes the memory that it predicts.

    Makes three attempts, because on a busy machine waiting workers touch fewer pages at once.
    """
    for _ in range(3):
        text, most = grown("train", *arguments)
        expected = predicted(text)
        if abs(most - expected) < max(4e6, tolerance * expected):
            return True
        print(f"predicted {expected}, but took {most}")
    return False
