"""Writes docs/benchmarks.md and its chart from the results in bench-out/."""

import itertools
import json
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from bench.figures import (
    FORWARD,
    LEAST_SPEED,
    MOST_OTHERS,
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
from bench.ratios import Ratios, store
from bench.startup import section
from bench.work import WAYS, WORK


def number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def cell(values: Mapping[Key, float], key: Key, marked: Set[Key], unit: str = "") -> str:
    """Formats a figure, with a star if all runs were disturbed."""
    star = "*" if key in marked else ""
    return f"{number(values[key])}{star}{unit}" if key in values else "–"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines] + [""]


def best_cell(values: Mapping[Key, float], work: str, marked: Set[Key], unit: str) -> str:
    """Formats the figure and name of the best peer."""
    peer = best_peer(values, work)
    return f"{cell(values, (work, peer[0]), marked, unit)} ({peer[0]})" if peer else "–"


def narrow_cell(values: Mapping[Key, float], work: str, marked: Set[Key]) -> str:
    """Formats the figure of PyTorch in bfloat16, and odt's ratio to it."""
    key, narrow = (work, "odt"), (work, NARROW)
    if narrow not in values:
        return "–"
    return f"{cell(values, narrow, marked, ' ms')}: {number(values[key] / values[narrow])}"


def share(values: Mapping[Key, float], key: Key, other: Key, marked: Set[Key], goal: float) -> str:
    if other not in values:
        return "–"
    star = "*" if marked & {key, other} else ""
    return f"{number(values[key] / values[other])}{star} (goal {goal})"


def goals(steps: Mapping[Key, float], memory: Mapping[Key, float], marked: Set[Key]) -> list[str]:
    """Returns the table that compares odt with the best peer of each row."""
    rows = []
    for work in WORK:
        key, peer = (work.name, "odt"), best_peer(steps, work.name)
        if key not in steps:
            continue
        least = best_peer(memory, work.name)
        goal = work.memory or (least[1] / 2 if least else None)
        rows.append(
            [
                title(work),
                cell(steps, key, marked, " ms"),
                best_cell(steps, work.name, marked, " ms"),
                share(steps, key, (work.name, peer[0] if peer else ""), marked, work.step),
                narrow_cell(steps, work.name, marked),
                cell(memory, key, marked, " MB") + (f" (goal {number(goal)})" if goal else ""),
                best_cell(memory, work.name, marked, " MB"),
            ]
        )
    head = ("work", "odt", "fastest peer", "ratio of time", f"{NARROW}: ratio", "memory of odt",
            "lowest of the peers")  # fmt: skip
    return table(head, rows)


def by_processor(known: Ratios) -> list[str]:
    """Returns the section with the ratios of all processors, unless there is only one."""
    if len(known) < 2:
        return []
    works = [w for w in WORK if any(w.name in rows for rows in known.values())]
    cells = [
        [number(rows[w.name]) if w.name in rows else "–" for rows in known.values()] for w in works
    ]
    return [
        "## Ratio of time by processor",
        "",
        "Step time of odt over that of the fastest peer, as last measured on each processor.",
        "",
        *table(("", *known), [[title(w), *row] for w, row in zip(works, cells, strict=True)]),
    ]


def ways(steps: Mapping[Key, float], memory: Mapping[Key, float], marked: Set[Key]) -> list[str]:
    """Returns the table of memory budget and cache, each compared with its reference."""
    rows = []
    for work, (system, way) in itertools.product(WORK, WAYS.items()):
        key, peer = (work.name, system), best_peer(steps, work.name)
        if key not in steps:
            continue
        other = way.against or (peer[0] if peer else "")
        against = cell(steps, (work.name, other), marked, " ms")
        goal = f" (goal {way.memory:.0f})" if way.memory else ""
        rows.append(
            [
                f"{title(work)}: {system}",
                cell(steps, key, marked, " ms"),
                f"{against} ({other})" if other else "–",
                share(steps, key, (work.name, other), marked, way.step),
                cell(memory, key, marked, " MB") + goal,
            ]
        )
    return table(("work", "step", "against", "ratio of time", "memory"), rows)


def all_systems(values: Mapping[Key, float], systems: Sequence[str], marked: Set[Key]) -> list[str]:
    works = [w for w in WORK if any(k[0] == w.name for k in values)]
    rows = [[title(w), *(cell(values, (w.name, s), marked) for s in systems)] for w in works]
    return table(("", *systems), rows)


def physics(steps: Mapping[Key, float], peak: float) -> list[str]:
    """A training step is about three forward passes of arithmetic."""
    rows = []
    for work in WORK:
        ours, forward = steps.get((work.name, "odt")), steps.get((work.name, FORWARD))
        if ours is None or work.mode != "full":
            continue
        rate = ["–", "–"]
        if not work.shipped:
            net = NETWORKS[work.network]()
            gflops = 6 * net.multiplications * work.batch / ours / 1e6
            rate = [f"{gflops:.0f} GFLOP/s", f"{gflops / peak:.0%}"]
        goal = "" if work.forward is None else f" (goal {work.forward})"
        multiple = "–" if forward is None else f"{ours / (3 * forward):.2f}{goal}"
        rows.append([title(work), *rate, multiple])
    head = ("", "arithmetic", "share of the peak", "times three LiteRT forward passes")
    return table(head, rows)


def by_reason(failed: Mapping[Key, str]) -> dict[tuple[str, str], list[str]]:
    """Returns (system, error) → works."""
    works: dict[tuple[str, str], list[str]] = {}
    for (work, system), why in failed.items():
        works.setdefault((system, why), []).append(work)
    return works


def text(results: Sequence[Result], more: Mapping[str, Any]) -> str:
    """Returns the text of the page."""
    steps, memory = medians(results, "step_ms"), medians(results, "memory_mb")
    first, marked = medians(results, "first_loss_ms"), disturbed(results)
    systems = list(dict.fromkeys(s for _, s in steps))
    trains = [s for s in systems if s != FORWARD]
    failed, others = failures(results), other_losses(results)
    processors = sorted({r["processor"] for r in results})
    lines = [
        "# Benchmarks",
        "",
        f"All figures were measured on this processor: {'; '.join(processors)}.",
        "",
        "Written by `make bench`: Adam, float32, two threads, random data, the same weights for",
        "all systems, which are installed from wheels. Rows named *shipped* train files of other",
        "projects, which PyTorch and ONNX",
        "Runtime do not read. PyTorch uses fused Adam; *compiled* includes channels-last images.",
        f"*{NARROW}* computes in bfloat16 by autocast, images channels last, and is not a peer in",
        "comparisons. Processes take turns, odt first and last. Each figure is the median over the",
        "processes of a system, and each process gives the median of its steps. Disturbed runs are",
        f"left out if others exist: other processes used {MOST_OTHERS} cores or more, or a busy",
        "host slowed matrix products before or after the run to less than",
        f"{LEAST_SPEED} of the best rate. `*` marks figures of disturbed runs alone. Memory is the",
        "peak of resident memory, less that of a process with Python, NumPy and a batch, in MB",
        "of 2²⁰ bytes. With cached frozen layers, steps are those of later epochs. Layers of",
        "stride 2 are padded as in TFLite by odt, onert and LiteRT, and equally on both sides by",
        "PyTorch and ONNX Runtime, as is usual there: the arithmetic is the same, but the loss",
        f"differs. The first loss of systems with equal padding agrees to {SAME_LOSS:.1%}"
        + (f", except {'; '.join(others)}." if others else "."),
        "",
        "![Step time and memory of odt, over the best peer](benchmarks.png)",
        "",
        "## Comparison with the fastest peer",
        "",
        *goals(steps, memory, marked),
        *by_processor(more.get("ratios", {})),
        "## Memory budget, and cached frozen layers",
        "",
        *ways(steps, memory, marked),
        "## Step time, ms",
        "",
        *all_systems(steps, systems, marked),
        "## Peak memory, MB",
        "",
        *all_systems(memory, trains, marked),
        "## From start to the first loss, ms",
        "",
        "Imports, reading the model, planning and one step. A peer in C++ is faster, because odt",
        "imports and plans in Python. (Goals: 80 ms for the CNN; for MobileNetV2 with batch 8",
        "120 ms and a step.)",
        "",
        *all_systems(first, trains, marked),
        *section(more["startup"], more["startup_processor"]),
        "## Arithmetic throughput",
        "",
        f"A product of 2048 × 2048 matrices ran at {more['peak_gflops']:.0f} GFLOP/s.",
        "",
        *physics(steps, more["peak_gflops"]),
        "## Scaling",
        "",
    ]
    for name, what in (
        ("batch", "The CNN by batch"),
        ("width", "The MLP by width, batch 64"),
        ("depth", "The MLP by hidden layers, batch 64"),
    ):
        sizes = [str(n) for n, _ in more[name]]
        lines += [f"{what}, ms:", "", *table(sizes, [[number(t) for _, t in more[name]]])]
    one, two = more["workers"]["one"], more["workers"]["two"]
    overhead = more["overhead"]
    lines += [
        f"MobileNetV2, batch 8: {one:.0f} ms with one worker on one core, {two:.0f} ms with two: "
        f"{one / two:.2f} times as fast.",
        "",
        f"A step with {overhead['calls']} calls whose kernels are empty takes "
        f"{overhead['microseconds']:.0f} µs.",
        "",
        "## Installed, MB",
        "",
        "Installed size of each system with its dependencies, without Python and NumPy.",
        "",
        *table(("system", "MB"), [[s, number(mb)] for s, mb in more["sizes"].items()]),
    ]
    if more["absent"] or more["missing"] or failed:
        lines += ["## Not measured", ""]
        lines += [f"- {s}: could not be installed: {why}" for s, why in more["absent"].items()]
        lines += [f"- {w}: {why}" for w, why in more["missing"].items()]
        lines += [f"- {s}, {', '.join(w)}: {why}" for (s, why), w in by_reason(failed).items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def write_report(out: Path, docs: Path) -> None:
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    more = json.loads((out / "more.json").read_text())
    more["ratios"] = store(results)
    (docs / "benchmarks.md").write_text(text(results, more))
    write_picture(results, docs / "benchmarks.png")
