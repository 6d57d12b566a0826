"""SIGINT, SIGTERM, SIGHUP and a closed stdout.

After any of them, a command that trains still writes the requested files.
"""

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import FrameType
from typing import Any, TextIO

import click

from odt.errors import OutputError

# Signals that terminate a process by default; Windows has no SIGHUP.
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """Collects Ctrl-C, SIGTERM or SIGHUP in a list; a second signal terminates the process.

    A signal that was ignored before, as by `nohup`, stays ignored.
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


class Interrupted(BaseException):
    """A signal that ends a command; like KeyboardInterrupt, no `except Exception` catches it."""


@contextmanager
def undo_on_signals() -> Iterator[None]:
    """Ends the block on SIGTERM or SIGHUP as Ctrl-C does, so that unfinished files are removed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    others = [n for n in SIGNALS if n != signal.SIGINT]
    before = {n: h for n in others if (h := signal.getsignal(n)) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    except Interrupted as e:
        (number,) = e.args
        click.echo(f"Stopped by {signal.Signals(number).name}; no file is written.", err=True)
        raise click.exceptions.Exit(128 + number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave(caught: Sequence[int]) -> None:
    """Exits with the status of the first signal that was caught, if there is one."""
    if caught:
        name = "Ctrl-C" if caught[0] == signal.SIGINT else signal.Signals(caught[0]).name
        click.echo(f"Stopped by {name}; all requested files are written.", err=True)
        raise click.exceptions.Exit(128 + caught[0])


class Output:
    """A text stream that may be closed by its reader, such as a pipe.

    Attributes:
        keeps_going: whether the program continues after the stream is closed, because it has files
            to write. Later output is then dropped; otherwise the error is raised immediately.
        lost: the error that closed it.
    """

    def __init__(self, stream: TextIO, *, keeps_going: bool) -> None:
        self._stream = stream
        self.keeps_going = keeps_going
        self.lost: OSError | None = None

    def write(self, text: str) -> int:
        """Writes text, or drops it if the stream is closed and the program continues."""
        try:
            return self._stream.write(text)
        except OSError as e:
            self._lose(e)
            return len(text)

    def flush(self) -> None:
        """Flushes the stream."""
        try:
            self._stream.flush()
        except OSError as e:
            self._lose(e)

    def check(self) -> None:
        """Raises the error that closed the stream; a closed pipe stays quiet, as in a shell."""
        if self.lost is None:
            return
        if self.lost.errno == errno.EPIPE and not self.keeps_going:
            raise self.lost
        reason = (self.lost.strerror or str(self.lost)).lower()
        done = ". All requested files are written." if self.keeps_going else ""
        raise OutputError(f"standard output: must accept all output, but got: {reason}{done}")

    def _lose(self, e: OSError) -> None:
        self.lost = e
        with open(os.devnull, "wb") as nowhere:  # also receives what a buffer still holds
            os.dup2(nowhere.fileno(), self._stream.fileno())
        if not self.keeps_going:
            self.check()

    def __getattr__(self, name: str) -> Any:
        """Forwards all other attributes to the stream."""
        return getattr(self._stream, name)


@contextmanager
def printing() -> Iterator[None]:
    """Handles a standard output or standard error that is closed inside the `with` block.

    Raises:
        OutputError: if standard output failed; after `keep_going`, raised at the end.
        OSError: if standard output is a closed pipe, raised immediately.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # Windows pipes lack →; a "?" ends no command
            stream.reconfigure(errors="replace")
    # Replaces a stream that was closed from the start.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        out = Output(sys.stdout or nowhere, keeps_going=False)
        err = Output(sys.stderr or nowhere, keeps_going=True)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                yield
            except click.exceptions.Exit:  # after --help, for example
                out.flush()
                out.check()
                raise
        out.check()


def keep_going() -> None:
    """Lets the command continue if stdout is closed from now on, because it writes files."""
    if isinstance(sys.stdout, Output):
        sys.stdout.keeps_going = True
