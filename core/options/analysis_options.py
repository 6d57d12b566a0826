"""Options of `odt.plan` and `odt.check` besides those of a trainer."""

from odt.core.options.option import OTHER, Option, Whole, table

PLAN_OPTIONS = table(
    data_length=Option(
        None,
        Whole(1),
        OTHER,
        "Number of samples that `cache_frozen=` caches, for training and validation.",
        metavar="N",
        common=True,
    )
)
CHECK_OPTIONS = table(
    seed=Option(0, Whole(0), OTHER, "Random seed of the test batch.", common=True)
)
