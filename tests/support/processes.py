"""Processes that get signals while they run."""

import signal
import subprocess


def start(*words: str, ignored: int | None = None) -> subprocess.Popen[str]:
    """A process in which one signal may be ignored, as by nohup, and no other is."""

    def prepare() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)

    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,  # noqa: PLW1509 only a new process can ignore a signal from the start
    )


def wait_for(process: subprocess.Popen[str], beginning: str) -> None:
    assert process.stdout is not None
    while not process.stdout.readline().startswith(beginning):
        assert process.poll() is None
