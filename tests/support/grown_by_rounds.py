"""Runs tests/support/rounds.py in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

from support import rounds


def grown(folder: Path, warm: int, count: int) -> dict[str, int]:
    """Returns the growth of bytes, threads, handles and objects over `count` rounds."""
    assert rounds.__file__ is not None
    words = [sys.executable, "-W", "ignore", rounds.__file__, folder, warm, count]
    done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))
