"""Output of `odt fed simulate`: clients, memory, a line for each round, and the plot."""

import os
from collections.abc import Sequence

from odt.charts.chart import Chart, svg
from odt.charts.chart_png import draw_png
from odt.core.storage.atomic_files import write_atomically
from odt.errors import OdtError
from odt.federated.federation import Federation
from odt.federated.history import Round
from odt.text import quantity, size


def begin_lines(federation: Federation) -> list[str]:
    """Formats the clients, the tensors that travel, and the memory before training."""
    sizes = sorted(len(client.samples) for client in federation.clients)
    tensors = federation.tensors
    count = sum(a.size for a in tensors.values())
    memory = federation.memory()
    rows = {name: nbytes for name, nbytes in memory.items() if nbytes}
    rows["total"] = sum(memory.values())
    width = max(map(len, rows))
    return [
        f"clients: {len(sizes)}, with {sizes[0]} to {sizes[-1]} samples, {sum(sizes):,} in all",
        f"trains: {count:,} parameters in {quantity(len(tensors), 'tensor')}",
        "== memory ==",
        *(f"- {name:{width}} = {nbytes:>13,} bytes" for name, nbytes in rows.items()),
        "=" * 12,
    ]


def round_line(result: Round, rounds: int) -> str:
    """Formats a round: clients, loss, metrics and bytes."""
    items = [f"Round {result.round}/{rounds}"]
    if result.round:
        items.append(f"{result.trained} of {quantity(result.sampled, 'client')}")
    items += [f"{name}: {value:.4f}" for name, value in result.metrics.items()]
    if result.round:
        items.append(f"{size(result.bytes_up)} up, {size(result.bytes_down)} down")
    return " - ".join(items)


def plotted_name(rounds: Sequence[Round]) -> str:
    """Returns the metric that a plot shows: of the validation, else of the clients.

    An accuracy comes first, then any other metric, then the loss.

    Raises:
        OdtError: if no round has a metric.
    """
    means = [n for n in rounds[-1].metrics if not n.startswith(("client_min_", "client_max_"))]
    for prefix in ("val_", "client_", ""):
        names = [n for n in means if n.startswith(prefix)]
        accuracies = [n for n in names if "accuracy" in n]
        others = [n for n in names if "loss" not in n]
        if names:
            return (accuracies or others or names)[0]
    raise OdtError("--plot: must have a round to show, but got none. Give --rounds 1 or more.")


def draw_plot(rounds: Sequence[Round], path: str) -> None:
    """Draws a metric by round as SVG or PNG."""
    name = plotted_name(rounds)
    lines = {name: [(float(r.round), r.metrics[name]) for r in rounds if name in r.metrics]}
    chart = Chart(name, lines, "round")
    if os.path.splitext(path)[1].lower() == ".png":
        draw_png([chart], path)
    else:
        write_atomically(path, [svg([chart]).encode()], OdtError)
