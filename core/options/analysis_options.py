"""Options of `odt.plan` and `odt.check` besides those of a trainer."""

from odt.core.options.option import OTHER, Form, Option, Whole, Word, table
from odt.kernels.native.target import TARGETS

PLAN_OPTIONS = table(
    data_length=Option(
        None,
        Whole(1),
        OTHER,
        "Number of samples of the run, for training and validation together; only the first N of "
        "data files are used. Time and the memory of `cache_frozen=` depend on it.",
        metavar="N",
        common=True,
    ),
    board=Option(
        None,
        Form("text", "the name of a board, or a file of odt benchmark-board"),
        OTHER,
        "Plan for a board: pi-zero-2, pi-3, pi-4, pi-5, jetson-nano, or a file that "
        "odt benchmark-board wrote there. Nothing is measured here.",
        metavar="NAME",
        common=True,
    ),
    target=Option(
        None,
        Word(TARGETS),
        OTHER,
        "Plan for the C program of `odt compile` for this machine, instead of a process here.",
        common=True,
    ),
)
CHECK_OPTIONS = table(
    seed=Option(0, Whole(0), OTHER, "Random seed of the test batch.", common=True)
)
