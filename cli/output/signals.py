"""Ends that come from outside: signals, and a standard output that nobody reads any more.

Neither may cost what a command was asked to write.
"""

import errno
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import FrameType
from typing import Any, TextIO

import click

from odt.errors import OutputError

# What ends a process by default and is sent to be obeyed; Windows has no SIGHUP.
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """A list that is empty until Ctrl-C, SIGTERM or SIGHUP; a second one ends the process as ever.

    A signal that was ignored, as `nohup` has it, stays ignored.
    """
    caught: list[int] = []
    before = {n: signal.getsignal(n) for n in SIGNALS}

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, catch)
    try:
        yield caught
    finally:
        restore()


def leave(caught: Sequence[int]) -> None:
    """Ends the process as one that the first of these signals has ended, if there is one."""
    if caught:
        name = "Ctrl-C" if caught[0] == signal.SIGINT else signal.Signals(caught[0]).name
        click.echo(f"Stopped by {name}; what was asked for is exported.", err=True)
        raise click.exceptions.Exit(128 + caught[0])


class Output:
    """A text stream that may lose its reader.

    Attributes:
        go_on: whether the program should, for it has more to do than to print; what comes after
            is then dropped, else the loss is raised where it shows.
        lost: why it was lost.
    """

    def __init__(self, stream: TextIO, *, go_on: bool) -> None:
        self._stream = stream
        self.go_on = go_on
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as e:
            self._lose(e)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as e:
            self._lose(e)

    def check(self) -> None:
        """Raises what was lost, if anything; a pipe that was closed stays quiet, as in a shell."""
        if self.lost is None:
            return
        if self.lost.errno == errno.EPIPE and not self.go_on:
            raise self.lost
        reason = (self.lost.strerror or str(self.lost)).lower()
        done = ". All files that were asked for are written." if self.go_on else ""
        raise OutputError(
            f"standard output: must take all that is printed, but got: {reason}{done}"
        )

    def _lose(self, e: OSError) -> None:
        self.lost = e
        with open(os.devnull, "wb") as nowhere:  # takes what a buffer still holds, too
            os.dup2(nowhere.fileno(), self._stream.fileno())
        if not self.go_on:
            self.check()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def printing() -> Iterator[None]:
    """Standard output and standard error may get lost within.

    Raises:
        OutputError: if standard output was lost, at once or, after `keep_going`, at the end.
        OSError: at once, if it was a pipe that was closed.
    """
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # for one that was closed before
        out = Output(sys.stdout or nowhere, go_on=False)
        err = Output(sys.stderr or nowhere, go_on=True)
        with redirect_stdout(out), redirect_stderr(err):
            yield
        out.check()


def keep_going() -> None:
    """From here on a lost standard output ends nothing before its time: files will be written."""
    if isinstance(sys.stdout, Output):
        sys.stdout.go_on = True
