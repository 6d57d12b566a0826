"""Runs a reader of damaged files within 2 s and 500 MB: it gives an answer or one line."""

import faulthandler
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from odt.errors import MAX_MESSAGE, OdtError, OdtWarning
from support.limits import FOREVER, SECONDS

GROWTH = 500 << 20
BUGS = (NameError, AssertionError, ImportError)  # no file is at fault for these


class TookTooLong(BaseException):
    """Not an Exception, which a reader would take for the file's fault."""


@contextmanager
def limited() -> Iterator[None]:
    """Ends what computes for too long, or takes too much memory."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS + 8)
    faulthandler.dump_traceback_later(FOREVER, exit=True)  # a library's own loop hears no signal
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert time.process_time() - begin < SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - most < GROWTH


def answers(read: Callable[[], object]) -> bool:
    """Whether a reader gives an answer; else it raises an error of one short line."""
    refusal = None
    try:
        with limited(), warnings.catch_warnings(record=True) as noise:
            warnings.simplefilter("always", RuntimeWarning)
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", SyntaxWarning)
            warnings.simplefilter("ignore", OdtWarning)
            read()
    except OdtError as e:
        refusal = e
    assert not noise, noise[0]
    if refusal is None:
        return True
    line = str(refusal)
    assert line.isprintable(), line
    assert 20 < len(line) <= MAX_MESSAGE, line
    assert not isinstance(refusal.__cause__, BUGS), repr(refusal.__cause__)
    return False
