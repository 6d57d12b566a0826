"""Writes docs/benchmarks.md and its chart from the results in bench-out/."""

import itertools
import json
import statistics
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from bench.networks import NETWORKS
from bench.startup import section
from bench.systems import SYSTEMS
from bench.work import WAYS, WORK, Work

Result = dict[str, Any]
Key = tuple[str, str]  # work and system
FORWARD = "LiteRT, forward"
MOST_OTHERS = 0.1  # cores that other processes may take
SAME_LOSS = 1e-3  # relative difference of first losses that are the same


def is_clean(result: Result) -> bool:
    """Whether a result was not disturbed by other processes; failures count as undisturbed."""
    return "failed" in result or result["others"] < MOST_OTHERS


def measured(results: Sequence[Result]) -> dict[Key, list[Result]]:
    """Returns (work, system) → undisturbed runs, or all runs if there are none."""
    by_key: dict[Key, list[Result]] = {}
    for r in results:
        if "failed" not in r:
            by_key.setdefault((r["work"], r["system"]), []).append(r)
    return {key: [r for r in runs if is_clean(r)] or runs for key, runs in by_key.items()}


def medians(results: Sequence[Result], figure: str) -> dict[Key, float]:
    """Returns (work, system) → median of a figure over the runs."""
    by_key = measured(results)
    return {key: statistics.median(r[figure] for r in runs) for key, runs in by_key.items()}


def disturbed(results: Sequence[Result]) -> set[Key]:
    """Returns the pairs (work, system) without undisturbed runs."""
    return {key for key, runs in measured(results).items() if not is_clean(runs[0])}


def failures(results: Sequence[Result]) -> dict[Key, str]:
    """Returns (work, system) without successful runs → error of the last run."""
    reasons = {(r["work"], r["system"]): r["failed"] for r in results if "failed" in r}
    return {key: why for key, why in reasons.items() if key not in measured(results)}


def other_losses(results: Sequence[Result]) -> list[str]:
    """Returns systems whose first loss differs from that of the first system with equal padding.

    If TFLite pads a layer asymmetrically, systems with symmetric padding compute another network,
    and are compared with each other.
    """
    order, names = list(SYSTEMS), {w.name: w for w in WORK}
    trained = [r for r in results if "failed" not in r and r["system"] != FORWARD]
    uneven = {n for n in {names[r["work"]].network for r in trained} if NETWORKS[n]().uneven}
    firsts: dict[tuple[str, bool], Result] = {}
    losses = {}
    for r in sorted(trained, key=lambda r: order.index(r["system"])):
        work = names[r["work"]]
        apart = work.network in uneven and SYSTEMS[r["system"]].symmetric
        first = firsts.setdefault((work.name, apart), r)
        if not abs(r["first_loss"] - first["first_loss"]) < SAME_LOSS * abs(first["first_loss"]):
            losses[title(work), r["system"]] = (
                f"{r['system']} on {title(work)} with {r['first_loss']:.6g} where "
                f"{first['system']} has {first['first_loss']:.6g}"
            )
    return list(losses.values())


def is_peer(system: str) -> bool:
    """Whether a system is a peer of odt that trains."""
    return not system.startswith("odt") and system != FORWARD


def best_peer(values: Mapping[Key, float], work: str) -> tuple[str, float] | None:
    """Returns the peer with the smallest value."""
    peers = {s: v for (w, s), v in values.items() if w == work and is_peer(s)}
    return min(peers.items(), key=lambda item: item[1]) if peers else None


def title(work: Work) -> str:
    part = "" if work.mode == "full" else ", last layer"
    return f"{work.network}, batch {work.batch}{part}"


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
        goal = work.memory or (least[1] if least else None)
        rows.append(
            [
                title(work),
                cell(steps, key, marked, " ms"),
                best_cell(steps, work.name, marked, " ms"),
                share(steps, key, (work.name, peer[0] if peer else ""), marked, work.step),
                cell(memory, key, marked, " MB") + (f" (goal {number(goal)})" if goal else ""),
                best_cell(memory, work.name, marked, " MB"),
            ]
        )
    head = ("work", "odt", "fastest peer", "ratio of time", "memory of odt", "lowest of the peers")
    return table(head, rows)


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
        net = NETWORKS[work.network]()
        gflops = 6 * net.multiplications() * work.batch / ours / 1e6
        rows.append(
            [
                title(work),
                f"{gflops:.0f} GFLOP/s",
                f"{gflops / peak:.0%}",
                "–" if forward is None else f"{ours / (3 * forward):.2f}",
            ]
        )
    head = ("", "arithmetic", "share of the peak", "times three LiteRT forward passes")
    return table(head, rows)


def text(results: Sequence[Result], more: Mapping[str, Any]) -> str:
    """Returns the text of the page."""
    steps, memory = medians(results, "step_ms"), medians(results, "memory_mb")
    first, marked = medians(results, "first_loss_ms"), disturbed(results)
    systems = list(dict.fromkeys(s for _, s in steps))
    trains = [s for s in systems if s != FORWARD]
    failed, others = failures(results), other_losses(results)
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`: Adam, float32, two threads, random data, the same weights for",
        "all systems. Processes take turns. Each figure is the median over the processes of a",
        "system, and each process gives the median of its steps. Runs that other processes",
        "disturbed are left out if undisturbed ones exist. `*` marks figures without undisturbed",
        f"runs: other processes used {MOST_OTHERS} cores or more in all of them. Memory is the",
        "peak of resident memory, less that of a process with Python, NumPy and a batch, in MB",
        "of 2²⁰ bytes. With cached frozen layers, steps are those of later epochs. Layers of",
        "stride 2 are padded as in TFLite by odt, onert and LiteRT, and equally on both sides by",
        "PyTorch and ONNX Runtime, as is usual there: the arithmetic is the same, but the loss",
        f"differs. The first loss of systems with equal padding agrees to {SAME_LOSS:.1%}"
        + (f", except {'; '.join(others)}." if others else "."),
        "",
        "![Step time and memory](benchmarks.png)",
        "",
        "## Comparison with the fastest peer",
        "",
        *goals(steps, memory, marked),
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
        "imports and plans in Python. (Goals: 300 ms for the CNN, 400 ms for MobileNetV2.)",
        "",
        *all_systems(first, trains, marked),
        *section(more["startup"]),
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
    if more["absent"] or failed:
        lines += ["## Not measured", ""]
        lines += [f"- {s}: could not be installed: {why}" for s, why in more["absent"].items()]
        lines += [f"- {s}, {w}: {why}" for (w, s), why in failed.items()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def write_picture(results: Sequence[Result], path: Path) -> None:
    """Draws step time and memory relative to the best peer, one group of bars for each work."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = (("step_ms", "step time"), ("memory_mb", "peak memory"))
    figure, axes = pyplot.subplots(2, 1, figsize=(13, 8), layout="constrained")
    for axis, (key, name) in zip(axes, panels, strict=True):
        values = medians(results, key)
        systems = list(dict.fromkeys(s for _, s in values if s != FORWARD))
        works = [w for w in WORK if best_peer(values, w.name)]
        width = 0.85 / max(len(systems), 1)
        for k, system in enumerate(systems):
            heights = []
            for w in works:
                peer = best_peer(values, w.name)
                value = values.get((w.name, system))
                heights.append(value / peer[1] if peer and value else 0.0)
            places = [n + k * width for n in range(len(works))]
            axis.bar(places, heights, width, label=system)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_yscale("log")
        axis.set_ylabel(f"{name}, share of the best peer's")
        axis.set_xticks([n + 0.4 for n in range(len(works))], [title(w) for w in works])
        axis.tick_params(axis="x", labelrotation=20, labelsize=8)
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", fontsize=8, ncols=5)
    figure.savefig(path, dpi=110)


def write_report(out: Path, docs: Path) -> None:
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    more = json.loads((out / "more.json").read_text())
    (docs / "benchmarks.md").write_text(text(results, more))
    write_picture(results, docs / "benchmarks.png")
