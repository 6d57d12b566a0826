"""`odt gen-datafile --as`: new data prepared as a preprocessing record says."""

from dataclasses import replace

from odt.cli.options.datafile import DatafileOptions
from odt.cli.options.datafile_source import check_source, opening
from odt.cli.options.fits import check_samples, refuse_decided
from odt.datasets.generate import Request
from odt.datasets.new_data import load_record, open_new
from odt.datasets.preprocess import Targets
from odt.datasets.recorded_steps import parse_steps
from odt.datasets.source import Source
from odt.datasets.splits import Division, RequestedSplit
from odt.errors import OdtError


def recorded_request(path: str, options: DatafileOptions) -> tuple[Source, Request]:
    """Returns the source of new data, and the request for its files.

    Args:
        path: path of the record, or of a model that holds it.
        options: the options.

    Raises:
        OdtError: for options that the record decides, and without --source.
    """
    refuse_decided()
    several = len(options.split) > 1 or len(options.length) > 1
    if not options.source or several or "=" in "".join(options.split):
        raise OdtError(
            "--as: must be given with --source, and with at most one name of a --split and one "
            "--length."
        )
    check_source(options)
    record = load_record(path)
    source = open_new(opening(options.source, options, None), record)
    check_samples(source, ())
    (part,) = source.parts.values()
    name = options.split[0] if options.split else "new"
    (length,) = options.length or (None,)
    request = Request(
        splits=(RequestedSplit(name, length),),
        out_dir=options.out_dir,
        prefix=options.prefix_name,
        division=Division(shuffle=options.shuffle or False, seed=options.seed),
        inputs=parse_steps(record.steps),
        targets=Targets(source.classes, options.labels == "one-hot"),
        record=record,
    )
    return replace(source, parts={name: part}), request
