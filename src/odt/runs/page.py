"""The report of a run: one HTML page without external resources.

The live page is made of the same sections.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from odt import __version__
from odt.charts.chart import STYLE as CHART_STYLE
from odt.charts.chart import svg
from odt.charts.memory_chart import checked_memory, memory_chart
from odt.core.storage.reading import read_input, reading
from odt.errors import OdtError
from odt.runs.epoch_log import Row
from odt.runs.run import (
    BEST,
    MAX_BYTES,
    MEMORY,
    RECIPE,
    WARNINGS,
    Run,
    charts_of,
    read_lines,
    run_names,
)
from odt.runs.shared_text import file_name, without_folders
from odt.text import duration, figure, size

# Only the page's own styles and the pictures within it; no scripts.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
WARNING = "Warning"  # at the beginning of a warning; other lines are notes
MAX_ROWS = 30  # of the log; more are folded
STYLE = """
:root{color-scheme:light dark;--ink:#222;--pale:#666;--back:#fff;--card:#f5f6f8;--edge:#dcdfe4;
--good:#2d8a4e;--bad:#c22f4c;--heat:31,111,180}
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--pale:#9aa0a8;--back:#181818;--card:#232529;
--edge:#3a3d42;--good:#6fd08e;--bad:#ff8fa3;--heat:90,160,225}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1160px;padding:16px;font:15px/1.5 system-ui,sans-serif;
color:var(--ink);background:var(--back);overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:.2em 0}
h2{font-size:1.15rem;margin:2em 0 .6em;border-bottom:1px solid var(--edge);padding-bottom:.2em}
p{margin:.4em 0}.pale{color:var(--pale)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:10px;margin:1em 0}
.card{background:var(--card);border-radius:8px;padding:8px 12px}
.card b{display:block;font-size:1.25rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:14px}
.charts svg,.memory svg{width:100%;height:auto;display:block}
.charts>*,.memory{background:var(--card);border-radius:8px;padding:6px}
.memory{max-width:640px}
.area{stroke-width:0;opacity:.75}
.wide{overflow-x:auto;margin:0 0 1em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.87rem}
th,td{padding:3px 9px;text-align:right;border-bottom:1px solid var(--edge);white-space:nowrap}
th:first-child,td:first-child{text-align:left}
.words td{text-align:left;white-space:normal}
.words td:first-child{white-space:nowrap;overflow-wrap:normal;vertical-align:top}
tr.best td{font-weight:700}
.matrix td,.matrix th{text-align:center;min-width:2.6em}
.matrix th:first-child{text-align:right}
.matrix td:not(.zero){background:rgba(var(--heat),var(--part))}
.matrix td.zero{color:var(--pale)}
.matrix td.right{outline:1px solid var(--good);outline-offset:-2px}
.samples{display:grid;grid-template-columns:repeat(auto-fill,minmax(128px,1fr));gap:10px}
.sample{background:var(--card);border-radius:8px;padding:6px;font-size:.8rem;margin:0}
.sample img{width:100%;aspect-ratio:1;object-fit:contain;image-rendering:pixelated;
background:#202020;border-radius:4px;display:block}
.photos{grid-template-columns:repeat(auto-fill,minmax(min(100%,256px),1fr))}
.photos svg{width:100%;aspect-ratio:1;background:#202020;border-radius:4px;display:block}
.photos rect{fill:none;stroke-width:2px;vector-effect:non-scaling-stroke}
.photos .true{stroke-dasharray:6 4}
.photos text{font-weight:600;paint-order:stroke;stroke:#000;stroke-width:.2em}
.sound img{aspect-ratio:2;object-fit:fill}
.bad{color:var(--bad)}.warning,.note{border-left:4px solid var(--bad);padding:4px 12px;
margin:.5em 0;background:var(--card)}.note{border-color:var(--edge)}
.dot{stroke-width:0;opacity:.6}
pre{background:var(--card);border-radius:8px;padding:10px 12px;overflow-x:auto;font-size:.82rem}
summary{cursor:pointer;margin:.6em 0}
"""


def page(run: Run, sections: Iterable[str] = (), warnings: Iterable[str] = ()) -> str:
    """Returns the page.

    Args:
        run: the run.
        sections: further sections as HTML, which follow the curves.
        warnings: further warnings.
    """
    (name,) = run_names([run])
    body = "".join(
        [
            f"<h1>{escape(name)}</h1>",
            overview(run, warnings),
            section("Curves", curves(run)),
            *sections,
            details(run),
        ]
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return document(name, head, body)


def document(title: str, head: str, body: str) -> str:
    """Returns a page with the style of reports.

    Args:
        title: title of the window, as text.
        head: further elements of the head, as HTML.
        body: content, as HTML.
    """
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{head}'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{CHART_STYLE}</style></head>\n"
        f'<body>{body}<p class="pale">Written by odt {__version__}.</p></body></html>\n'
    )


def overview(run: Run, warnings: Iterable[str] = ()) -> str:
    """Returns model, time, cards, the exported epoch and warnings.

    Args:
        run: the run.
        warnings: further warnings.
    """
    lines = [*read_lines(run.path / WARNINGS), *warnings]
    return "".join(
        [
            f'<p class="pale">{escape(_subtitle(run))}</p>',
            cards(run),
            _exported_epoch(run),
            *(_remark(without_folders(run, line)) for line in lines),
        ]
    )


def _remark(line: str) -> str:
    """Returns a warning, or a note, which is less conspicuous."""
    kind = "warning" if line.startswith(WARNING) else "note"
    return f'<p class="{kind}">{escape(line)}</p>'


def _exported_epoch(run: Run) -> str:
    """Returns which epoch's weights the trained model has, unless these are the best."""
    best = run.best
    ended = run.record.get("state") in ("finished", "stopped")
    if not best or not ended or run.recipe.get("keep-best") or best is run.rows[-1]:
        return ""
    text = (
        f"The trained model has the weights of the last epoch, {run.rows[-1]['epoch']}; those of "
        f"the best epoch, {best['epoch']}, are in {BEST}."
    )
    return f'<p class="note">{text}</p>'


def details(run: Run) -> str:
    """Returns the sections after the samples: log, memory, recipe, versions and files."""
    return "".join(
        [
            section("Epochs", epochs(run)),
            _memory(run),
            section("Recipe", f"<pre>{escape(without_folders(run, _text(run, RECIPE)))}</pre>"),
            section("Environment", environment(run)),
        ]
    )


def section(title: str, content: str) -> str:
    """Returns a section of the page.

    Args:
        title: its title, as text.
        content: its content, as HTML.
    """
    return f"\n<section><h2>{escape(title)}</h2>{content}</section>"


def cards(run: Run) -> str:
    """Returns cards with the best value, the value before training, time and state."""
    best = run.best
    shown: dict[str, str] = {}
    if best:
        shown[f"best {run.monitor}"] = figure(best[run.monitor])
        shown["best epoch"] = f"{best['epoch']} of {run.rows[-1]['epoch']}"
        for name in run.names:
            value = best.get(f"val_{name}", best.get(name))
            if name != "loss" and run.monitor not in (name, f"val_{name}") and value is not None:
                label = f"val_{name}" if f"val_{name}" in best else name
                shown[f"{label} at the best epoch"] = figure(value)
    first = run.rows[0] if run.rows and not run.rows[0]["epoch"] else None
    if first and first.get(run.monitor) is not None:
        shown[f"{run.monitor} before training"] = figure(first[run.monitor])
    shown["time"] = duration(run.seconds)
    shown["state"] = str(run.record.get("state", "unfinished"))
    cells = (f'<div class="card">{escape(k)}<b>{escape(v)}</b></div>' for k, v in shown.items())
    return f'<div class="cards">{"".join(cells)}</div>'


def curves(run: Run) -> str:
    """Returns the charts of loss, metrics and learning rate."""
    if not run.rows:
        return "<p>No epoch is complete.</p>"
    charts = (f"<div>{svg([chart], alone=False)}</div>" for chart in charts_of(run))
    return f'<div class="charts">{"".join(charts)}</div>'


def epochs(run: Run) -> str:
    """Returns the log as a table; the best epoch is bold."""
    names = list(dict.fromkeys(name for row in run.rows for name in row))
    best_row = run.best
    best = next((k for k, row in enumerate(run.rows) if row is best_row), None)
    heads = (name.replace("_", " ") for name in names)
    rows = ((cell(row.get(name)) for name in names) for row in run.rows)
    log = f'<div class="wide">{table(heads, rows, "log", best)}</div>'
    if len(run.rows) > MAX_ROWS:
        return f"<details><summary>{len(run.rows)} rows</summary>{log}</details>"
    return log


def table(
    heads: Iterable[str],
    rows: Iterable[Iterable[str]],
    name: str = "",
    best: int | None = None,
) -> str:
    """Returns a table.

    Args:
        heads: heads of the columns, as text.
        rows: cells of each row, as text.
        name: id of the element; empty for none.
        best: number of the row that is marked; None for none.
    """
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    mark = f' id="{name}"' if name else ""
    lines = (table_row(cells, marked=k == best) for k, cells in enumerate(rows))
    return f"<table{mark}><tr>{head}</tr>{''.join(lines)}</table>"


def table_row(cells: Iterable[str], *, marked: bool = False) -> str:
    """Returns a row of a table; that of the best epoch is marked."""
    mark = ' class="best"' if marked else ""
    return f"<tr{mark}>{''.join(f'<td>{escape(c)}</td>' for c in cells)}</tr>"


def cell(value: float | None) -> str:
    """Formats a value of the log with six digits."""
    return "" if value is None else f"{value:.6g}"


def environment(run: Run) -> str:
    """Returns a table of versions, files and starts."""
    record: Mapping[str, Any] = run.record
    names = ("odt", "numpy", "python", "kernels", "platform")
    rows = [table_row((n, str(record[n]))) for n in names if n in record]
    for name, file in record.get("files", {}).items():
        about = f"{file_name(file['path'])}, {size(file['bytes'])}, SHA-256 {file['sha256']}"
        rows.append(table_row((name, about)))
    for start in record.get("starts", []):
        rows.append(table_row(("started", f"{start['time']}, with epoch {start['epoch']}")))
    return f'<div class="wide"><table class="words">{"".join(rows)}</table></div>'


def _memory(run: Run) -> str:
    """Returns the section with the memory of a step; empty for a run that recorded none."""
    text = _text(run, MEMORY)
    if not text:
        return ""
    with reading(str(run.path / MEMORY), "must be the memory of a run", OdtError):
        memory = checked_memory(json.loads(text))
        about = (
            f"{size(memory['total'])} allocated; batches of {memory['batch']} as micro-batches of "
            f"{memory['micro_batch']}, workers: {memory['workers']}."
        )
        chart = memory_chart(memory)
    return section("Memory", f'<p>{escape(about)}</p><div class="memory">{chart}</div>')


def _subtitle(run: Run) -> str:
    """Returns the name of the model and the time of the first start, if they are known."""
    starts: Sequence[Row] = run.record.get("starts", [])
    model = file_name(run.record.get("files", {}).get("model", {}).get("path", ""))
    time = str(starts[0]["time"]) if starts else ""
    return ", ".join(filter(None, (model, time)))


def _text(run: Run, name: str) -> str:
    """Returns the text of a file of a run; empty if there is no file."""
    path = run.path / name
    if not path.exists():
        return ""
    return read_input(path, "text", OdtError, MAX_BYTES).decode(errors="replace")
