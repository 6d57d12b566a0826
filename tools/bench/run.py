"""Benchmarks odt and its peers, and writes docs/benchmarks.md, its values and its chart.

Each measurement runs in its own process. odt is installed from a wheel, as its peers are.
Systems take turns, so that other load on the machine affects all of them, and odt takes the first
turn and the last. A run is repeated if other processes used a tenth of a core or more, or if the
machine was slow before or after it, as virtual machines are while their host is busy. Results are
lines of JSON in bench-out/results.jsonl; an interrupted benchmark resumes, and restarts if the code
of odt or the processor has changed.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/
# Before NumPy is imported: each system selects its kernels by the processor, independent of BLAS
# settings of this machine.
for variable in [name for name in os.environ if name.startswith("OPENBLAS_")]:
    del os.environ[variable]

from bench import startup  # noqa: E402
from bench.figures import is_clean  # noqa: E402
from bench.machine import processor  # noqa: E402
from bench.report import write_report  # noqa: E402
from bench.scaling import measure_scaling  # noqa: E402
from bench.systems import HERE, SYSTEMS, installed_megabytes, set_up  # noqa: E402
from bench.work import QUICK, WORK, Work  # noqa: E402
from bench.write_models import write_all  # noqa: E402

TRIES = 3
PROBES = 5  # of the machine's speed before the first run
TIMEOUT = 600  # seconds
TOUCHED = 2**29  # bytes
# Rows of square matrices, and products of them: small ones take 1.6 times as long while the host
# runs two virtual cores on different chiplets, large ones 1.15 times.
PRODUCTS = {192: 100, 1024: 10}
PROBE = f"""
import numpy, time
numpy.ones({TOUCHED}, numpy.uint8)
for rows, count in {PRODUCTS}.items():
    a = numpy.ones((rows, rows), numpy.float32)
    product, times = numpy.empty_like(a), []
    for _ in range(count):
        begin = time.perf_counter()
        numpy.matmul(a, a, out=product)
        times.append(time.perf_counter() - begin)
    print(1 / sorted(times)[count // 4])
"""
FOLDERS = "cli", "core", "kernels", "schemas", "src"  # of odt's code
ROOT = HERE.parents[1]

Result = dict[str, Any]


def code_mark() -> str:
    """Returns a hash of odt's code."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".c", ".h"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def reusable(results: list[Result], mark: Result) -> list[Result]:
    """Returns the results of this code and processor; failed measurements are repeated."""
    return [r for r in results if mark.items() <= r.items() and "failed" not in r]


def select_systems(systems: Iterable[str], names: str) -> list[str]:
    """Returns odt and the peers in the given environments, or all peers."""
    requests = names.replace(",", " ").split()
    environments = {SYSTEMS[s].environment for s in systems} - {""}
    unknown = sorted(set(requests) - environments)
    if unknown:
        raise click.BadParameter(
            f"--peers: must be of {', '.join(sorted(environments))}, but got {', '.join(unknown)}"
        )
    return [s for s in systems if not requests or SYSTEMS[s].environment in ("", *requests)]


def rows(names: str, quick: bool) -> list[Work]:
    """Returns the rows whose names begin with one of the given names: mnist, or mnist-32-full.

    Without names, all rows, or those of QUICK.
    """
    requests = tuple(names.replace(",", " ").split())
    unknown = [n for n in requests if not any(w.name.startswith(n) for w in WORK)]
    if unknown:
        choices = ", ".join(w.name for w in WORK)
        raise click.BadParameter(f"--work: must be of {choices}, but got {', '.join(unknown)}")
    if not requests:
        return [w for w in WORK if not quick or w.name in QUICK]
    return [w for w in WORK if w.name.startswith(requests)]


def reason(stderr: str) -> str:
    """Returns the last line of a process's output, and the last line before a traceback."""
    before, _, after = stderr.strip().partition("Traceback (most recent call last):")
    lines = [text.strip().splitlines()[-1] for text in (before, after) if text.strip()]
    return "; ".join(lines) or "no reason given"


def prepare() -> list[float]:
    """Touches memory in a process of its own, and measures the machine's speed.

    The host of a virtual machine takes back memory that is free for seconds. To get it again takes
    1 to 2 ms a MB, which was up to 230 ms of a first loss.

    Returns:
        Matrix products per second on all cores, of each size: a busy host slows them all.
    """
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [float(rate) for rate in done.stdout.split()]


def speed(rates: list[list[float]]) -> float:
    """Returns the machine's speed at the last two probes, as a fraction of its best."""
    by_size: list[tuple[float, ...]] = list(zip(*rates, strict=True))
    return min(min(rates_of_size[-2:]) / max(rates_of_size) for rates_of_size in by_size)


def measure(system: str, work: Work, out: Path) -> Result:
    """Runs one measurement in a process; an error is stored under "failed"."""
    s = SYSTEMS[system]
    python = s.python(out) if s.environment else startup.ODT.python(out)
    command = [str(python), str(HERE / s.script), work.network, str(work.batch), work.mode]
    command += [str(out / "models"), *s.arguments]
    variables = startup.environment() | dict(s.variables) | {"OMP_NUM_THREADS": "2"}
    variables["PYTHONPATH"] = str(HERE.parent)
    result: Result = {"system": system, "work": work.name}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=variables, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return result | {"failed": f"took more than {TIMEOUT} s"}
    if done.returncode < 0:
        return result | {"failed": f"ended by {signal.Signals(-done.returncode).name}"}
    if done.returncode:
        return result | {"failed": reason(done.stderr)}
    figures: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return result | figures


def runs(systems: list[str], works: list[Work], repeat: int, out: Path) -> None:
    """Runs the measurements that are missing, with systems in turn; repeats disturbed ones."""
    path, mark = out / "results.jsonl", {"code": code_mark(), "processor": processor()}
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    before = reusable(results, mark)
    path.write_text("".join(json.dumps(r) + "\n" for r in before))
    rates = [prepare() for _ in range(PROBES)]
    for work in works:
        for number, system in turns(systems, work, repeat):
            same = [r for r in before if (r["system"], r["work"]) == (system, work.name)]
            if sum(map(is_clean, same)) > number:
                continue
            for _ in range(TRIES):
                result = measure(system, work, out) | mark
                rates.append(prepare())
                result["speed"] = speed(rates)
                with path.open("a") as file:
                    file.write(json.dumps(result) + "\n")
                outcome = result.get("failed") or f"{result['step_ms']:.2f} ms"
                click.echo(f"bench: {work.name}, {system}: {outcome}", err=True)
                if is_clean(result):
                    break


def turns(systems: list[str], work: Work, repeat: int) -> list[tuple[int, str]]:
    """Returns the measurements of a row, each with its number: odt, peers, odt, …, odt."""
    measured = [s for s in systems if SYSTEMS[s].measures(work)]
    return [(number, s) for number in range(repeat) for s in measured] + [(repeat, "odt")]


@click.command()
@click.option(
    "--peers", default="", help="Environments of peers: onert, ort, torch, litert; all if left out."
)
@click.option("--work", default="", help="Rows, such as mnist or mnist-32-full; all if left out.")
@click.option("--repeat", default=3, show_default=True, help="Number of undisturbed runs of each.")
@click.option("--quick", is_flag=True, help="Measure eight rows once.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=ROOT / "../shared",
    help="Folder with data/models, in which shipped files are searched.",
)
@click.option("--report", is_flag=True, help="Only write the report again.")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "bench-out")
def main(
    peers: str, work: str, repeat: int, quick: bool, data: Path, report: bool, out: Path
) -> None:
    """Runs the benchmarks."""
    systems, works = select_systems(SYSTEMS, peers), rows(work, quick)
    out.mkdir(parents=True, exist_ok=True)
    absent: dict[str, str] = {}
    if not report:
        places = (ROOT / "tests/models", data / "data/models")
        missing = write_all(out / "models", works, places)
        absent = {s: why for s in systems if (why := set_up(SYSTEMS[s], out))}
        present = [s for s in systems if s not in absent]
        startup.install(out)
        runs(present, [w for w in works if w.name not in missing], 1 if quick else repeat, out)
        sizes = {s: installed_megabytes(SYSTEMS[s], out) for s in present}
        other_figures = {
            "processor": processor(),
            "sizes": sizes,
            "absent": absent,
            "missing": missing,
        }
        other_figures |= measure_scaling(out / "models", quick=quick)
        other_figures["startup"] = startup.measure(5 if quick else 20, present, out)
        other_figures["startup_processor"] = processor()
        (out / "more.json").write_text(json.dumps(other_figures, indent=1))
    write_report(out, ROOT / "docs")
    click.echo(f"bench: wrote {ROOT / 'docs' / 'benchmarks.md'}")


if __name__ == "__main__":
    main()
