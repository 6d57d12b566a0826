"""Boards: rates of machines, in a table and in files of `odt benchmark-board`."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from odt.core.storage.free_memory import USUAL_PROCESS
from odt.core.storage.reading import read_input, reading
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError
from odt.kernels.rows.scalars import is_number
from odt.models.model import Path

MEASURED, ESTIMATED = "measured", "estimated"


@dataclass(frozen=True, slots=True)
class Board:
    """Rates of a machine, of one thread, from which the time of a run is estimated.

    Attributes:
        name: name of the board.
        processor: name of the processor.
        kernels: instruction set of the compiled kernels, or NumPy.
        threads: number of cores.
        ram: bytes of memory.
        process: bytes of a process before training.
        start: seconds until `odt train` has read a small model.
        dense: operations per second of matrix products.
        convolution: operations per second of convolutions.
        depthwise: operations per second of depthwise convolutions.
        memory: bytes per second that operators read and write.
        call: seconds that a call of a compiled kernel takes in addition to its arithmetic.
        numpy_call: seconds that a call of a NumPy kernel takes in addition to its arithmetic.
        step: seconds that a step takes in addition to its calls.
        basis: "measured" or "estimated".
    """

    name: str
    processor: str
    kernels: str
    threads: int
    ram: int
    process: int
    start: float
    dense: float
    convolution: float
    depthwise: float
    memory: float
    call: float
    numpy_call: float
    step: float
    basis: str

    def __str__(self) -> str:
        """Returns the row as JSON, as `odt benchmark-board` writes it."""
        return json.dumps(asdict(self), indent=2)


def _estimated(
    name: str, processor: str, ram: int, clock: float, flops: int, memory: float, slower: float
) -> Board:
    """Returns a row from published figures of a board.

    Matrix products are assumed to reach 60 % of the peak of a core, convolutions 45 % and
    depthwise convolutions 15 %, the fractions of a core of x86-64 with AVX2; half of the memory's
    bandwidth is assumed to be for one core. Python and calls are slower than there by the ratio of
    published results for one core.

    Args:
        name: name of the board.
        processor: its processor.
        ram: bytes of memory.
        clock: clock in Hz.
        flops: float32 operations of a core per cycle.
        memory: bandwidth of the memory in bytes per second.
        slower: speed of a core of the machine with the figures of calls, over that of the board's.
    """
    peak = clock * flops
    return Board(
        name=name,
        processor=processor,
        kernels="neon",
        threads=4,
        ram=ram,
        process=USUAL_PROCESS,
        start=0.4 * slower,
        dense=0.6 * peak,
        convolution=0.45 * peak,
        depthwise=0.15 * peak,
        memory=memory / 2,
        call=0.5e-6 * slower,
        numpy_call=20e-6 * slower,
        step=30e-6 * slower,
        basis=ESTIMATED,
    )


# Arguments of `_estimated`: memory, clock, FLOP per cycle of NEON and bandwidth are published; the
# last one is a ratio of published results. None of these boards has run odt.
BOARDS: Mapping[str, Board] = {
    board.name: board
    for board in (
        _estimated("pi-zero-2", "Cortex-A53, 1.0 GHz", 512 * 2**20, 1.0e9, 8, 3.6e9, 12.0),
        _estimated("pi-3", "Cortex-A53, 1.2 GHz", 2**30, 1.2e9, 8, 3.6e9, 10.0),
        _estimated("pi-4", "Cortex-A72, 1.5 GHz", 4 * 2**30, 1.5e9, 8, 12.8e9, 5.0),
        _estimated("pi-5", "Cortex-A76, 2.4 GHz", 8 * 2**30, 2.4e9, 16, 17.1e9, 2.2),
        _estimated("jetson-nano", "Cortex-A57, 1.43 GHz", 4 * 2**30, 1.43e9, 8, 25.6e9, 6.0),
    )
}


def find_board(board: Board | Path) -> Board:
    """Returns a board by its name, or from a file that `odt benchmark-board` wrote.

    Args:
        board: the name, the path of the file, or a board, whose values are checked.

    Raises:
        OptionError: if there is neither, or a field is missing or has an invalid value.
        ModelError: if the file is not JSON.
    """
    if isinstance(board, Board):
        return _board_of("Board", asdict(board))
    if not isinstance(board, str | bytes | os.PathLike):
        raise OptionError("board", "must be a Board, or a name or path", board)
    name = os.fspath(board)
    if isinstance(name, str) and name in BOARDS:
        return BOARDS[name]
    if not os.path.exists(name):
        import difflib

        close = difflib.get_close_matches(os.fsdecode(name).lower(), BOARDS, n=1)
        rule = f"must be one of {', '.join(BOARDS)}, or a file of `odt benchmark-board`"
        raise OptionError("board", rule, name, f"Did you mean {close[0]}?" if close else "")
    what = "JSON of `odt benchmark-board`"
    content = read_input(name, what, ModelError)
    with reading(os.fsdecode(name), f"must be {what}", ModelError):
        values = json.loads(content)
    return _board_of(name, values)


def _board_of(path: Any, values: Any) -> Board:
    """Returns the board that JSON describes.

    Raises:
        OptionError: if a field is missing, unknown, of another type or not above 0.
    """
    types = {f.name: f.type for f in fields(Board)}
    if not isinstance(values, dict) or values.keys() != types.keys():
        rule = f"must be JSON with the fields {', '.join(types)}"
        raise OptionError("board", rule, path)
    for name, kind in types.items():
        value = values[name]
        if kind is str:
            rule = "text"
            is_valid = isinstance(value, str)
        else:
            rule = "a whole number above 0" if kind is int else "a number above 0"
            has_kind = isinstance(value, int) or kind is float
            is_valid = is_number(value) and has_kind and value > 0
        if not is_valid:
            raise OptionError("board", f"{path}: {name} must be {rule}", value)
    return Board(**values)
