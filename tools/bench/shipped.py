"""Prints time and memory of training steps of shipped model files: shipped.py FOLDER [NAME...].

FOLDER has the files that tools/fetch_shipped_models.py stores; NAMEs are those in
tools/shipped_models.toml, all that train whole if left out. Each model has a process of its own on
one core: tools/bench/measure_shipped.py.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # tools/

from fetch_shipped_models import models

SCRIPT = Path(__file__).with_name("measure_shipped.py")
HEAD = (
    "| model | step | LiteRT forward | step / LiteRT forward | peak memory | plan | "
    "peak memory / plan |\n| --- | --- | --- | --- | --- | --- | --- |"
)


@dataclass(frozen=True)
class Cost:
    """Time and memory of training steps.

    Attributes:
        samples: samples of a step.
        micro_batch: samples that odt computes at once.
        step_ms: processor time of a step with Adam.
        forward_ms: processor time of LiteRT's forward passes of the same samples.
        resized: whether LiteRT computes them at once, since its inputs can be resized.
        memory_mb: growth of the process.
        plan_mb: growth that the plan predicts.
        step_to_forward, memory_to_plan: their ratios.
    """

    samples: int
    micro_batch: int
    step_ms: float
    forward_ms: float
    resized: bool
    memory_mb: float
    plan_mb: float
    step_to_forward: float
    memory_to_plan: float

    def row(self) -> str:
        """The figures as the columns of a Markdown table."""
        return (
            f"{self.step_ms:.3g} ms | {self.forward_ms:.3g} ms | {self.step_to_forward:.2f} | "
            f"{self.memory_mb:.1f} MB | {self.plan_mb:.1f} MB | {self.memory_to_plan:.2f} |"
        )


def cost(name: str, path: Path) -> Cost:
    """Measures a model in a process of its own."""
    command = (sys.executable, str(SCRIPT), name, str(path))
    variables = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}
    result = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return Cost(**json.loads(result.stdout.splitlines()[-1]))


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.argument("names", nargs=-1)
def main(folder: Path, names: tuple[str, ...]) -> None:
    """Measure the models in FOLDER."""
    click.echo(HEAD)
    for entry in models():
        name, path = entry["name"], folder / f"{entry['name']}.tflite"
        if "blocked" not in entry and path.exists() and (not names or name in names):
            click.echo(f"| {name} | {cost(name, path).row()}")


if __name__ == "__main__":
    main()
