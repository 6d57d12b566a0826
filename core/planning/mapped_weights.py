"""When a run releases the pages of stored weights that are mapped from the model's file.

Mapped pages that were read count as memory of the process. Weights that calls decode are read in
the order of the plan: once those of some megabytes were read, the pages are released. They stay in
the system's page cache, and reading them again costs a page fault for 64 kB, a fraction of the time
of decoding them.
"""

import mmap
from collections.abc import Iterator

from odt.core.planning.plan import Call, Plan, Region
from odt.core.storage.mapped_files import mapped_file

CAN_RELEASE = hasattr(mmap, "MADV_DONTNEED")
RESIDENT = 2**24  # bytes of weights whose pages are in use at a time, unless one weight has more


def mapped_weights(plan: Plan) -> dict[str, int]:
    """Returns the bytes of the stored weights whose pages can be released, by name."""
    found = {}
    for name, value in plan.values.items():
        if value.region is Region.CONSTANT and value.base is None and value.tensor is not None:
            tensor = plan.graph.tensors[value.tensor]
            if tensor.decoder is not None and mapped_file(tensor.data) is not None:
                found[name] = value.spec.nbytes
    return found if CAN_RELEASE else {}


def _resident(plan: Plan, sizes: dict[str, int]) -> Iterator[tuple[int, bool, int]]:
    """Yields calls that read weights: entry, whether pages are released before, bytes in use then.

    Args:
        plan: the plan.
        sizes: bytes of the weights.
    """
    held: set[str] | None = None  # None: a run before may have read any
    for k, entry in enumerate(plan.entries):
        if isinstance(entry, Call):
            read = {plan.root(name) for name in entry.values(entry.reads)} & sizes.keys()
            if not read:
                continue
            releases = held is None or sum(sizes[n] for n in held | read) > RESIDENT
            held = read if held is None or releases else held | read
            yield k, releases, sum(sizes[n] for n in held)


def releases(plan: Plan) -> frozenset[int]:
    """Returns the entries before which a run releases the pages of stored weights."""
    sizes = mapped_weights(plan)
    if sum(sizes.values()) <= RESIDENT:
        return frozenset()
    return frozenset(k for k, before, _ in _resident(plan, sizes) if before)


def resident_nbytes(plan: Plan) -> int:
    """Returns the bytes of stored weights whose pages are in use at a time, at most."""
    sizes = mapped_weights(plan)
    total = sum(sizes.values())
    return total if total <= RESIDENT else max(n for *_, n in _resident(plan, sizes))
