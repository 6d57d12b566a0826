"""A language model of llama.cpp, and the programs that judge what odt makes of it."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT

PYTHON = ROOT / ".venv" / "language" / "bin" / "python"  # `make accept ONLY=language` makes it


def run(script: str | Path, *words: object) -> str:
    """Runs a script in the environment of the judges; returns what it prints.

    Args:
        script: path from this folder, or an absolute one.
        words: its arguments.
    """
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} is missing. Make it with: make accept ONLY=language", False)
    command = [str(PYTHON), str(Path(__file__).parent / script), *map(str, words)]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    ran = subprocess.run(command, text=True, capture_output=True, check=False, env=offline)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def judge(action: str, *words: object) -> str:
    """Runs an action of language_judges.py; returns what it prints."""
    return run("language_judges.py", action, *words)


def answer(folder: Path, action: str, model: Path, given: object, *words: object) -> Any:
    """Runs an action on values or a file; returns its values."""
    source = given
    if not isinstance(given, Path):
        source = folder / "given.json"
        (folder / "given.json").write_text(json.dumps(given))
    judge(action, model, source, folder / "answer.json", *words)
    return json.loads((folder / "answer.json").read_text())


@cache
def gguf_file() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct."""
    return Path(judge("path").strip())
