"""Runs Python with standard error on a pseudo-terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from dataclasses import dataclass

# Bars are shown at once, as those of long commands are after two seconds.
AT_ONCE = "import odt.progress as p; p.DELAY = -1\n"
ODT = "from odt.cli.main import main; main()"


@dataclass(frozen=True)
class Shown:
    """Output of a command to standard output and to the terminal, and its exit status."""

    stdout: str
    errors: str
    status: int


def on_terminal(*words: str) -> Shown:
    """Runs a command of odt."""
    return script_on_terminal(ODT, *words)


def script_on_terminal(script: str, *words: str) -> Shown:
    """Runs a script of Python with arguments."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    parts: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the terminal is closed
                return
            if not part:
                return
            parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-c", AT_ONCE + script, *words]
    every = {**os.environ, "TQDM_MININTERVAL": "0"}  # draws every step
    done = subprocess.run(
        command, stderr=theirs, stdout=subprocess.PIPE, text=True, check=False, env=every
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    return Shown(done.stdout, b"".join(parts).decode(), done.returncode)
