"""Measures odt and its peers side by side, and writes docs/benchmarks.md and its picture.

Every measurement is a process of its own; systems take turns, so that what else the machine does
meets all alike. A run during which other processes took more than a tenth of a core is repeated.
Results are lines of JSON in bench-out/results.jsonl; runs go on where they were stopped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/

from bench.report import write_report
from bench.scaling import measure_scaling
from bench.systems import HERE, SYSTEMS, installed_megabytes, set_up
from bench.work import QUICK, WORK, Work
from bench.write_models import write_all

MOST_OTHERS = 0.1  # cores that other processes may take
TRIES = 3
TIMEOUT = 600  # seconds
ROOT = HERE.parents[1]

Result = dict[str, Any]


def is_clean(result: Result) -> bool:
    return "failed" in result or result["others"] < MOST_OTHERS


def measure(system: str, work: Work, out: Path) -> Result:
    """One process; what went wrong stands under "failed"."""
    s = SYSTEMS[system]
    command = [str(s.python(out)), str(HERE / s.script), work.network, str(work.batch), work.mode]
    command += [str(out / "models"), *s.arguments]
    variables = os.environ | dict(s.variables) | {"OMP_NUM_THREADS": "2"}
    known: Result = {"system": system, "work": work.name}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=variables, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return known | {"failed": f"took more than {TIMEOUT} s"}
    if done.returncode:
        return known | {"failed": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
    figures: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return known | figures


def runs(systems: list[str], works: list[Work], repeat: int, out: Path) -> None:
    """Repeats every measurement, systems by turns, until each has enough clean ones."""
    path = out / "results.jsonl"
    before = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for work in works:
        for number in range(repeat):
            for system in systems:
                if not SYSTEMS[system].measures(work):
                    continue
                same = [r for r in before if (r["system"], r["work"]) == (system, work.name)]
                if sum(map(is_clean, same)) > number:
                    continue
                for attempt in range(TRIES):
                    result = measure(system, work, out)
                    with path.open("a") as file:
                        file.write(json.dumps(result) + "\n")
                    said = result.get("failed") or f"{result['step_ms']:.2f} ms"
                    click.echo(f"bench: {work.name}, {system}: {said}", err=True)
                    if is_clean(result) or attempt + 1 == TRIES:
                        break


@click.command()
@click.option("--peers", default="", help="Systems beside odt, separated by commas; all if none.")
@click.option("--work", default="", help="Rows, such as mnist-32-full, separated by commas.")
@click.option("--repeat", default=3, show_default=True, help="Clean runs of each.")
@click.option("--quick", is_flag=True, help="Four rows, once.")
@click.option("--report", is_flag=True, help="Only writes the report again.")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "bench-out")
def main(peers: str, work: str, repeat: int, quick: bool, report: bool, out: Path) -> None:
    """Runs the benchmarks."""
    systems = [s for s in SYSTEMS if not peers or s.startswith("odt") or s in peers.split(",")]
    names = work.split(",") if work else QUICK if quick else [w.name for w in WORK]
    unknown = set(names) - {w.name for w in WORK}
    if unknown:
        known = ", ".join(w.name for w in WORK)
        raise click.BadParameter(f"--work: must be of {known}, but got {', '.join(unknown)}")
    out.mkdir(parents=True, exist_ok=True)
    absent: dict[str, str] = {}
    if not report:
        write_all(out / "models")
        absent = {s: why for s in systems if (why := set_up(SYSTEMS[s], out))}
        present = [s for s in systems if s not in absent]
        runs(present, [w for w in WORK if w.name in names], 1 if quick else repeat, out)
        sizes = {s: installed_megabytes(SYSTEMS[s], out) for s in present}
        more = {"sizes": sizes, "absent": absent, **measure_scaling(out / "models", quick=quick)}
        (out / "more.json").write_text(json.dumps(more, indent=1))
    write_report(out, ROOT / "docs")
    click.echo(f"bench: wrote {ROOT / 'docs' / 'benchmarks.md'}")


if __name__ == "__main__":
    main()
