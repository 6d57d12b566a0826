"""Writes the printed examples of two pages in docs: python tools/print_structures.py.

docs/architecture.md shows the whole structures, docs/conv_2d.md the calls of CONV_2D. Each example
is the first text block below the heading that names it. A test compares them with the code.
"""

import re
import tempfile
from pathlib import Path

import click
import make_models
from click.testing import CliRunner

from odt.cli.main import main
from odt.core.formats.reader import read_model
from odt.core.lowering.lower import LoweredGraphs

DOCS = Path(__file__).parents[1] / "docs"
MICRO_BATCH = 2
KERNELS = "base"
MODEL = ["--input-shape", "8,8,1", "--classes", "3", "--seed", "1"]
PLAN = ["--batch-size", "4", "--micro-batch", str(MICRO_BATCH), "--workers", "1", "--calls"]


def structures() -> dict[str, str]:
    """Heading → text of each structure of the example model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "five.circle"
        output_of(make_models.main, ["tiny", str(path), *MODEL])
        graph = read_model(str(path)).graph
        texts = {"Graph": str(graph), "Lowered graph": str(LoweredGraphs(graph).at(MICRO_BATCH))}
        texts = {name: text.replace(f"{folder}/", "") for name, text in texts.items()}
        printed = output_of(main, ["plan", str(path), *PLAN])
    calls = printed[printed.index("\nplan\n") :]
    plan, memory, program = re.split(r"\n(?:plan|memory plan|calls)\n", calls)[1:]
    return texts | {
        "Plan": plan.replace("\nt0:", "\n\nt0:", 1),
        "Memory plan": memory,
        "Program": program,
    }


def output_of(command: click.Command, arguments: list[str]) -> str:
    """Runs a command with KERNELS; returns what it prints."""
    result = CliRunner(env={"ODT_KERNELS": KERNELS}).invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def calls_of(operator: str, text: str) -> str:
    """Returns the lines of a plan or a program that are calls of an operator."""
    return "\n".join(line for line in text.splitlines() if f" {operator}" in line)


def pages() -> dict[Path, str]:
    """Returns the pages, with the examples as the code prints them."""
    texts = structures()
    calls = {
        "Calls of the plan": calls_of("CONV_2D", texts["Plan"]),
        "Calls of the program": calls_of("CONV_2D", texts["Program"]),
    }
    examples = {DOCS / "architecture.md": texts, DOCS / "conv_2d.md": calls}
    return {path: page(path.read_text(encoding="utf-8"), e) for path, e in examples.items()}


def page(text: str, examples: dict[str, str]) -> str:
    """Returns a page with the examples below their headings."""
    for heading, example in examples.items():
        block = re.search(rf"\n### {heading}\n.*?\n```text\n(.*?)```\n", text, re.DOTALL)
        assert block, f"there is no text block below '### {heading}'"
        text = f"{text[: block.start(1)]}{example.strip()}\n{text[block.end(1) :]}"
    return text


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
