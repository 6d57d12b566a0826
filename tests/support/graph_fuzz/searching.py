"""Draws and checks cases; describes those that fail by their seeds, the first ones made smaller."""

from collections.abc import Sequence

from odt.kernels.native import library
from support.graph_fuzz.cases import Case, draw_case
from support.graph_fuzz.checks import Report, check
from support.graph_fuzz.shrinking import shrink

KERNELS = ("numpy", *library.instruction_sets())
MOST = 3  # failures that are shrunk and told
REFUSED = 0.2  # of the cases may be refused, where the batch axis is moved


def search(kind: str, seeds: Sequence[int]) -> str:
    """What is wrong with the cases of these seeds; nothing if all are right."""
    found: list[str] = []
    refused = []
    for seed in seeds:
        case = draw_case(kind, seed)
        report = check(case, KERNELS)
        refused += report.refused[:1]
        if report.wrong:
            found.append(_told(case, report) if len(found) < MOST else f"{kind} {seed}")
    if len(refused) > 1 + REFUSED * len(seeds):
        found.append("\n".join([f"{len(refused)} of {len(seeds)} {kind} are refused:", *refused]))
    return "\n\n".join(found)


def _told(case: Case, report: Report) -> str:
    """The case made smaller, and what is wrong with both."""

    def wrong(smaller: Case) -> list[str]:
        """What fails in the same manner, whichever ways are chosen."""
        for seed in range(4):
            found = [w for w in check(smaller, KERNELS, seed).wrong if _manner(w) in manners]
            if found:
                return found
        return []

    manners = set(map(_manner, report.wrong))
    small = shrink(case, lambda smaller: bool(wrong(smaller)))
    again = f"ODT_GRAPH={case.kind}:{case.seed} pytest tests/core/test_random_graphs.py -k again"
    return "\n".join(
        [str(case), *report.wrong[:3], "made smaller:", str(small), *wrong(small)[:2], again]
    )


def _manner(wrong: str) -> str:
    """The error of a crash; one word for a refusal, and one for other figures."""
    if "crash: " in wrong:
        return wrong.strip().splitlines()[-1][:40]
    return "refused" if "refus" in wrong else "differs"
