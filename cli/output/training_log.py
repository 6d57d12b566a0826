"""Output of `odt train` while it runs, with a progress bar on a terminal."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click

import odt
from odt.cli.options.onert import spelled_as_one
from odt.cli.options.train_options import TrainOptions
from odt.cli.output import report
from odt.cli.output.next_steps import next_steps
from odt.cli.output.spelling import spell
from odt.core.options.training_options import BF16
from odt.core.recipe.resolve import number_of_last, values_used
from odt.core.storage.usage import StageTimer
from odt.kernels.loss_text import loss_label
from odt.kernels.native.library import describe_kernels
from odt.progress import clear_bars
from odt.training.memory_text import memory_block, precision_line, trained_line
from odt.training.progress_bar import ProgressBar


class RunLog(Protocol):
    """A log that takes warnings."""

    def warn(self, text: str) -> None:
        """Called with the text of each warning."""


@contextmanager
def warnings_as_lines(logs: Sequence[RunLog] = ()) -> Iterator[None]:
    """Prints warnings of odt as lines on stderr, and passes them to logs."""

    def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        text = spell(str(message))
        clear_bars()
        click.echo(text, err=True)
        for log in logs:
            log.warn(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", odt.OdtWarning)
        warnings.showwarning = show
        yield


class TrainingLog(ProgressBar):
    """Prints onert_train's blocks and lines, beside the progress bar.

    Args:
        stopped: the signals received; training ends when it is not empty.
        options: options of the command.
    """

    def __init__(self, stopped: Sequence[int], options: TrainOptions) -> None:
        super().__init__()
        self._stopped = stopped
        self._options = options
        self._times: list[float] = []
        self._first = 1

    def on_train_begin(self, logs: odt.Logs) -> None:
        """Prints the training parameters, the number of trained weights and the memory."""
        session = self.trainer.session
        options = self._options
        core = session.build()
        values = values_used(session.recipe.model.graph, core.info)
        part = session.recipe.lowered.part.graph
        labels = (loss_label(loss.name, loss.options) for loss in session.recipe.losses)
        verbose = options.report.verbose_level
        block = report.parameter_block(
            learning_rate=core.info.learning_rate,
            batch_size=core.info.batch_size,
            loss=", ".join(dict.fromkeys(labels)),
            reduction=core.info.reduction,
            optimizer=core.info.optimizer,
            num_of_trainable_ops=number_of_last(part, core.info.trainable_ops),
            trainable_ops=core.info.trainable_ops or (),
            origins=session.recipe.origins if verbose else None,
            hyper_parameters=values.hyper_parameters if verbose else None,
            lowers_rate=session.may_lower_rate,
        )
        click.echo(block)
        if core.info.schedule:
            click.echo(report.schedule_line(core.info.schedule, core.schedule_steps))
        if verbose:
            click.echo(describe_kernels())
        if options.selects:
            click.echo(trained_line(core.parameters.trained.values()))
        if core.info.precision == BF16:
            click.echo(precision_line(core.plan))
        click.echo(spell(memory_block(core.memory(), core.runtime.schedule)))
        if session.memory_budget is not None and core.predicted is not None:
            click.echo(report.budget_line(core.predicted, core.process, session.memory_budget))
        if session.cache is not None:
            click.echo(report.cache_line(session.cache))
        steps = self.params["steps"] or 0
        self._first, _ = session.resume.start(core.info.step_samples, steps)
        super().on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: odt.Logs) -> None:
        """Shows the epoch on the progress bar; prints the results before the first epoch."""
        start = self.trainer.session.epoch
        if start is not None and start.number == 0 and not spelled_as_one():
            first = self.trainer.session.epoch_logs(start)
            click.echo(report.epoch_line(0, self._options.fit.epochs, start.training, first))
        super().on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: odt.Logs) -> None:
        """Advances the progress bar, and ends training after a signal."""
        super().on_train_batch_end(batch, logs)
        self.trainer.stop_training = bool(self._stopped)

    def on_epoch_end(self, epoch: int, logs: odt.Logs) -> None:
        """Prints the epoch's line."""
        record = self.trainer.session.epoch
        assert record is not None, "`fit` sets the epoch before its callbacks"
        super().on_epoch_end(epoch, logs)
        self._times.append(record.training.seconds * 1000)
        epochs, as_one = self._options.fit.epochs, spelled_as_one()
        click.echo(report.epoch_line(epoch + 1, epochs, record.training, logs, as_one=as_one))

    def end(self, stages: StageTimer) -> None:
        """Prints the best epoch, and time and memory of each stage."""
        best = self.trainer.session.build().best
        options = self._options
        keep_best = options.session.keep_best
        if (keep_best or options.fit.patience) and best.epoch:
            click.echo(report.best_line(best, self.trainer.session.monitor, keep_best))
        feed = self.trainer.session.feed
        if feed is not None and self._times:
            click.echo(report.feed_line(feed.waited, self._times))
        times = self._times if spelled_as_one() else ()  # the lines of the epochs have theirs
        click.echo(report.timing_table(stages.times_ms, times, self._first))
        if options.report.mem_poll:
            click.echo(report.memory_tables(stages.usages))
        if not spelled_as_one():
            for line in next_steps(options, is_stopped=bool(self._stopped)):
                click.echo(line)
