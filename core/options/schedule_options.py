"""Options for the division of a batch among workers."""

from odt.core.options.option import CHECKPOINT, MEMORY, Option, Whole, table
from odt.core.options.training_options import TRAINING_OPTIONS

# The size of a batch itself belongs to the recipe.
DIVISION_OPTIONS = table(
    micro_batch=Option(
        None,
        Whole(1),
        MEMORY,
        "Micro-batch size: number of samples that a worker computes at once. A smaller one needs "
        "less memory. Chosen by odt if left out.",
        stored=CHECKPOINT,
        federated=True,
    ),
    workers=Option(
        None,
        Whole(1),
        MEMORY,
        "Worker threads, each with its own arena. Chosen by odt if left out.",
        stored=CHECKPOINT,
        federated=True,
    ),
)

# Options of all commands that run a model.
SCHEDULE_OPTIONS = {"batch_size": TRAINING_OPTIONS["batch_size"], **DIVISION_OPTIONS}
