"""The notebook in examples/ runs, and every object in it shows itself."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.paths import ROOT

NOTEBOOK = ROOT / "examples/notebook.ipynb"
DONE = re.compile(r'<progress value="(\d+)" max="(\d+)">')
SHOWS = {  # first words of a cell that ends with an object → what its HTML has
    "model = ": ("trainable parameters", "<img "),
    "odt.plan(": ("arenas", "<img "),
    "history": ("val_accuracy", "<img "),
    "odt.classification_report(": ("true \\ predicted", "cross"),
    "trainer.export(": ("operators compute int8", "dB"),
    "odt.evaluate(": ("loss", "precision"),
    "np.save(": ("finished, 5 epochs", "<img "),
}


def read() -> Any:
    return nbformat.reads(NOTEBOOK.read_text(encoding="utf-8"), as_version=4)


@pytest.fixture(name="executed", scope="module")
def execute(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[str]]:
    """The notebook with its outputs, and the states of the progress."""
    folder = tmp_path_factory.mktemp("notebook")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    notebook = read()
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=120, resources=resources)
    process = client.process_message
    states: list[str] = []

    def keep(message: Any, cell: Any, index: int) -> Any:
        """Keeps every state of an output that is replaced."""
        if message["msg_type"] in ("display_data", "update_display_data"):
            states.append(message["content"]["data"]["text/html"])
        return process(message, cell, index)

    client.process_message = keep
    client.execute(env={**os.environ, "PATH": path})
    assert (folder / "accuracy.svg").exists()
    return notebook, states


def cells_of(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_notebook_in_the_repository_has_no_outputs() -> None:
    """They would be other ones on each machine."""
    notebook = read()
    nbformat.validate(notebook)
    assert not [cell for cell in cells_of(notebook) if cell.outputs or cell.execution_count]


def test_every_object_shows_itself(executed: tuple[Any, list[str]]) -> None:
    notebook, _ = executed
    pages = {
        cell.source: output.data
        for cell in cells_of(notebook)
        for output in cell.outputs
        if output.output_type == "execute_result"
    }
    assert len(pages) == len(SHOWS)
    for source, data in pages.items():
        (words,) = (words for start, words in SHOWS.items() if source.startswith(start))
        assert all(word in data["text/html"] for word in words), source
        assert len(data["text/plain"].splitlines()) <= 3, "the short form"


def test_the_progress_moves(executed: tuple[Any, list[str]]) -> None:
    notebook, updates = executed
    (cell,) = (cell for cell in cells_of(notebook) if "trainer.fit(" in cell.source)
    (output,) = cell.outputs
    assert output.output_type == "display_data"
    states = [match.groups() for page in updates if (match := DONE.search(page))]
    done = [int(value) for value, _ in states]
    assert done == sorted(done)
    assert done[0] == 0
    assert {most for _, most in states} == {"150"}  # 10 epochs of 480 samples in batches of 32
    assert DONE.findall(output.data["text/html"]) == [("150", "150")]
    assert "epoch 10 of 10" in output.data["text/plain"]
    assert output.data["text/html"].count("<img ") == 2
