"""Options of how a batch is divided, which all commands that run a model have."""

from odt.core.options.option import (
    CHECKPOINT,
    CIRCLE_PLUS,
    DATA,
    MAX_SAMPLES,
    MEMORY,
    Option,
    Whole,
    table,
)

SCHEDULE_OPTIONS = table(
    batch_size=Option(
        32,
        Whole(1, MAX_SAMPLES),
        DATA,
        "Batch size: samples per step.",
        stored=CIRCLE_PLUS,
        federated=True,
        common=True,
    ),
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
