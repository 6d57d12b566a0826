"""Writes docs/benchmarks.json, docs/benchmarks.md and its chart from the results in bench-out/.

The file of values holds every figure; the page is made from the file, and shows a dozen rows.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import (
    FORWARD,
    LEAST_SPEED,
    MAX_OTHERS,
    NARROW,
    SAME_LOSS,
    Key,
    Result,
    best_peer,
    disturbed,
    failures,
    medians,
    other_losses,
    title,
)
from bench.networks import NETWORKS
from bench.picture import write_picture
from bench.ratios import store
from bench.work import SHOWN, WORK

FIGURES = ("step_ms", "memory_mb", "first_loss_ms")
DIGITS = 4  # of a figure in the file
NAME = "benchmarks"
PAGE = """\
# Benchmarks

`make bench` measures training steps in odt and in other systems, its peers, for {rows} pairs of a
network and a batch size. All use Adam, float32, two threads, random data, and the same initial
weights. All systems are installed from wheels. The peer onert is the runtime of [Samsung
ONE](one-compatibility.md). The figures in the table and the chart are of this processor:
{processors}.

{table}

`*` marks figures from [disturbed runs](#how-it-is-measured). Networks named *shipped* are files of
other projects, which PyTorch and ONNX Runtime do not read. In rows with *last layer*, only the last
layer trains.

![Step time and memory of odt, relative to other systems](benchmarks.png)

The chart has all pairs. A ratio below 1 means that odt is faster or takes less memory. In the first
and the last panel, the ratio is to the best peer in float32, as in the table. The second panel
compares with PyTorch in bfloat16. The third compares a training step of odt with three forward
passes of LiteRT, which have about as much arithmetic.

[benchmarks.json](benchmarks.json) has every figure:

- step time, peak memory and time to the first loss of each system
- the same figures of odt with other [kernels](kernels.md), within a memory budget, with [cached
  frozen layers](fine-tuning.md#cache-of-frozen-layers), and with matrix products in bfloat16
- the multiplications of a forward pass, start-up, installed size, and scaling with batch, width and
  depth
- the ratios to the fastest peer on other processors

## How it is measured

- **Systems.** PyTorch uses fused Adam. *PyTorch, compiled* uses `torch.compile`. This system and
  *PyTorch, channels last* store images with channels last. *{narrow}* computes in bfloat16 by
  autocast. *LiteRT, forward* is a forward pass alone. These last two do not count as peers in the
  table.
- **Order.** Processes of all systems take turns, odt first and last. A process gives the median of
  its steps. Each figure is the median over the processes of a system.
- **Disturbed runs.** A run is disturbed if other processes used {others} cores or more. Before
  and after each run, the speed of a matrix product is measured. If it was less than {speed} of the
  best speed of all runs, the host was busy and the run is disturbed, too. Disturbed runs are left
  out if a system has other runs.
- **Memory** is the peak of resident memory, in MB of 2²⁰ bytes. What the process holds before it
  loads the system, which is Python, NumPy and a batch, is subtracted.
- **Time to the first loss** includes imports, reading the model, planning and one step.
- **Padding.** odt, onert and LiteRT pad layers of stride 2 as in TFLite. PyTorch and ONNX Runtime
  pad both sides equally. The amount of arithmetic is the same, but the loss differs. The first
  losses of systems with the same padding agree to {same}{exceptions}
"""


def values(results: Sequence[Result], other_figures: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the contents of the file of values.

    Args:
        results: the results of the measurements.
        other_figures: the figures that belong to no row, such as those of start-up.
    """
    marked = disturbed(results)
    rows: dict[str, dict[str, dict[str, float | bool]]] = {}
    for figure in FIGURES:
        for (work, system), value in medians(results, figure).items():
            if system == FORWARD and figure != "step_ms":
                continue  # it trains nothing
            cell = rows.setdefault(work, {}).setdefault(system, {})
            cell[figure] = float(f"{value:.{DIGITS}g}")
            if (work, system) in marked:
                cell["disturbed"] = True
    further = {
        key: value for key, value in other_figures.items() if key not in ("absent", "missing")
    }
    return {
        "processors": sorted({r["processor"] for r in results}),
        "other_losses": other_losses(results),
        "rows": rows,
        "multiplications": {n: net().multiplications for n, net in NETWORKS.items()},
        **further,
        "not_measured": [
            *(f"{s}: could not be installed: {why}" for s, why in other_figures["absent"].items()),
            *(f"{w}: {why}" for w, why in other_figures["missing"].items()),
            *(f"{s}, {', '.join(w)}: {why}" for (s, why), w in by_reason(failures(results))),
        ],
    }


def by_reason(failed: Mapping[Key, str]) -> list[tuple[tuple[str, str], list[str]]]:
    """Returns ((system, error), works) of each error."""
    works: dict[tuple[str, str], list[str]] = {}
    for (work, system), why in failed.items():
        works.setdefault((system, why), []).append(work)
    return list(works.items())


def figures(content: Mapping[str, Any], figure: str) -> dict[Key, float]:
    """Returns (work, system) → one figure of the file of values."""
    return {
        (work, system): cell[figure]
        for work, cells in content["rows"].items()
        for system, cell in cells.items()
        if figure in cell
    }


def number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cell(content: Mapping[str, Any], figure: str, key: Key, unit: str) -> str:
    """Formats a figure, with a star if all runs were disturbed."""
    work, system = key
    entry = content["rows"][work][system]
    star = "*" if "disturbed" in entry else ""
    return f"{number(entry[figure])}{star} {unit}"


def best_cell(content: Mapping[str, Any], figure: str, work: str, unit: str) -> str:
    """Formats the figure and the name of the best peer."""
    peer = best_peer(figures(content, figure), work)
    return f"{cell(content, figure, (work, peer[0]), unit)} ({peer[0]})" if peer else "–"


def comparison(content: Mapping[str, Any]) -> list[str]:
    """Returns the table of the rows in SHOWN beside the best peer of each."""
    steps = figures(content, "step_ms")
    lines = [
        "| network | step of odt | fastest peer | ratio | memory of odt | lowest of the peers |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for work in WORK:
        key, peer = (work.name, "odt"), best_peer(steps, work.name)
        if work.name not in SHOWN or key not in steps:
            continue
        cells = (
            title(work),
            cell(content, "step_ms", key, "ms"),
            best_cell(content, "step_ms", work.name, "ms"),
            number(steps[key] / peer[1]) if peer else "–",
            cell(content, "memory_mb", key, "MB"),
            best_cell(content, "memory_mb", work.name, "MB"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def text(content: Mapping[str, Any]) -> str:
    """Returns the text of the page.

    Args:
        content: the contents of the file of values.
    """
    others = content["other_losses"]
    page = PAGE.format(
        rows=len(content["rows"]),
        processors="; ".join(content["processors"]),
        table="\n".join(comparison(content)),
        narrow=NARROW,
        others=MAX_OTHERS,
        speed=LEAST_SPEED,
        same=f"{SAME_LOSS:.1%}",
        exceptions=f", with these exceptions:\n  {'; '.join(others)}." if others else ".",
    )
    if content["not_measured"]:
        page += "\n## Not measured\n\n" + "".join(f"- {why}\n" for why in content["not_measured"])
    return page


def write_values(content: Mapping[str, Any], docs: Path) -> None:
    """Writes the file of values, one line for each row, and the page made from it."""
    rows = ",\n".join(
        f"  {json.dumps(work)}: {json.dumps(cells, ensure_ascii=False)}"
        for work, cells in content["rows"].items()
    )
    parts = [
        f" {json.dumps(name)}: "
        + (f"{{\n{rows}\n }}" if name == "rows" else json.dumps(value, ensure_ascii=False))
        for name, value in content.items()
    ]
    (docs / f"{NAME}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    (docs / f"{NAME}.md").write_text(text(content), encoding="utf-8")


def write_report(out: Path, docs: Path) -> None:
    """Writes the file of values, the page and the picture."""
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    other_figures = json.loads((out / "more.json").read_text())
    content = values(results, other_figures | {"ratios": store(results)})
    write_values(content, docs)
    steps, memory = (figures(content, name) for name in ("step_ms", "memory_mb"))
    write_picture(steps, memory, docs / f"{NAME}.png")
