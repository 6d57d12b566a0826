"""Figures of the report: medians of the results, comparisons with peers, and failures."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.networks import NETWORKS
from bench.systems import SYSTEMS
from bench.work import WORK, Work

Result = dict[str, Any]
Key = tuple[str, str]  # work and system
FORWARD = "LiteRT, forward"
NARROW = "PyTorch, bf16"
MAX_OTHERS = 0.1  # cores that other processes may take
LEAST_SPEED = 0.8  # of the machine before and after a run, as a fraction of its best
SAME_LOSS = 1e-3  # relative difference of first losses that are the same


def is_clean(result: Result) -> bool:
    """Whether a run failed, or was disturbed neither by other processes nor by the host."""
    is_fast = result.get("speed", 1) >= LEAST_SPEED
    return "failed" in result or (result["others"] < MAX_OTHERS and is_fast)


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
    """Returns systems whose first loss differs from that of the first system with the same padding.

    If TFLite pads a layer asymmetrically, systems with symmetric padding compute another network,
    and are compared with each other. Systems with narrow types are left out.
    """
    order, names = list(SYSTEMS), {w.name: w for w in WORK}
    comparable = {name for name, s in SYSTEMS.items() if s.trains and s.float32}
    trained = [r for r in results if "failed" not in r and r["system"] in comparable]
    networks = {names[r["work"]].network for r in trained} & NETWORKS.keys()
    uneven = {n for n in networks if NETWORKS[n]().uneven}
    firsts: dict[tuple[str, bool], Result] = {}
    losses = {}
    for r in sorted(trained, key=lambda r: order.index(r["system"])):
        work = names[r["work"]]
        is_symmetric = work.network in uneven and SYSTEMS[r["system"]].symmetric
        first = firsts.setdefault((work.name, is_symmetric), r)
        if not abs(r["first_loss"] - first["first_loss"]) < SAME_LOSS * abs(first["first_loss"]):
            losses[title(work), r["system"]] = (
                f"{r['system']} on {title(work)} ({r['first_loss']:.6g}; "
                f"{first['system']}: {first['first_loss']:.6g})"
            )
    return list(losses.values())


def is_peer(system: str) -> bool:
    """Whether a system is a peer of odt that trains in float32."""
    return SYSTEMS[system].environment != "" and SYSTEMS[system].trains and SYSTEMS[system].float32


def best_peer(values: Mapping[Key, float], work: str) -> tuple[str, float] | None:
    """Returns the peer with the smallest value."""
    peers = {s: v for (w, s), v in values.items() if w == work and is_peer(s)}
    return min(peers.items(), key=lambda item: item[1]) if peers else None


def peer_ratios(values: Mapping[Key, float]) -> dict[str, float]:
    """Returns odt's figure over the best float32 peer's, for the rows that have both."""
    peers = {w.name: best_peer(values, w.name) for w in WORK if (w.name, "odt") in values}
    return {work: values[work, "odt"] / peer[1] for work, peer in peers.items() if peer}


def title(work: Work) -> str:
    part = "" if work.mode == "full" else ", last layer"
    return f"{work.network.replace('_', ' ')}, batch {work.batch}{part}"
