"""The live page as HTML: its frame, and the parts that change while a run trains."""

import os
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from odt.core.model.record import Record
from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.live.files import fields_of
from odt.live.guards import MAX_BYTES
from odt.runs.page import curves, details, document, overview, section
from odt.runs.run import BEST, LOG, MEMORY, RECIPE, RECORD, WARNINGS, Run, read_run
from odt.text import plural, quantity

# Files of a run that change what the page shows.
MODELS = tuple(f"model.{kind}" for kind in ("circle", "tflite", "onnx"))
WATCHED = (RECIPE, RECORD, LOG, WARNINGS, MEMORY, BEST, *MODELS)
ENDED = ("stopped", "finished")
ACCEPTED = {
    "image": "image/*,.zip",
    "sound": ".wav,.flac,.ogg,.opus,.mp3,.zip",
    "features": ".csv,.tsv,.txt,.gz",
}
NOUNS = {"image": "a photo", "sound": "a sound", "features": "a table"}
HEAD = '<link rel="stylesheet" href="live.css"><script src="live.js" defer></script>'


@dataclass(frozen=True, slots=True)
class RunView:
    """What the page shows of a run at one time.

    Attributes:
        run: the run; None if it cannot be read.
        error: why it cannot be read.
    """

    run: Run | None
    error: str = ""

    @classmethod
    def read(cls, path: Path) -> "RunView":
        """Reads a run, which may be removed or damaged while it is shown."""
        try:
            return cls(read_run(path))
        except OdtError as e:
            return cls(None, str(e))

    @staticmethod
    def version(path: Path) -> str:
        """Returns a text that changes with the files of a run."""
        states = []
        for name in WATCHED:
            try:
                status = os.stat(path / name)
                states.append((status.st_mtime_ns, status.st_size))
            except OSError:
                states.append((0, 0))
        return f"{zlib.crc32(repr(states).encode()):08x}"

    @property
    def has_ended(self) -> bool:
        """Whether training has ended."""
        return self.run is not None and self.run.record.get("state") in ENDED

    def parts(self) -> dict[str, str]:
        """Returns the changing parts as HTML, by the beginning of their id."""
        if self.run is None:
            return {"state": f'<span class="bad">{escape(self.error)}</span>'}
        run = self.run
        try:
            return {
                "state": escape(self._state(run)),
                "overview": overview(run),
                "curves": curves(run),
                "details": details(run),
            }
        except OdtError as e:
            return {"state": f'<span class="bad">{escape(str(e))}</span>'}

    def _state(self, run: Run) -> str:
        """Returns the state in a sentence."""
        last = run.rows[-1]["epoch"] if run.rows else 0
        total = run.record.get("epochs")
        if self.has_ended:
            of_all = f" of {total}" if isinstance(total, int) else ""
            return f"{str(run.record['state']).capitalize()} after epoch {last}{of_all}."
        verb = plural(last, "is", "are")
        if isinstance(total, int):
            return f"Training: {last} of {quantity(total, 'epoch')} {verb} complete."
        return f"Training: {quantity(last, 'epoch')} {verb} complete."


def title_of(names: Sequence[str]) -> str:
    """Returns the title of the page."""
    return names[0] if len(names) == 1 else f"{len(names)} runs"


def live_page(title: str, names: Sequence[str], record: Record | None) -> str:
    """Returns the page, into which `live.js` puts the parts.

    Args:
        title: its title.
        names: names of the runs.
        record: preprocessing record of the first model; None if it has none yet.
    """
    several = len(names) > 1
    comparison = '<div id="comparison"></div>' if several else ""
    runs = "".join(_run(k, name, several) for k, name in enumerate(names))
    body = (
        f"<header><h1>{escape(title)}</h1>"
        '<p class="pale" id="connection" role="status">Connecting …</p></header>'
        f"<main>{_try_section(names, record)}{comparison}{runs}</main>"
    )
    return document(title, HEAD, body)


def _run(k: int, name: str, several: bool) -> str:
    """Returns the frame of a run."""
    inner = (
        f'<p id="state-{k}" role="status"></p><div id="overview-{k}"></div>'
        f"{section('Curves', f'<div id=curves-{k}></div>')}"
        f'<div id="samples-{k}"><p class="pale">Samples are shown when training has ended.'
        "</p></div>"
        f'<div id="details-{k}"></div>'
    )
    if not several:
        return f'<div class="run">{inner}</div>'
    mark = " open" if k == 0 else ""
    return (
        f'<details class="run"{mark}><summary><span class="run-name">{escape(name)}</span>'
        f"</summary>{inner}</details>"
    )


def _try_section(names: Sequence[str], record: Record | None) -> str:
    """Returns the section with the places for files and rows."""
    kind = record.kind if record else ""
    noun = NOUNS.get(kind, "a photo, a sound or a table")
    accept = f' accept="{ACCEPTED[kind]}"' if kind else ""
    choice = ""
    if len(names) > 1:
        options = "".join(f'<option value="{k}">{escape(n)}</option>' for k, n in enumerate(names))
        options += '<option value="all">all runs</option>'
        choice = f'<p><label>Model <select id="model">{options}</select></label></p>'
    drop = (
        f'<label class="drop" id="drop" for="files"><span>Drop {noun} here, or choose a file.'
        "</span>"
        f'<input type="file" id="files" multiple{accept} data-most="{MAX_BYTES}"></label>'
    )
    return (
        f'<section aria-labelledby="try"><h2 id="try">Try the model</h2>{choice}{drop}'
        f'{_form(fields_of(record))}<div id="results" aria-live="polite"></div></section>'
    )


def _form(fields: Sequence[Mapping[str, Any]]) -> str:
    """Returns the fields of a row."""
    if not fields:
        return ""
    cells = []
    for field in fields:
        name = escape(str(field["name"]))
        words = field.get("words")
        if isinstance(words, list):
            options = "".join(f"<option>{escape(str(word))}</option>" for word in words)
            entry = f'<select name="{name}">{options}</select>'
        else:
            entry = f'<input name="{name}" autocomplete="off" spellcheck="false">'
        cells.append(f"<label>{name}{entry}</label>")
    return (
        '<details class="row" open><summary>Type a row</summary><form id="row">'
        f'<div class="fields">{"".join(cells)}</div><button>Predict</button></form></details>'
    )
