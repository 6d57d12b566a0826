"""Step times of odt over those of the fastest peer, on each processor that was measured."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.figures import Result, medians, peer_ratios

Ratios = Mapping[str, Mapping[str, float]]  # processor → row → ratio
STORED = Path(__file__).with_suffix(".json")


def step_ratios(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Returns the ratios of the rows that have a peer."""
    by_processor: dict[str, dict[str, float]] = {}
    for processor in dict.fromkeys(r["processor"] for r in results):
        mine = [r for r in results if r["processor"] == processor]
        by_processor[processor] = peer_ratios(medians(mine, "step_ms"))
    return by_processor


def store(results: Sequence[Result], path: Path = STORED) -> Ratios:
    """Stores the ratios of the rows in the results, and returns all that are stored."""
    ratios: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.exists() else {}
    for processor, rows in step_ratios(results).items():
        ratios.setdefault(processor, {}).update({w: round(v, 3) for w, v in rows.items()})
    path.write_text(json.dumps(ratios, indent=1) + "\n")
    return ratios
