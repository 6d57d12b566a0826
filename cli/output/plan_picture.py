"""Chart of the memory over the calls of a step."""

from odt.cli.output.png import new_figure, save_png
from odt.core.planning.budget.arena_usage import arena_usage
from odt.core.planning.budget.forecast import Forecast

MB = 1e6


def draw(forecast: Forecast, path: str) -> None:
    """Writes a PNG: constant memory, and stacked on it the values alive at each call.

    Raises:
        OdtError: if matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(figsize=(10, 5))
    layers = {
        "parameters": [forecast.parameters],
        "optimizer": [forecast.slots],
        "gradients, accumulated": [forecast.gradients],
        "packed weights": [forecast.packed],
    }
    alive = arena_usage(forecast.running, forecast.schedule.workers)
    calls = range(len(forecast.running.entries))
    heights = [[n / MB for n in (each * len(calls))] for each in layers.values()]
    heights += [[n / MB for n in each] for each in alive.values()]
    names = [*layers, *(f"{name} in arenas" for name in alive)]
    axes = figure.add_subplot()
    axes.stackplot(calls, heights, labels=names, step="post")
    axes.axhline(forecast.total / MB, color="black", linewidth=1, label="allocated")
    axes.axvline(
        forecast.running.forward_entries, color="gray", linestyle=":", label="forward | backward"
    )
    s = forecast.schedule
    axes.set_title(f"micro-batches of {s.micro_batch} of {s.batch}, workers: {s.workers}")
    axes.set_xlabel("call")
    axes.set_ylabel("MB")
    figure.legend(loc="outside right upper", fontsize="small")
    save_png(figure, path)
