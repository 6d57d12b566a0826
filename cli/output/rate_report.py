"""`odt train --find-rate`: a learning rate range test instead of training."""

from contextlib import closing
from functools import partial
from typing import Any

import click

import odt
from odt.charts.png import new_figure, save_png
from odt.core.data.dataset import DataSet
from odt.core.options.fit_options import FitOptions
from odt.progress import Progress


def find_rate(trainer: odt.Trainer, data: DataSet, fit: FitOptions, png: str | None) -> None:
    """Runs the test, prints its table and the suggestion, and draws the plot.

    Args:
        trainer: the trainer.
        data: training samples.
        fit: options of `fit`; the seed and the sample weights are used.
        png: path of the plot; None for none.
    """
    figure = new_figure(figsize=(8, 5)) if png else None  # an error now if it cannot be drawn
    with closing(Progress("step")) as bar:
        trainer.session.build().seen = partial(bar, "find rate")
        result = trainer.find_rate(data, seed=fit.seed or 0, sample_weight=fit.sample_weight)
    click.echo(result)
    if result.suggestion is None:
        click.echo("No rate lowers the loss: the model is at a minimum, or the data do not fit it.")
    else:
        click.echo(f"suggestion: --learning-rate {result.suggestion:g}")
    if figure is not None and png:
        _draw(figure, result, png)


def _draw(figure: Any, result: odt.RateTest, path: str) -> None:
    """Draws the loss and its change over the rates."""
    axes = figure.add_subplot()
    axes.plot(result.rates, result.changes, label="change of the loss, smoothed")
    axes.plot(result.rates, result.losses, linewidth=0.7, label="loss of the next batch")
    axes.axhline(0, color="gray", linewidth=0.7)
    if result.suggestion is not None:
        axes.axvline(result.suggestion, color="black", linestyle=":", label="suggestion")
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss")
    axes.legend()
    save_png(figure, path)
