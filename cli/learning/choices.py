"""Chooses how `odt learn` makes a model: preparation of the data, network, and training."""

from dataclasses import replace
from pathlib import Path

from odt.cli.learning.recipe import DATA, HEAD, NEW, QUANTIZE, TRAIN, Options, Recipe
from odt.datasets.open_source import format_of, open_source
from odt.datasets.source import Source
from odt.datasets.source_format import Opening
from odt.datasets.splits import length_of
from odt.datasets.tables import TableOptions, TextColumnsError
from odt.errors import DataError, OdtError
from odt.models.bases import find_base

BASES = {"image": "mobilenet", "sound": "keywords"}  # kind of inputs → network of odt-models
TABLES = ("csv", "tsv", "text")
VALIDATION, TEST = 0.15, 0.2  # of all samples; validation of the training part if test is there
ENCODED = ("one_hot", "date", "leave_out")  # options for columns of text
MAX_NUMBERED = 20  # different whole numbers that are classes
SMALL = 2000  # rows; smaller tables get a smaller network


def choose(path: str, target: str | None, base: str | None, seed: int) -> Recipe:
    """Returns the commands that make a model of a source.

    Args:
        path: folder or archive of photos or sounds, or a table.
        target: the target's column of a table; None for the last one.
        base: name or path of the network whose last layer is replaced; None to choose.
        seed: random seed of all commands.

    Raises:
        OdtError: if the source is of another kind, or there is no network for it.
    """
    opening = Opening(path)
    form = format_of(Path(path), opening)
    if form in TABLES:
        if base is not None:
            raise OdtError(
                f"--base: must be left out for a table, which has no base, but got {base}."
            )
        return _of_table(path, target, seed)
    if target is not None:
        raise OdtError(f"--target: must be given with a table, but {path} holds {form}.")
    source = open_source(opening, form)
    if source.kind not in BASES or len(source.classes) < 2:
        raise DataError(
            f"{path}: must be a folder with a folder of photos or sounds for each of at least two "
            f"classes, or a table, but has {len(source.classes)} classes of {form}."
        )
    return _with_new_head(path, source, base or BASES[source.kind], seed)


def _with_new_head(path: str, source: Source, base: str, seed: int) -> Recipe:
    """Returns the commands that train a new last layer of a network for photos or sounds."""
    head: Options = {"model": base, "classes": len(source.classes), "seed": seed}
    if (after := find_base(base).after) is not None:
        head["after"] = after
    data: Options = {"split": _splits([*source.parts]), "seed": seed}
    if source.kind == "image":
        data["dtype"] = "uint8"  # a quarter of the disk; the scale is applied when they are read
    train: Options = {
        "epochs": 100,
        "patience": 10,
        "keep-best": True,
        "num-of-trainable-ops": 2,
        "cache-frozen": "ram",
        "metric": "accuracy",
        "seed": seed,
    }
    return Recipe(path, {HEAD: head, DATA: data, TRAIN: train, QUANTIZE: {}})


def _of_table(path: str, target: str | None, seed: int) -> Recipe:
    """Returns the commands that train a network of dense layers on the rows of a table."""
    data: Options = {"label-column": target or "-1", "missing": "median", "missing-target": "drop"}
    table = TableOptions(label=target or "-1", drop_targets=True)
    try:
        source = open_values(path, table)
    except TextColumnsError as e:
        names = {fit: tuple(n for n, f in e.options.items() if f == fit) for fit in ENCODED}
        one_hot, dates, leave_out = names.values()
        table = replace(table, one_hot=one_hot, dates=dates, leave_out=leave_out)
        source = open_values(path, table)
        data |= {fit.replace("_", "-"): [*columns] for fit, columns in names.items() if columns}
    regression = not source.classes
    data["regression" if regression else "classification"] = True
    data |= {"split": _splits([*source.parts]), "seed": seed}
    rows = sum(map(length_of, source.parts.values()))
    hidden = "16" if rows < SMALL else "64,64"
    new: Options = {"kind": "mlp", "normalize": True, "hidden": hidden, "seed": seed}
    train: Options = {"epochs": 300, "patience": 30, "keep-best": True, "seed": seed}
    train["metric"] = "r2" if regression else "accuracy"
    if regression:
        train["loss"] = "mean-squared-error"
    # The normalization reads columns of very different ranges, which int8 cannot hold together.
    quantize: Options = {"keep-float": ["SUB", "MUL", *(["ADD"] if regression else [])]}
    return Recipe(path, {DATA: data, NEW: new, TRAIN: train, QUANTIZE: quantize})


def open_values(path: str, table: TableOptions) -> Source:
    """Opens a table; numbers are values unless they are few different whole numbers."""
    try:
        source = open_source(Opening(path, table=replace(table, regression=True)))
    except TextColumnsError:
        raise
    except DataError:  # words; other faults are reported below
        return open_source(Opening(path, table=replace(table, regression=False)))
    parts = source.parts.values()
    targets = {float(part.read(k).targets[0]) for part in parts for k in range(length_of(part))}
    if len(targets) > MAX_NUMBERED or any(not target.is_integer() for target in targets):
        return source
    return open_source(Opening(path, table=replace(table, regression=False)))


def _splits(parts: list[str]) -> list[str]:
    """Returns the splits of a source: its own as far as it has them."""
    if {"train", "test"} <= {*parts}:
        validation = "validation" if "validation" in parts else f"validation={VALIDATION}"
        return ["train", validation, "test"]
    return [f"train={1 - VALIDATION - TEST:g}", f"validation={VALIDATION}", f"test={TEST}"]
