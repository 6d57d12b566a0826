"""Draws step time and memory of odt as ratios, one line for each row of the benchmark."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.figures import FORWARD, NARROW, Key, peer_ratios, title
from bench.work import WORK, Work

Points = list[tuple[int, float]]  # line, ratio


def ratios(values: Mapping[Key, float], works: Sequence[Work]) -> Points:
    """Returns the ratios to the best float32 peers."""
    by_work = peer_ratios(values)
    return [(line, by_work[w.name]) for line, w in enumerate(works) if w.name in by_work]


def ratios_to(
    values: Mapping[Key, float], works: Sequence[Work], other: str, times: float = 1.0
) -> Points:
    """Returns odt's step over another system's, or over several of its steps."""
    points = []
    for line, work in enumerate(works):
        ours, theirs = values.get((work.name, "odt")), values.get((work.name, other))
        if ours and theirs:
            points.append((line, ours / theirs / times))
    return points


def write_picture(steps: Mapping[Key, float], memory: Mapping[Key, float], path: Path) -> None:
    """Draws a bar with its number for each row; below 1, odt is faster or takes less memory."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    works = [w for w in WORK if (w.name, "odt") in steps]
    panels = (
        (ratios(steps, works), "step time / fastest float32 peer"),
        (ratios_to(steps, works, NARROW), f"step time / {NARROW}"),
        (ratios_to(steps, works, FORWARD, 3), f"step time / 3 × {FORWARD}"),
        (ratios(memory, works), "peak memory / leanest float32 peer"),
    )
    figure, axes = pyplot.subplots(
        1, 4, figsize=(13, 1 + 0.22 * len(works)), layout="constrained", sharey=True
    )
    for axis, (points, name) in zip(axes, panels, strict=True):
        lines, values = [line for line, _ in points], [value for _, value in points]
        bars = axis.barh(lines, values, color=["C0" if v <= 1 else "C3" for v in values])
        axis.bar_label(bars, [f"{v:.2f}" for v in values], padding=2, fontsize=8)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(f"odt: {name}", fontsize=9)
        axis.margins(x=0.2)
    axes[0].set_yticks(range(len(works)), [title(w) for w in works], fontsize=8)
    axes[0].set_ylim(len(works) - 0.4, -0.6)
    figure.savefig(path, dpi=110, bbox_inches="tight")
