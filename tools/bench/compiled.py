"""Measures compiled programs: python tools/bench/compiled.py [--steps N]; make bench WASM=1.

Systems take turns, five times; a figure is the mean of the best turn, in processor time of one
thread except in the browser. The ratios have limits. Peers are TensorFlow.js, which trains no
convolutions in WebAssembly, and the last version of onnxruntime-web that trains.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/

import odt
from bench.browser import answer
from bench.machine import processor
from bench.networks.dense import mlp
from bench.networks.images import unet_transposed
from bench.networks.layers import Network
from bench.networks.mobile import mobilenet
from bench.networks.plain import mnist
from bench.networks.residual import resnet8
from bench.networks.sequences import gru_unrolled, lstm_128
from bench.networks.task import random_batch
from bench.systems import HERE, SYSTEMS, set_up
from bench.write_models import write

ROOT = HERE.parents[1]
NETWORKS = {
    "mnist": (mnist, 32),
    "mlp": (mlp, 32),
    "resnet8": (resnet8, 32),
    "mobilenet": (lambda: mobilenet(96, 10), 8),
    "lstm": (lstm_128, 32),
    "gru": (gru_unrolled, 32),
    "unet": (unet_transposed, 8),
}
PACKAGES = ("@tensorflow/tfjs@4.22.0", "@tensorflow/tfjs-backend-wasm@4.22.0")
ORT_WEB = "onnxruntime-web@1.18.0"
TURNS = 5
# Limits of time / time of the compiled step in Python: of C, also by network, and of WebAssembly.
C_LIMIT, WASM_LIMIT = 1.0, 0.75
C_LIMITS = {"mnist": 0.95}
LIBRARIES = {"c": (), "c-native": ("-march=native",)}  # options of gcc besides those of the program
# Limits of time / time of the peer, of a step and until the first loss.
TFJS_LIMIT, ORT_STEP_LIMIT, ORT_FIRST_LIMIT = 0.12, 0.45, 0.2
LOSSES = {"cce": "categorical_crossentropy", "mse": "mean_squared_error"}


class Child:
    """A process that trains a number of steps for each line that it reads."""

    def __init__(self, stack: ExitStack, *command: str | Path, cwd: Path | None = None) -> None:
        variables = {"ODT_KERNELS": "base", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | variables | {"PYTHONPATH": str(HERE.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.command = " ".join(map(str, command))
        self.process = stack.enter_context(process)
        stack.callback(process.kill)

    def milliseconds(self, steps: int) -> float:
        """Returns the time of a step."""
        assert self.process.stdin is not None, "it is a pipe"
        assert self.process.stdout is not None, "it is a pipe"
        with suppress(BrokenPipeError):  # of a process that has ended
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise click.ClickException(f"{self.command}: ended without an answer")
        return float(line)


def best_turns(children: Mapping[str, Child], steps: int) -> dict[str, float]:
    """Returns the best turn of each system, in ms for a step."""
    turns = [{n: c.milliseconds(steps) for n, c in children.items()} for _ in range(TURNS)]
    return {name: min(turn[name] for turn in turns) for name in children}


def prepare(name: str, net: Network, batch: int, folder: Path) -> None:
    """Writes model and batch, compiles for WebAssembly, and builds the C program as libraries."""
    write(net, folder / f"{name}.tflite")
    options: dict[str, Any] = {"loss": LOSSES[net.loss], "batch_size": batch}
    options |= {"optimizer": "adam", "learning_rate": 1e-3}
    (folder / "options.json").write_text(json.dumps(options))
    odt.compile(
        folder / f"{name}.tflite", folder / f"{name}-web", name=name, target="wasm", **options
    )
    odt.compile(folder / f"{name}.tflite", folder / f"{name}-c", name=name, **options)
    (folder / "batch.bin").write_bytes(b"".join(a.tobytes() for a in random_batch(net, batch)))
    program = folder / f"{name}-c"
    flags = json.loads((program / "manifest.json").read_text())["flags"]
    sources = [*program.glob(f"{name}*.c"), *program.glob("kernels/*.c")]
    for library, options_of_gcc in LIBRARIES.items():
        output = "-shared", "-o", folder / f"{library}.so"
        run("gcc", *flags, *options_of_gcc, "-fPIC", "-I", program, *sources, "-lm", *output)


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Runs a command; raises ClickException with its output if it fails."""
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode:
        raise click.ClickException(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")


def compare(name: str, folder: Path, steps: int, packages: Path) -> dict[str, float]:
    """Returns ms for a step of the systems that train a network."""
    measure = sys.executable, HERE / "measure_compiled.py"
    with ExitStack() as stack:
        children = {
            "Python, base": Child(stack, *measure, "python", name, folder),
            "C": Child(stack, *measure, "c", name, folder),
            "C, native": Child(stack, *measure, "c-native", name, folder),
            "wasm, node": Child(
                stack, "node", HERE / "web/step.mjs", folder / f"{name}-web/{name}.js",
                folder / "batch.bin",
            ),
        }  # fmt: skip
        if name == "mlp":
            script = HERE / "web/tfjs.mjs"
            children["TensorFlow.js"] = Child(
                stack, "node", script, folder / "batch.bin", cwd=packages
            )
        return best_turns(children, steps)


def in_browser(
    folder: Path, packages: Path, out: Path
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns ms until the first loss and for a step of odt and onnxruntime-web in Chromium."""
    system = SYSTEMS["ONNX Runtime"]
    if error := set_up(system, out):
        raise click.ClickException(f"ONNX Runtime: {error}")
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    subprocess.run(
        [system.python(out), HERE / "measure_ort.py", "mnist", "32", "full", folder],
        env=environment,
        check=True,
        capture_output=True,
    )
    (folder / "ort/mnist-full").rename(folder / "artifacts")
    shutil.rmtree(folder / "ort")
    shutil.copytree(packages / "node_modules/onnxruntime-web/dist", folder / "ort")
    for page in ("odt.html", "ort.html"):
        shutil.copy(HERE / "web" / page, folder)
    turns = [{p: answer(folder, f"{p}.html") for p in ("odt", "ort")} for _ in range(TURNS)]
    ours, theirs = (
        {key: min(turn[p][key] for turn in turns) for key in ("first", "step")}
        for p in ("odt", "ort")
    )
    return ours, theirs


def line(what: str, ours: float, other: str, theirs: float, limit: float) -> str:
    """Returns a row: two times in ms, their ratio, and its limit."""
    ratio = ours / theirs
    verdict = "" if ratio <= limit else "  OVER"
    numbers = f"{ours:9.2f}  {other:16}{theirs:9.2f}  {ratio:6.3f}"
    return f"{what:34}{numbers}  ≤ {limit:.2f}{verdict}"


@click.command()
@click.option("--steps", default=100, help="Steps of a turn.")
@click.option("--work", default=" ".join(NETWORKS), help="Networks.")
@click.option("--browser/--no-browser", default=True, help="Whether to compare in Chromium.")
@click.option("--out", default="bench-out", type=click.Path(path_type=Path), help="Environments.")
def main(steps: int, work: str, browser: bool, out: Path) -> None:
    """Prints times and ratios."""
    out = out.resolve()
    out.mkdir(exist_ok=True)
    click.echo(f"{processor()}; ms for a step, best of {TURNS} × {steps}")
    with tempfile.TemporaryDirectory() as temporary:
        packages = Path(temporary, "packages")
        packages.mkdir()
        peers = [ORT_WEB] if browser else []
        if "mlp" in work.split():
            peers += PACKAGES
        if peers:
            run("npm", "install", "--silent", "--no-audit", "--no-fund", *peers, cwd=packages)
        for name in work.split():
            network, batch = NETWORKS[name]
            folder = Path(temporary, name)
            folder.mkdir()
            prepare(name, network(), batch, folder)
            for text in rows(name, compare(name, folder, steps, packages)):
                click.echo(text)
        if browser and "mnist" in work.split():
            ours, theirs = in_browser(Path(temporary, "mnist"), packages, out)
            for key, text, limit in (
                ("step", "step", ORT_STEP_LIMIT),
                ("first", "first loss", ORT_FIRST_LIMIT),
            ):
                what = f"mnist, Chromium, {text}"
                click.echo(line(what, ours[key], "onnxruntime-web", theirs[key], limit))


def rows(name: str, best: Mapping[str, float]) -> Sequence[str]:
    """Returns the rows of a network, from the best turn of each system in ms for a step."""
    peer = "Python, base"
    base, native, wasm = best[peer], best["C, native"], best["wasm, node"]
    limit = C_LIMITS.get(name, C_LIMIT)
    lines = [
        line(f"{name}, C", best["C"], peer, base, limit),
        line(f"{name}, C, -march=native", native, peer, base, limit),
        line(f"{name}, wasm in node", wasm, peer, base, WASM_LIMIT),
    ]
    if "TensorFlow.js" in best:
        peer = "TensorFlow.js"
        lines.append(line(f"{name}, wasm in node", wasm, peer, best[peer], TFJS_LIMIT))
    return lines


if __name__ == "__main__":
    main()
