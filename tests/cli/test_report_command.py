"""The report of a run: its figures are those of the log, and the page needs nothing else."""

import base64
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from support.charts import values_of
from support.hostile_runs import EVIL, hostile
from support.paths import MLP_SM, MODELS

from odt.cli.main import main
from odt.datasets.contact_sheet import picture

LINE = [str(MLP_SM / "model.circle"), "--load-input", str(MLP_SM / "input.bin")]
LINE += ["--load-expected", str(MLP_SM / "expected.bin"), "--validation-split", "0.25"]
LINE += ["--metric", "accuracy", "--seed", "1", "--schedule", "cosine"]
VOID = {"meta", "img", "br"}


def odt(*arguments: object) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


class Page(HTMLParser):
    """A page: rows of its tables by id or class, texts of its cards; every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.cards: dict[str, str] = {}
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self._table = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        values = dict(attrs)
        if tag == "table":
            self._table = values.get("id") or values.get("class") or ""
            self.tables[self._table] = []
        if tag == "tr":
            self.tables[self._table].append([])
        if tag in ("td", "th"):
            self.tables[self._table][-1].append("")
        self._card = values.get("class") == "card" or (tag == "b" and bool(self.cards))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[self._table][-1][-1] += data
        elif self.open[-2:] == ["div", "b"]:
            self.cards[next(reversed(self.cards))] = data
        elif self.open[-1:] == ["div"] and self._card:
            self.cards[data] = ""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "a <run>"
    odt("train", *LINE, "--epochs", 4, "--run-dir", path)
    odt("report", path)
    return path


@pytest.fixture(scope="module")
def text(run: Path) -> str:
    return (run / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_the_table_is_the_log(text: str, rows: list[dict[str, Any]]) -> None:
    head, *lines = Page(text).tables["log"]
    assert [name.replace(" ", "_") for name in head] == list(rows[0])
    for line, row in zip(lines, rows, strict=True):
        assert [float(cell) for cell in line] == pytest.approx(list(row.values()), rel=1e-5)


def test_the_curves_are_the_log(text: str, rows: list[dict[str, Any]]) -> None:
    """Each point, read back by the numbers at the axes."""
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    found = {k: v for picture in pictures[:-1] for k, v in values_of(picture).items()}
    assert set(found) == {"loss", "val_loss", "accuracy", "val_accuracy", "learning rate"}
    for name, line in found.items():
        key = name.replace(" ", "_")
        wanted = [(r["epoch"], r[key]) for r in rows if key != "learning_rate" or r["epoch"]]
        span = max(value for _, value in wanted)
        for (x, y), (epoch, value) in zip(line, wanted, strict=True):
            assert x == pytest.approx(epoch, abs=0.02)
            assert y == pytest.approx(value, abs=0.01 * span)
    labels = re.findall(r"<title>(\S+) (\S+) at (\d+)</title>", text)
    assert {(n, int(e)): float(v) for n, v, e in labels if n == "val_loss"} == {
        ("val_loss", r["epoch"]): pytest.approx(r["val_loss"], rel=1e-5) for r in rows
    }


def test_the_best_epoch_is_marked(text: str, rows: list[dict[str, Any]]) -> None:
    best = min(rows[1:], key=lambda row: row["val_loss"])
    cards = Page(text).cards
    assert cards["best val_loss"] == f"{best['val_loss']:.4f}"
    assert cards["best epoch"] == f"{best['epoch']} of 4"
    assert cards["val_loss before training"] == f"{rows[0]['val_loss']:.4f}"
    assert cards["state"] == "finished"
    assert text.count(f"best: epoch {best['epoch']}<") == 2  # on the charts of loss and accuracy
    (bold,) = re.findall(r'<tr class="best"><td>(\d+)</td>', text)
    assert int(bold) == best["epoch"]


def test_the_memory_is_that_of_the_plan(run: Path, text: str) -> None:
    """The top of the stack at each call, read back from the picture."""
    memory = json.loads((run / "memory.json").read_text())
    picture = re.findall(r"<svg.*?</svg>", text, re.DOTALL)[-1]
    *_, last = re.findall(r'<polygon class="area[^"]*" points="([^"]*)"', picture)
    ys = re.findall(r'<text class="y" x="[-\d.]+" y="([-\d.]+)"[^>]*>([^<]*)</text>', picture)
    (p0, v0), (p1, v1) = [(float(p) - 4, float(v)) for p, v in ys[:2]]
    pairs = [tuple(map(float, pair.split(","))) for pair in last.split()]
    count = len(memory["arenas"]["data"])
    constant = sum(memory[name] for name in ("parameters", "optimizer", "gradients"))
    for k in range(count):
        whole = constant + sum(row[k] for row in memory["arenas"].values())
        shown = v0 + (pairs[2 * k][1] - p0) * (v1 - v0) / (p1 - p0)
        assert shown * 1e6 == pytest.approx(whole, rel=0.01)
    assert f"{memory['total'] / 1e6:.1f} MB allocated" in text


def test_the_page_needs_nothing_else(text: str) -> None:
    page = Page(text)
    names = {"src", "href", "action", "srcset", "xlink:href"}
    links = [value for name, value in page.attributes if name in names]
    assert all(str(link).startswith("data:") for link in links)
    assert not re.search(r"https?:|url\(|@import|<script|<link", text)
    assert "a &lt;run&gt;" in text
    assert "prefers-color-scheme:dark" in text


def test_the_confusion_matrix_is_that_of_the_log(text: str, rows: list[dict[str, Any]]) -> None:
    """24 validation samples, drawn again as in the run."""
    _, *lines = Page(text).tables["confusion"]
    matrix = np.array([[int(cell) for cell in line[1:]] for line in lines])
    assert matrix.sum() == 24
    assert np.trace(matrix) / 24 == pytest.approx(rows[-1]["val_accuracy"])
    assert f"24 validation samples, loss {rows[-1]['val_loss']:.6g}." in text
    _, *each = Page(text).tables["classes"]
    for k, line in enumerate(each):
        assert float(line[2]) == pytest.approx(matrix[k, k] / max(matrix[k].sum(), 1), abs=1e-4)
        assert int(line[4]) == matrix[k].sum()
    wrong, _, right = text.partition("Samples predicted right: ")
    assert wrong.count("<figure") == 24 - np.trace(matrix)
    assert right.count("<figure") == min(np.trace(matrix), 12)


def test_wrong_samples_are_shown_as_they_are(text: str) -> None:
    """The picture of a sample, decoded by Pillow, is that of the data file."""
    data = np.fromfile(MLP_SM / "input.bin", "<f4").reshape(96, -1)
    pattern = r'alt="sample (\d+)" src="data:image/png;base64,([^"]*)"'
    shown = re.findall(pattern, text)
    wrong = text.partition("Samples predicted right: ")[0]
    losses = [float(v) for v in re.findall(r"loss <b>([\d.e-]+)</b>", wrong)]
    assert losses == sorted(losses, reverse=True)
    assert shown
    for sample, code in shown:
        with Image.open(io.BytesIO(base64.b64decode(code))) as image:
            pixels = np.asarray(image)
        assert np.array_equal(pixels, picture(data[int(sample)], (784,)))


def test_test_data_may_be_given(run: Path, tmp_path: Path) -> None:
    files = ["--load-input", MLP_SM / "input.bin", "--load-expected", MLP_SM / "expected.bin"]
    odt("report", run, *files, "--wrong", 2, "-o", tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "96 test samples, loss " in text
    assert text.partition("Samples predicted right: ")[0].count("<figure") == 2
    alone = CliRunner().invoke(main, ["report", str(run), *map(str, files[:2])])
    assert "--load-input: must come with --load-expected" in alone.stderr


def test_values_are_shown_by_their_loss(tmp_path: Path) -> None:
    """A regression has no classes."""
    x = np.linspace(0, 6, 40, dtype=np.float32)[:, None]
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.sin(x))
    words = ["--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy"]
    words += ["--loss", "mse", "--epochs", 1, "--validation-split", 0.5]
    odt("train", MODELS / "tflm-hello-world-sine-float.tflite", *words, "--run-dir", tmp_path / "r")
    odt("report", tmp_path / "r", "--wrong", 3)
    text = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Predicted and true values</h2><p>20 validation samples, loss " in text
    assert text.count("<figure") == 3
    assert "<h2>Classes" not in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "The run has no validation data. Give inputs and expected outputs of test samples."),
        ('loss = "losses:mine"\n', "or a custom loss are not shown."),
    ],
)
def test_samples_that_cannot_be_evaluated_say_why(
    line: str, message: str, run: Path, tmp_path: Path
) -> None:
    """No module is imported because a folder's recipe names it."""
    (tmp_path / "recipe.toml").write_text(line)
    (tmp_path / "model.circle").write_bytes((run / "model.circle").read_bytes())
    odt("report", tmp_path)
    assert message in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_run_without_a_model_yet_is_evaluated_with_its_best_weights(
    run: Path, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    for path in run.iterdir():
        if path.name != "model.circle":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    odt("report", tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    best = min(row["val_loss"] for row in rows)
    assert f"24 validation samples, loss {best:.6g}, weights of best.odt." in text
    assert "<figure" in text


def test_a_run_that_was_killed_has_a_report(run: Path, tmp_path: Path) -> None:
    """Also before its first epoch is complete."""
    for name in ("recipe.toml", "run.json", "memory.json"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    (tmp_path / "log.jsonl").write_text('{"epoch": 0, "lo')
    (tmp_path / "warnings.txt").write_text("Warning: <b> is below & above.\n")
    odt("report", tmp_path, "-o", tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "No epoch is complete." in text
    assert "Warning: &lt;b&gt; is below &amp; above." in text


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert done.exit_code == 1
    assert "must be the folder of a run, but it has no recipe.toml." in done.stderr


def test_markup_in_a_run_folder_stays_text(run: Path, tmp_path: Path) -> None:
    folder = hostile(run, tmp_path / EVIL[:8].replace("'", "").replace('"', "<b>"))
    odt("report", folder)
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    known = {"html", "head", "meta", "title", "style", "body", "section", "h1", "h2", "p", "pre"}
    known |= {"div", "b", "table", "tr", "td", "th", "figure", "figcaption", "img", "br", "svg"}
    known |= {"g", "text", "line", "polyline", "polygon", "circle", "rect", "details", "summary"}
    assert page.tags <= known
    assert {name for name, _ in page.attributes if name.startswith("on")} == set()
    assert [v for name, v in page.attributes if name in ("src", "href", "action")] == [
        v for name, v in page.attributes if name == "src" and str(v).startswith("data:image/png;")
    ]
    assert text.count("marker") > 15
    assert "\x1b" not in odt("report", "--list", folder)


def test_a_page_allows_no_script_and_no_other_host(text: str) -> None:
    head = text.partition("</head>")[0]
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', head)
    assert policy is not None
    assert head.index(policy[0]) < head.index("<title>")
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("memory.json", '{"batch": "<script>"}'),
        ("memory.json", '{"total": 1e400}'),
        ("run.json", '{"files": "x"}'),
        ("run.json", '{"files": {"model": {"path": 1, "bytes": 1, "sha256": "x"}}}'),
        ("run.json", '{"starts": [1]}'),
        ("run.json", '{"starts": [{"time": "", "epoch": 1, "seconds": -1}]}'),
        ("run.json", '{"starts": [{"time": "", "epoch": 1, "seconds": NaN}]}'),
        ("run.json", "[" * 100_000),
        ("run.json", '{"outputs": {"--log": 7}}'),
        ("log.jsonl", '{"epoch": 1, "seconds": 1, "loss": Infinity}\n'),
        ("log.jsonl", '{"epoch": 1, "loss": 1}\n'),
        ("log.jsonl", '{"epoch": "1", "seconds": 1}\n'),
        ("log.jsonl", f'{{"epoch": 1, "seconds": {"9" * 4000}}}\n'),
        ("log.jsonl", f'{{"epoch": {2**64}, "seconds": 1, "loss": 1}}\n'),
        ("log.jsonl", "".join(f'{{"epoch": 1, "seconds": 1, "{k}": 1}}\n' for k in range(1500))),
        ("recipe.toml", 'load-input = "x"\nload-expected = "y"\nvalidation-split = "much"\n'),
    ],
)
def test_a_damaged_file_of_a_run_is_one_line(
    run: Path, name: str, content: str, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / name
    if name == "memory.json":  # the other keys are right
        content = json.dumps(json.loads(path.read_text()) | json.loads(content))
    path.write_text(content)
    done = CliRunner().invoke(main, ["report", str(tmp_path / "run")])
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_words_of_the_memory_chart_stay_inside() -> None:
    """Wherever the forward pass ends."""
    from odt.charts.chart import WIDTH
    from odt.charts.memory_chart import memory_chart

    for forward in (0, 1, 50, 99, 100):
        picture = memory_chart(
            {"total": 1000, "forward": forward, "arenas": {"activations": [1] * 100}}
        )
        ends = float(re.search(r'x="([\d.]+)"[^>]*>forward<', picture)[1])  # type: ignore[index]
        begins = float(re.search(r'x="([\d.]+)"[^>]*>backward<', picture)[1])  # type: ignore[index]
        assert 48 <= ends < begins <= WIDTH - 60
