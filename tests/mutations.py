"""Damages files as disks, networks and attackers do, from a seed."""

from collections.abc import Iterator

import numpy as np

EXTREMES = (0, 1, 2, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """Damaged copies: bytes changed, numbers made extreme, lengths inflated, ends cut off.

    Flatbuffers keep their tables apart from the weights; half of all changes go where small
    numbers stand, which is where the tables are.
    """
    rng = np.random.default_rng(seed)
    words = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
    tables = 4 * np.flatnonzero((words > 0) & (words < len(data)))
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            in_tables = rng.random() < 0.5 and len(tables)
            at = int(rng.choice(tables) if in_tables else rng.integers(len(data)))
            old = int.from_bytes(changed[at : at + 4], "little")
            new = (
                old ^ int(rng.integers(1, 256)) << int(rng.choice((0, 8, 16, 24))),
                int(rng.choice(EXTREMES)),
                (old + 4 * int(rng.integers(-8, 9))) % 2**32,
            )[int(rng.integers(3))]
            changed[at : at + 4] = new.to_bytes(4, "little")
        if rng.random() < 0.05:
            del changed[int(rng.integers(len(data))) :]
        yield bytes(changed)
