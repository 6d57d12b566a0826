"""When a run releases the pages of stored weights that are mapped from the model's file.

Mapped pages that were read count as memory of the process. Weights that calls decode are read in
the order of the plan: once those of some megabytes were read, the pages are released. They stay in
the system's page cache, and reading them again costs a page fault for 64 kB, a fraction of the time
of decoding them.
"""

import mmap
from collections.abc import Iterator, Mapping

from odt.core.planning.plan import Call, Plan, Region
from odt.core.storage.mapped_files import mapped_file

CAN_RELEASE = hasattr(mmap, "MADV_DONTNEED")
IN_USE = 2**24  # bytes of weights whose pages are in use at a time, unless one weight has more


def mapped_weights(plan: Plan) -> dict[str, int]:
    """Returns the bytes of the stored weights whose pages can be released, by name."""
    sizes: dict[str, int] = {}
    if not CAN_RELEASE:
        return sizes
    for name, value in plan.values.items():
        if value.region is Region.CONSTANT and value.base is None and value.tensor is not None:
            tensor = plan.graph.tensors[value.tensor]
            if tensor.decoder is not None and mapped_file(tensor.data) is not None:
                sizes[name] = value.spec.nbytes
    return sizes


def _readers(plan: Plan, sizes: Mapping[str, int]) -> Iterator[tuple[int, bool, int]]:
    """Yields calls that read weights: entry, whether pages are released before, bytes in use then.

    Arguments as for `releases`.
    """
    held: set[str] | None = None  # None: a run before may have read any
    for k, entry in enumerate(plan.entries):
        if isinstance(entry, Call):
            read = {plan.root(name) for name in entry.values(entry.reads)} & sizes.keys()
            if not read:
                continue
            releases = held is None or sum(sizes[n] for n in held | read) > IN_USE
            held = read if held is None or releases else held | read
            yield k, releases, sum(sizes[n] for n in held)


def releases(plan: Plan, sizes: Mapping[str, int]) -> frozenset[int]:
    """Returns the entries before which a run releases the pages of stored weights.

    Args:
        plan: the plan.
        sizes: `mapped_weights` of the plan.
    """
    if sum(sizes.values()) <= IN_USE:
        return frozenset()
    return frozenset(k for k, before, _ in _readers(plan, sizes) if before)


def nbytes_in_use(plan: Plan, sizes: Mapping[str, int]) -> int:
    """Returns the bytes of stored weights whose pages are in use at a time, at most.

    Arguments as for `releases`.
    """
    total = sum(sizes.values())
    return total if total <= IN_USE else max(n for *_, n in _readers(plan, sizes))
