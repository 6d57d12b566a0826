"""Chart of the memory over the calls of a step."""

import odt
from odt.charts.png import new_figure, save_png

MB = 1e6


def draw(forecast: odt.MemoryForecast, path: str) -> None:
    """Writes a PNG: constant memory, and stacked on it the values alive at each call.

    Raises:
        OdtError: if matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure(figsize=(10, 5))
    layers = {
        "parameters": [forecast.parameters],
        "optimizer": [forecast.optimizer],
        "gradients, accumulated": [forecast.gradients],
        "packed weights": [forecast.packed],
    }
    alive = forecast.usage()
    calls = range(len(alive["data"]))
    heights = [[n / MB for n in (each * len(calls))] for each in layers.values()]
    heights += [[n / MB for n in each] for each in alive.values()]
    names = [*layers, *(f"{name} in arenas" for name in alive)]
    axes = figure.add_subplot()
    axes.stackplot(calls, heights, labels=names, step="post")
    axes.axhline(forecast.allocated / MB, color="black", linewidth=1, label="allocated")
    middle = forecast.forward_calls
    axes.axvline(middle, color="gray", linestyle=":", label="forward | backward")
    parts = f"micro-batches of {forecast.micro_batch} of {forecast.batch_size}"
    axes.set_title(f"{parts}, workers: {forecast.workers}")
    axes.set_xlabel("call")
    axes.set_ylabel("MB")
    figure.legend(loc="outside right upper", fontsize="small")
    save_png(figure, path)
