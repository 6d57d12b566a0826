"""What lists show of the rows in odt.kernels, readable without importing a row or NumPy.

Written by tools/write_row_index.py from the rows.
"""

# Folder → names in the order of lists → onert_train's number.
ROWS: dict[str, dict[str, int | None]] = {
    "losses": {
        "categorical_crossentropy": 2,
        "sparse_categorical_crossentropy": None,
        "binary_crossentropy": None,
        "mean_squared_error": 1,
        "mean_absolute_error": None,
        "huber": None,
        "kl_divergence": None,
        "categorical_focal_crossentropy": None,
        "binary_focal_crossentropy": None,
    },
    "optimizers": {
        "sgd": 1,
        "adam": 2,
        "adamw": None,
        "rmsprop": None,
        "adagrad": None,
        "lion": None,
        "adafactor": None,
        "adam8bit": None,
        "ort_adamw": None,
    },
    "metrics": {
        "categorical_accuracy": 0,
        "sparse_categorical_accuracy": None,
        "binary_accuracy": None,
        "top_k_accuracy": None,
        "perplexity": None,
        "precision": None,
        "recall": None,
        "f1_score": None,
        "auc": None,
        "mean_absolute_error": None,
        "mean_squared_error": None,
        "root_mean_squared_error": None,
        "r2": None,
    },
}

# Words for learning rate schedules.
SCHEDULES: tuple[str, ...] = (
    "constant",
    "step",
    "exponential",
    "polynomial",
    "cosine",
    "cosine_restarts",
    "one_cycle",
    "plateau",
)

# Hyper-parameters of all optimizers → description, maximum, whether values are below it, whether it
# is a switch.
HYPER_PARAMETERS: dict[str, tuple[str, float | None, bool, bool]] = {
    "momentum": ("Momentum coefficient for SGD and RMSprop.", 1, False, False),
    "nesterov": ("Use Nesterov momentum for SGD.", None, False, True),
    "weight_decay": (
        "Weight decay (decoupled for adamw, lion, adafactor and "
        "ort_adamw, added to the gradient otherwise).",
        None,
        False,
        False,
    ),
    "beta_1": (
        "Decay rate of the first moment (weight of the momentum in the update for lion).",
        1,
        True,
        False,
    ),
    "beta_2": (
        "Decay rate of the second moment (decay rate of the momentum for lion).",
        1,
        True,
        False,
    ),
    "epsilon": (
        "Constant added to the denominator for Adam, AdamW, RMSprop, "
        "Adagrad, Adam8bit and OrtAdamW.",
        None,
        False,
        False,
    ),
    "lazy": (
        "Update only the rows of embedding tables that a batch reads for Adam.",
        None,
        False,
        True,
    ),
    "rho": ("Decay rate of the squared gradients for RMSprop.", 1, True, False),
    "decay_exponent": (
        "Exponent γ of the second moment's decay rate 1 − t^−γ for Adafactor.",
        None,
        False,
        False,
    ),
    "clip_threshold": ("Largest root mean square of an update for Adafactor.", None, False, False),
}
