"""circle_traininfo.fbs as numbers: slots of its tables, values of its enumerations.

A union takes two slots: the type, then the table.
"""

IDENTIFIER = b"CTR0"

SLOTS = {
    "ModelTraining": (
        "version",
        "optimizer",
        "optimizer_opt_type",
        "optimizer_opt",
        "lossfn",
        "lossfn_opt_type",
        "lossfn_opt",
        "epochs",
        "batch_size",
        "loss_reduction_type",
        "trainable_ops",
    ),
    "SGDOptions": ("learning_rate",),
    "AdamOptions": ("learning_rate", "beta_1", "beta_2", "epsilon"),
    "SparseCategoricalCrossentropyOptions": ("from_logits",),
    "CategoricalCrossentropyOptions": ("from_logits",),
    "MeanSquaredErrorOptions": (),
}

OPTIMIZERS = ("SGD", "ADAM")
OPTIMIZER_OPTIONS = ("NONE", "SGDOptions", "AdamOptions")
LOSSES = ("SPARSE_CATEGORICAL_CROSSENTROPY", "CATEGORICAL_CROSSENTROPY", "MEAN_SQUARED_ERROR")
LOSS_OPTIONS = (
    "NONE",
    "SparseCategoricalCrossentropyOptions",
    "CategoricalCrossentropyOptions",
    "MeanSquaredErrorOptions",
)
REDUCTIONS = ("SumOverBatchSize", "Sum")


def slot(table: str, field: str) -> int:
    """The place of a field in its table."""
    return SLOTS[table].index(field)
