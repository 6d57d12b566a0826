"""Measures training of ONNX files by odt and ONNX Runtime: python tools/bench/onnx_files.py.

Each measurement is a process of its own, and systems take turns. A process gives the median of its
steps and its largest resident memory; the table shows medians over the processes of a system, and
marks systems whose processes were disturbed by others. The figures of all processes go to
bench-out/onnx.json.

In Python, onnxruntime.training 1.19.2 cannot be imported without PyTorch, so the memory of PyTorch
counts, as it does for users. Training does not use it, so ONNX Runtime is measured without it, too.
"""

import json
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/

from bench import startup
from bench.figures import MAX_OTHERS
from bench.machine import processor
from bench.systems import HERE, ORT, SYSTEMS, TORCH, set_up

ROOT = HERE.parents[1]
NETWORKS = {"mlp": 64, "embedding": 32, "cnn": 8}  # batch sizes
BASE, ALONE = "ONNX Runtime", "ONNX Runtime without PyTorch"
HOW = {
    BASE: "ort",
    ALONE: "ort-alone",
    "odt.compat.ort": "compat",
    "odt": "odt",
    "odt, fixed statistics": "odt-fixed",
}
WITH_PYTORCH = replace(
    SYSTEMS[BASE], environment="ort-torch", needs=tuple((*ORT, *torch) for torch in TORCH)
)
TIMEOUT = 600  # seconds


def environment() -> dict[str, str]:
    return startup.environment() | {"PYTHONPATH": str(HERE.parent)}


def last_line(errors: str) -> str:
    return (errors.strip().splitlines() or ["failed"])[-1]


def write_file(name: str, files: Path, data: Path, python: Path) -> str:
    """Writes a model; returns the error, or an empty string."""
    if (files / f"{name}.json").exists():
        return ""
    files.mkdir(parents=True, exist_ok=True)
    command = [str(python), str(HERE / "write_onnx.py"), name, str(files), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    return last_line(done.stderr) if done.returncode else ""


def measure(python: Path, name: str, threads: int, files: Path, how: str) -> dict[str, Any]:
    """Runs one measurement in a process.

    Raises:
        click.ClickException: if it fails.
    """
    command = [str(python), str(HERE / "measure_onnx.py"), name, str(NETWORKS[name])]
    command += [str(threads), str(files), how]
    settings = environment() | {"OMP_NUM_THREADS": str(threads)}
    try:
        done = subprocess.run(
            command, env=settings, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"{name}, {how}: took more than {TIMEOUT} s") from None
    if done.returncode:
        raise click.ClickException(f"{name}, {how}: {last_line(done.stderr)}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def row(name: str, threads: int, system: str, runs: list[dict[str, Any]], ort: Any) -> str:
    """Formats the medians of a system, as fractions of ONNX Runtime's too."""
    step, memory = (statistics.median(r[k] for r in runs) for k in ("step_ms", "peak_mb"))
    base = [statistics.median(r[k] for r in ort) for k in ("step_ms", "peak_mb")]
    others = max(r["others"] for r in runs)
    return (
        f"{name:10} {threads}  {system:28} {step:9.3f} ms {step / base[0]:6.2f} x"
        f" {memory:8.1f} MB {memory / base[1]:6.2f} x   first loss {runs[0]['first_loss']:.6g}"
        f"{'   disturbed' if others >= MAX_OTHERS else ''}"
    )


@click.command()
@click.option("--work", default=" ".join(NETWORKS), show_default=True, help="Networks.")
@click.option("--repeat", default=5, show_default=True, help="Processes of each system.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=ROOT / "../shared",
    help="Folder with onnx/golden/out/cnn.onnx.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=ROOT / "bench-out",
    help="Folder of environments and of onnx.json.",
)
def main(work: str, repeat: int, data: Path, out: Path) -> None:
    """Measures with one thread and with two, and prints a table."""
    unknown = sorted(set(work.split()) - NETWORKS.keys())
    if unknown:
        raise click.BadParameter(f"--work: must be of {', '.join(NETWORKS)}, but got {unknown}")
    out.mkdir(parents=True, exist_ok=True)
    peers = {BASE: WITH_PYTORCH, ALONE: SYSTEMS[BASE]}
    for peer, settings in peers.items():
        if why := set_up(settings, out):
            raise click.ClickException(f"{peer} could not be installed: {why}")
    pythons = dict.fromkeys(HOW, startup.install(out))
    pythons |= {peer: settings.python(out) for peer, settings in peers.items()}
    files, results = out / "onnx", []
    for name in work.split():
        if why := write_file(name, files, data.resolve(), pythons[ALONE]):
            click.echo(f"{name}: not measured: {why}", err=True)
            continue
        has_norm = bool(json.loads((files / f"{name}.json").read_text())["frozen"])
        systems = [s for s in HOW if has_norm or HOW[s] != "odt-fixed"]
        for threads in (1, 2):
            runs: dict[str, list[dict[str, Any]]] = {system: [] for system in systems}
            for _ in range(repeat):
                for system in systems:
                    runs[system].append(measure(pythons[system], name, threads, files, HOW[system]))
            for system in systems:
                click.echo(row(name, threads, system, runs[system], runs[BASE]))
                results.append(
                    {"work": name, "threads": threads, "system": system, "runs": runs[system]}
                )
    content = {"processor": processor(), "results": results}
    (out / "onnx.json").write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
