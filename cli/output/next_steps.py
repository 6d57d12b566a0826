"""Last lines of `odt train`: the files that it wrote, and the commands that may come next."""

import os
import shlex
from collections.abc import Iterator

from odt.cli.options.data_folder import find_file
from odt.cli.options.exports import ADAPTERS
from odt.cli.options.train_options import TrainOptions


def next_steps(options: TrainOptions, *, is_stopped: bool) -> Iterator[str]:
    """Yields a line for each file or folder that was written, and the next commands.

    Args:
        options: options of the command.
        is_stopped: whether a signal ended training.
    """
    exports = options.exports.paths
    run = options.run.run_dir
    for path in exports.values():
        yield f"{path}: {os.path.getsize(path) / 1000:,.0f} kB"
    if run:
        yield f"{run}: model, checkpoints and log of the run"
    if is_stopped:
        if run:
            yield f"Continue: {shlex.join(['odt', 'train', '--run-dir', run])}"
        return
    if run:
        yield f"Report: {shlex.join(['odt', 'report', run])}"
    model = next((path for kind, path in exports.items() if kind != ADAPTERS), None)
    folder = os.path.dirname(options.samples.load_input or "") or os.curdir
    if model and find_file(folder, "test", "input"):
        yield f"Evaluate: {shlex.join(['odt', 'eval', model, '--data', folder])}"
