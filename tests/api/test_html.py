"""What a notebook shows of odt's objects: complete, escaped, and loaded only when it is shown."""

import base64
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.paths import GOLDEN, MLP_SM

import odt
from odt.charts import chart_png
from odt.charts.chart import Chart
from odt.errors import OptionError

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(7)
X = RNG.normal(size=(64, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[np.arange(64) % 10]
HOSTILE = "<img src=x onerror=alert(1)>"
TAGS = {"div", "img", "table", "tr", "th", "td", "pre", "details", "summary", "progress", "br"}


@dataclass
class Shown(HTMLParser):
    """HTML as a browser reads it: its text, tables and pictures."""

    texts: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    pictures: list[ET.Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        values = dict(attrs)
        assert values.keys() <= {"style", "src", "alt", "value", "max"}
        if tag == "img":
            kind, _, content = (values["src"] or "").partition(",")
            assert kind == "data:image/svg+xml;base64"
            picture = ET.fromstring(base64.b64decode(content))
            for element in picture.iter():
                assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "a")
                assert not [name for name in element.attrib if name.startswith("on")]
            self.pictures.append(picture)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.lasttag in ("td", "th"):
            self.rows[-1][-1] += data

    @property
    def words(self) -> list[str]:
        """The texts of all pictures."""
        return [t.text or "" for p in self.pictures for t in p.iter() if t.tag.endswith("text")]


def shown(value: Any) -> Shown:
    page = Shown()
    page.feed(value._repr_html_())
    page.close()
    return page


@pytest.fixture(name="trainer", scope="module")
def trained() -> odt.Trainer:
    trainer = odt.Trainer(MODEL, metrics="accuracy")
    trainer.fit(X, Y, epochs=3, validation_split=0.25)
    return trainer


def test_a_history_has_its_curves_and_values() -> None:
    with odt.Trainer(MODEL, metrics="accuracy") as trainer:
        history = trainer.fit(X, Y, epochs=3, validation_split=0.25)
    page = shown(history)
    head, *rows = page.rows
    assert head == ["epoch", *history.history]
    assert [row[0] for row in rows] == ["0", "1", "2", "3"]
    for k, name in enumerate(history.history, 1):
        assert float(rows[0][k]) == pytest.approx(history.start[name], abs=1e-4)
        assert [float(r[k]) for r in rows[1:]] == pytest.approx(history.history[name], abs=1e-4)
    assert len(page.pictures) == 2
    lines = {
        line.attrib["data-name"]: line.attrib["points"].count(",")
        for picture in page.pictures
        for line in picture.iter("{http://www.w3.org/2000/svg}polyline")
    }
    assert lines == dict.fromkeys(history.history, 4)


def test_a_plot_is_saved(tmp_path: Path, trainer: odt.Trainer) -> None:
    history = trainer.fit(X, Y, epochs=1)
    plot = history.plot("loss")
    plot.save(tmp_path / "loss.svg")
    picture = ET.parse(tmp_path / "loss.svg").getroot()
    assert [t.text for t in picture.iter() if t.tag.endswith("title")]
    assert ET.fromstring(plot._repr_svg_()).tag == picture.tag
    plot.save(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OptionError, match=r"`path=`: must end in .svg or .png, but got .*a.jpg"):
        plot.save(tmp_path / "a.jpg")
    with pytest.raises(OptionError, match=r"`path=`: must end in .svg, but got .*a.png"):
        trainer.model.plot().save(tmp_path / "a.png")
    with pytest.raises(OptionError, match=r"must be names of values, loss, accuracy, but got los"):
        history.plot("los")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["loss.png", "loss.svg"]


def test_a_picture_names_all_lines_and_says_if_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    figures: list[Any] = []
    monkeypatch.setattr(chart_png, "save_png", lambda figure, path: figures.append(figure))
    lines = {"_base": [(1.0, 2.0), (2.0, 1.0)], "new": [(1.0, 1.0)]}
    chart_png.draw_png([Chart("loss", lines), Chart("rate", {})], str(tmp_path / "c.png"))
    loss, rate = figures[0].axes
    assert [text.get_text() for text in loss.get_legend().get_texts()] == ["_base", "new"]
    assert (rate.get_title(), rate.get_legend()) == ("rate: no values", None)
    assert not recwarn.list


def test_values_that_are_not_finite_have_no_point() -> None:
    history = odt.History()
    history.on_epoch_end(0, {"loss": float("nan"), "val_loss": 1.0})
    history.on_epoch_end(1, {"loss": 0.5, "val_loss": float("inf")})
    page = shown(history)
    assert page.rows[1:] == [["1", "nan", "1.0000"], ["2", "0.5000", "inf"]]
    assert len(page.pictures) == 1


def test_a_history_without_epochs_says_so() -> None:
    assert shown(odt.History()).texts == ["History: no epochs"]


def test_a_model_has_its_operators_and_its_picture() -> None:
    model = odt.load_model(MODEL)
    page = shown(model)
    assert page.texts[0].startswith("model.circle: circle, ")
    assert "trainable parameters" in page.texts[0]
    start = page.rows.index(["#", "operator", "output", "parameters", "trainable"])
    table = page.rows[start + 1 :]
    assert [row[1] for row in table] == [node.operator for node in model.nodes]
    count = sum(a.size for a in model.parameters.values())
    assert sum(int(row[3].replace(",", "") or 0) for row in table) == count
    assert [row[4] for row in table if row[3]] == ["yes"] * sum(bool(row[3]) for row in table)
    assert [w for w in page.words if w.endswith("FULLY_CONNECTED")]


def test_a_trainer_shows_what_trains() -> None:
    with odt.Trainer(MODEL, trainable=odt.select("fc2*"), batch_size=8) as trainer:
        page = shown(trainer)
    first, second, _ = page.rows[-3:]
    assert (first[1], first[4]) == ("FULLY_CONNECTED", "no")
    assert (second[1], second[4]) == ("FULLY_CONNECTED", "yes")
    assert "batch_size=8" in page.texts[1]
    with odt.Trainer(MODEL, trainable=odt.bias_only()) as trainer:
        assert [row[4] for row in shown(trainer).rows[-3:]] == ["part", "part", ""]


def test_parameters_show_their_shapes() -> None:
    parameters = odt.load_model(MODEL).parameters
    assert repr(parameters).startswith("{'fc")
    assert "(128, 784) float32" in repr(parameters)


def test_quantized_and_large_models_have_their_picture() -> None:
    quantized = odt.quantize(MODEL, X).model
    assert shown(quantized).pictures
    page = shown(odt.load_model(GOLDEN / "mnist/model.circle"))
    assert page.pictures


def test_a_report_has_the_matrix_of_its_classes(trainer: odt.Trainer) -> None:
    names = [f"class {k}" for k in range(10)]
    report = odt.classification_report(trainer, X, Y, classes=names)
    page = shown(report)
    matrix = page.rows[:11]
    assert matrix[0] == ["true \\ predicted", *names]
    assert report.confusion_matrix is not None
    assert [[int(c) for c in row[1:]] for row in matrix[1:]] == report.confusion_matrix.tolist()
    right = int(np.trace(report.confusion_matrix))
    assert page.texts[0] == f"{right} of 64 right: {100 * right / 64:.2f} %"
    assert [row[0] for row in page.rows[12:]] == names
    assert len(repr(report)) < 80


def test_a_plan_has_its_parts_and_its_chart() -> None:
    forecast = odt.plan(MODEL, batch_size=16)
    page = shown(forecast)
    parts = {row[0]: int(row[2].replace(",", "")) for row in page.rows[1:]}
    assert parts.pop("process") == forecast.process
    assert parts.pop("peak") == forecast.peak == sum(parts.values())
    assert page.texts[0].startswith("The process takes about ")
    assert str(forecast) in page.texts
    assert len(page.pictures) == 1
    assert "allocated" in page.words
    assert len(repr(forecast)) < 100


RESULTS: dict[str, Callable[[odt.Trainer], Any]] = {
    "check": lambda trainer: odt.check(MODEL),
    "evaluate": lambda trainer: odt.evaluate(MODEL, X, Y, metrics="accuracy"),
    "quantize": lambda trainer: odt.quantize(MODEL, X),
    "find_rate": lambda trainer: trainer.find_rate(X, Y),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_show_themselves(name: str, trainer: odt.Trainer) -> None:
    result = RESULTS[name](trainer)
    page = shown(result)
    assert page.texts or page.pictures
    assert len(repr(result)) < 200
    assert "array" not in repr(result)


def test_short_forms_say_what_an_object_is(trainer: odt.Trainer) -> None:
    assert repr(trainer) == (
        f"Trainer({trainer.model!r}, loss=categorical_crossentropy, optimizer=adam, "
        "learning_rate=0.001, batch_size=32)"
    )
    early = odt.EarlyStopping("val_accuracy", patience=3)
    assert repr(early).startswith("EarlyStopping(monitor='val_accuracy', patience=3, ")
    early.trainer = trainer
    assert "Trainer" not in repr(early)


def test_text_at_the_end_of_a_cell_is_lines(trainer: odt.Trainer) -> None:
    """IPython shows repr() of a value; that of a plain string has one line with backslashes."""
    for text in (trainer.model.summary(), odt.plan(MODEL).summary(), odt.plan(MODEL).calls()):
        assert isinstance(text, str)
        assert repr(text) == str(text)
        assert repr(text).count("\n") > 3


def test_results_that_are_text_print_themselves() -> None:
    """IPython calls _repr_pretty_ with a printer."""
    written: list[str] = []
    (agreement,) = odt.compare_outputs(MODEL, MODEL, X)
    agreement._repr_pretty_(SimpleNamespace(text=written.append), False)
    assert written == [str(agreement)]


def test_a_federation_has_its_rounds() -> None:
    with odt.Trainer(MODEL, metrics="accuracy") as trainer:
        history = odt.federated.simulate(trainer, X, Y, clients=4, rounds=3)
    page = shown(history)
    assert [row[0] for row in page.rows] == ["round", "1", "2", "3"]  # 0 has no metrics
    assert page.rows[0][1:] == list(dict.fromkeys(n for r in history.rounds for n in r.metrics))
    assert repr(history) == f"History({len(history.rounds)} rounds, 4 clients)"


# ---- labels and names of others


def test_no_label_runs_a_script(trainer: odt.Trainer) -> None:
    names = [f"{HOSTILE}{k}" for k in range(9)] + ["</td><script>alert(1)</script>"]
    page = shown(odt.classification_report(trainer, X, Y, classes=names))
    cells = {cell for row in page.rows for cell in row}
    assert sum(cell.startswith("<img src=") for cell in cells) >= 9  # long names are cut
    assert any(cell.startswith("</td><scri") for cell in cells)


def test_no_name_of_a_file_or_tensor_runs_a_script(tmp_path: Path) -> None:
    path = tmp_path / f"{HOSTILE}.tflite"
    odt.new_model("mlp", input_shape=(4,), outputs=2).save(path)
    content = path.read_bytes()
    assert content.count(b"input") >= 1
    path.write_bytes(content.replace(b"input", b'<i>&"'))
    page = shown(odt.load_model(path))
    assert page.texts[0].startswith(f"{HOSTILE}.tflite: tflite")
    assert ["input", '<i>&"', "(1, 4) float32"] in page.rows
    assert '<i>&"' in page.words


def test_no_name_of_a_run_runs_a_script(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    folder = tmp_path / HOSTILE
    words = [*("train", MODEL), *data, *("--epochs", "2", "--run-dir", folder)]
    subprocess.run([sys.executable, "-m", "odt", *map(str, words)], check=True, capture_output=True)
    run = odt.read_run(folder)
    page = shown(run)
    assert HOSTILE in page.texts[0]
    assert "finished, 2 epochs" in page.texts[0]
    assert len(page.pictures) == 2  # loss and learning rate
    shutil.copytree(folder, tmp_path / "other")
    both = shown(odt.compare_runs([folder, tmp_path / "other"]))
    assert any(HOSTILE in cell for row in both.rows for cell in row)


def test_characters_that_xml_lacks_do_not_break_a_picture() -> None:
    history = odt.History()
    history.on_epoch_end(0, {"a\0b\x1b\ud800": 1.0})
    assert any("a" in word for word in shown(history).words)


# ---- start-up


def test_html_is_loaded_only_when_it_is_shown() -> None:
    script = f"""
import sys, numpy as np, odt
x, y = np.zeros((32, 784), "float32"), np.eye(10, dtype="float32")[np.arange(32) % 10]
with odt.Trainer({str(MODEL)!r}) as trainer:
    history = trainer.fit(x, y)
late = ("odt.charts", "odt.models.model_html", "odt.training.history_html", "html")
print([name for name in late if name in sys.modules])
history._repr_html_()
print([name for name in late if name in sys.modules])
"""
    run = [sys.executable, "-W", "ignore", "-c", script]
    before, after = subprocess.check_output(run, text=True).splitlines()
    assert before == "[]"
    assert after == "['odt.charts', 'odt.training.history_html', 'html']"
