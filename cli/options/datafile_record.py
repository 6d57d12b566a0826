"""`odt gen-datafile --as`: new data prepared as a preprocessing record says."""

from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from odt.cli.options.datafile_source import opening
from odt.core.datasets.generate import Request
from odt.core.datasets.new_data import load_record, open_new
from odt.core.datasets.preprocess import Targets
from odt.core.datasets.recorded_steps import parse_steps
from odt.core.datasets.source import Source
from odt.core.datasets.splits import Division, Wanted
from odt.errors import OdtError

# Parameters that a record decides, or that make no sense with it.
DECIDED = (
    "augment", "classes", "color", "fit", "flatten", "fold", "frame", "frames", "group_by",
    "hop", "horizon", "label_column", "label_map", "label_pattern", "leave_out", "like",
    "masks", "mean", "mel", "mel_range", "mfcc", "model", "name", "one_hot", "rate", "regression",
    "resize", "scale", "seconds", "size", "std", "stride", "test_source", "unlabelled",
    "window",
)  # fmt: skip


def recorded_request(o: dict[str, Any]) -> tuple[Source, Request]:
    """Returns the source of new data and what is made of it.

    Raises:
        OdtError: for options that the record decides, and without --source.
    """
    context = click.get_current_context()
    given = [n for n in DECIDED if context.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise OdtError(f"{names}: must be given without --as, whose record decides them.")
    if not o["source"] or len(o["split"]) > 1 or "=" in "".join(o["split"]):
        raise OdtError("--as: must be given with --source and at most one name of a --split.")
    record = load_record(o["as_record"])
    source = open_new(opening(o, None), record)
    (part,) = source.parts.values()
    name = o["split"][0] if o["split"] else "new"
    lengths = o["length"][:1] or (None,)
    request = Request(
        splits=(Wanted(name, lengths[0]),),
        out_dir=o["out_dir"],
        prefix=o["prefix_name"],
        division=Division(shuffle=o["shuffle"] or False, seed=o["seed"]),
        inputs=parse_steps(record.steps),
        targets=Targets(source.classes, o["labels"] == "one-hot"),
        record=record,
    )
    return replace(source, parts={name: part}), request
