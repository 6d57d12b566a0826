"""A pytest plugin: compiled kernels are those of the Windows library, which runs under wine.

windows.py starts the tests with it. Each call sends the memory that its arguments point to, and
copies back what the kernel has written. The variable ODT_WINDOWS_CALLS is the command that runs
call_kernels.c.
"""

import ctypes
import json
import os
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from odt.kernels.native import binding, library
from odt.kernels.native.structs import WindowWalk
from odt.kernels.rows.opdef import Array

ARGUMENTS = 20  # the most that a kernel has
# Pointer of a WindowWalk → its field with the number of elements.
POINTERS = {
    "row_taps": "taps_h", "row_weights": "taps_h", "col_taps": "taps_w", "col_weights": "taps_w",
    "plane_taps": "taps_d", "plane_weights": "taps_d",
}  # fmt: skip


@dataclass
class Memory:
    """The memory of one call: regions of bytes, and the pointers between them.

    Attributes:
        regions: copies of the memory; the first holds the arguments.
        owners: by region, the array that it is a copy of.
        pointers: region and offset of each pointer, region and offset that it points to.
    """

    regions: list[bytearray] = field(default_factory=lambda: [bytearray(8 * ARGUMENTS)])
    owners: dict[int, Array] = field(default_factory=dict)
    pointers: list[tuple[int, int, int, int]] = field(default_factory=list)
    _regions_of: dict[int, int] = field(default_factory=dict)  # address of an array → region

    def add_array(self, place: tuple[int, int], array: Array) -> None:
        """Adds a pointer to an array; arguments that are views of one array share its region."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        address = root.ctypes.data
        if address not in self._regions_of:
            self._regions_of[address] = len(self.regions)
            self.owners[len(self.regions)] = root
            self.regions.append(bytearray(ctypes.string_at(address, root.nbytes)))
        self.pointers.append((*place, self._regions_of[address], array.ctypes.data - address))

    def add_structs(self, place: tuple[int, int], structs: Sequence[ctypes.Structure]) -> None:
        """Adds a pointer to an array of structs, and the pointers in these."""
        region = len(self.regions)
        self.pointers.append((*place, region, 0))
        self.regions.append(bytearray(b"".join(map(bytes, structs))))
        for k, struct_ in enumerate(structs):
            if not isinstance(struct_, WindowWalk):
                continue
            for name, count in POINTERS.items():
                values = ctypes.string_at(getattr(struct_, name), 8 * getattr(struct_, count))
                offset = k * ctypes.sizeof(struct_) + getattr(WindowWalk, name).offset
                self.pointers.append((region, offset, len(self.regions), 0))
                self.regions.append(bytearray(values))


class Runner:
    """The process that has loaded the Windows library.

    Attributes:
        sets: instruction sets that the library reports.
    """

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        (length,) = struct.unpack("<q", self._take(8))
        self.sets = self._take(length).decode().split()

    def _take(self, size: int) -> bytes:
        assert self._process.stdout
        data = self._process.stdout.read(size)
        assert len(data) == size, "the process with the Windows library ended"
        return data

    def call(self, name: str, memory: Memory) -> None:
        """Calls a kernel and copies back what it has written."""
        stdin = self._process.stdin
        assert stdin
        stdin.write(struct.pack("<64sqq", name.encode(), len(memory.regions), len(memory.pointers)))
        stdin.write(np.array([len(r) for r in memory.regions], "<i8").tobytes())
        for region in memory.regions:
            stdin.write(region)
        stdin.write(np.array(memory.pointers, "<i8").tobytes())
        stdin.flush()
        for k, before in enumerate(memory.regions):
            after = self._take(len(before))
            if k in memory.owners and after != before:
                ctypes.memmove(memory.owners[k].ctypes.data, after, len(after))

    def call_of(self, name: str, operands: Sequence[Any]) -> Callable[[], None]:
        """Replaces binding.call_of."""
        symbol = f"{name}_{library.kernels_in_use()}"
        converters = binding.converters(name)
        bits = [to_bits(a) for to_bits, a in zip(converters, operands, strict=True)]

        def run() -> None:
            memory = Memory()
            memory.regions[0][: 8 * len(bits)] = struct.pack(f"<{len(bits)}q", *bits)
            for k, a in enumerate(operands):
                if isinstance(a, np.ndarray):
                    memory.add_array((0, 8 * k), a)
                elif isinstance(a, ctypes.Structure):
                    memory.add_structs((0, 8 * k), [a])
                elif isinstance(a, ctypes.Array):
                    memory.add_structs((0, 8 * k), list(a))
            self.call(symbol, memory)

        return run


def pytest_configure() -> None:
    """Replaces the functions of the Linux library."""
    runner = Runner(json.loads(os.environ["ODT_WINDOWS_CALLS"]))
    assert runner.sets == list(library.instruction_sets()), runner.sets
    binding.call_of = runner.call_of  # type: ignore[assignment]  # not a Calls
    binding.one_loop = binding.in_order  # type: ignore[assignment]  # of what call_of returns
