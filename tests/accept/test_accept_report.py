"""Pages of runs in Debian's Chromium, at the widths of a phone and of a desk.

The report, and the live page: its curve grows during a run, and a dropped file gets the class that
`odt predict` prints.
"""

import html
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from support.chromium import MISSING, Chromium
from support.hostile_runs import hostile
from support.paths import MLP_SM

import odt
from odt.cli.main import main

pytestmark = pytest.mark.accept
LINE = [str(MLP_SM / "model.circle"), "--load-input", str(MLP_SM / "input.bin")]
LINE += ["--load-expected", str(MLP_SM / "expected.bin"), "--validation-split", "0.25"]
LINE += ["--metric", "accuracy", "--epochs", "4"]
MEASURE = """<script>
const wide = [...document.querySelectorAll("body *")].filter(e => !e.closest(".wide, pre, svg")
  && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + "." + e.className);
parent.postMessage([innerWidth, document.documentElement.scrollWidth,
  document.querySelectorAll("svg polyline").length, wide.join(" ")].join(","), "*");
</script>"""
FRAME = """<body style="margin:0">
<iframe style="border:0" width="{}" height="3000" src="{}"></iframe>
<script>onmessage = e => document.body.dataset.found = e.data</script>"""


MARK = "<script>document.title='marker'</script><img src=x onerror=document.title='marker'>"
# A class, whose name is a folder's: without a slash.
CLASS = MARK.replace("</script>", "<script>")


def chromium(folder: Path, width: int, *words: str) -> str:
    """Runs Chromium without a window, whose width is at least 500."""
    if not shutil.which("chromium"):
        pytest.fail(MISSING, False)
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 500)},3000"]
    command += ["--virtual-time-budget=5000", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def reported(folder: Path, *line: str) -> str:
    """Trains with a run folder, and returns the page of its report."""
    words = ["train", *line, "--run-dir", str(folder)]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert CliRunner().invoke(main, ["report", str(folder)]).exit_code == 0
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [400, 1280])
def test_the_report_fits_the_window(width: int, tmp_path: Path) -> None:
    folder = tmp_path / ("folder-of-a-long-name" * 3)
    folder.mkdir(parents=True)
    model = folder / ("a" * 60 + ".circle")  # no place for a line break
    model.symlink_to(MLP_SM / "model.circle")
    text = reported(tmp_path / "run", str(model), *LINE[1:])
    assert model.name in text
    assert str(folder) not in text
    measured = tmp_path / "measured.html"
    text = re.sub("<meta http-equiv=[^>]*>", "", text)  # which forbids the script that measures
    measured.write_text(text.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(width, measured.as_uri()), encoding="utf-8")
    dom = chromium(tmp_path, width, "--dump-dom", frame.as_uri())
    match = re.search(r'data-found="(\d+),(\d+),(\d+),([^"]*)"', dom)
    assert match is not None
    assert int(match[1]) == width
    assert int(match[2]) <= width, match[4]
    assert int(match[3]) == text.count("<polyline")
    picture = tmp_path / "page.png"
    chromium(tmp_path, width, f"--screenshot={picture}", frame.as_uri())
    assert len(picture.read_bytes()) > 20_000  # not blank


def test_no_page_of_a_hostile_run_folder_runs_a_script(tmp_path: Path) -> None:
    """Neither by its markup, which is escaped, nor if a place were forgotten: the policy."""
    reported(tmp_path / "run", *LINE)
    folder = hostile(tmp_path / "run", tmp_path / "hostile")
    assert CliRunner().invoke(main, ["report", str(folder)]).exit_code == 0
    for name in ("log.jsonl", "run.json", "memory.json"):  # chart alone, as SVG
        assert (folder / name).exists()
    drawn = [
        "report",
        "--list",
        str(tmp_path),
        "--svg",
        str(tmp_path / "chart.svg"),
        "--metric",
        "loss",
    ]
    assert CliRunner().invoke(main, drawn).exit_code == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    plain = html.unescape(page)  # what a page without escapes would be
    variants = {
        "report.html": page,
        "forgotten.html": plain,
        "chart.svg": (tmp_path / "chart.svg").read_text(),
        "curves.svg": (folder / "curves.svg").read_text(),
    }
    for name, text in variants.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        dom = chromium(tmp_path, 800, "--dump-dom", (tmp_path / name).as_uri())
        assert "<title>marker</title>" not in dom, name
        assert "marker" in dom or name.endswith(".svg")
    control = re.sub("<meta http-equiv=[^>]*>", "", plain)  # neither escapes nor policy
    (tmp_path / "control.html").write_text(control, encoding="utf-8")
    dom = chromium(tmp_path, 800, "--dump-dom", (tmp_path / "control.html").as_uri())
    assert "<title>marker</title>" in dom


def run(*arguments: object) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def learned(folder: Path, source: Path, *words: object) -> Path:
    """Makes data, a model and a run folder."""
    data = folder / "data" / "train"
    run("gen-datafile", "--source", source, "--out-dir", data.parent, "--split", "train", *words)
    run("new", "mlp", "--like", f"{data}.input.bin", "--hidden", 8, "-o", folder / "new.circle")
    files = ["--load-input", f"{data}.input.bin", "--load-expected", f"{data}.output.bin"]
    run("train", folder / "new.circle", *files, "--validation-split", 0.5, "--epochs", 2,
        "--run-dir", folder / "run")  # fmt: skip
    return folder / "run"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A run with two classes of photos, one of which has a script as its name."""
    rng = np.random.default_rng(1)
    for name, shade in (("night", 40), (CLASS, 200)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(8):
            pixels = rng.normal(shade, 30, (24, 24, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{k}.png")
    return learned(tmp_path, tmp_path / "photos", "--scale", "0..1")


def own(requests: list[str], url: str) -> bool:
    """Whether all requests are those of the page."""
    return all(r.startswith((url, "data:image/png;base64,")) for r in requests)


def drop(browser: Chromium, file: Path) -> None:
    """Drops a file on the middle of the page, as a user does."""
    for kind in ("dragEnter", "dragOver", "drop"):
        data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
        browser.send("Input.dispatchDragEvent", type=kind, x=200, y=300, data=data)


def test_the_curve_grows_while_a_run_trains(browser: Chromium, tmp_path: Path) -> None:
    words = ["train", *LINE[:-1], "60", "--run-dir", str(tmp_path / "run")]
    slow = (
        "import sys, time, odt; from odt.cli.runs.folder import RunFolder\n"
        "write = RunFolder.write\n"
        "RunFolder.write = lambda *a: (write(*a), time.sleep(0.2))\n"
        "from odt.cli.main import main; main(sys.argv[1:])"
    )
    with subprocess.Popen([sys.executable, "-c", slow, *words], stdout=subprocess.DEVNULL) as run:
        while not (tmp_path / "run" / "log.jsonl").exists():
            time.sleep(0.05)
        with odt.LiveReport(tmp_path / "run") as page:
            browser.open(page.url)
            points = "document.querySelectorAll('polyline[data-name=val_loss] ~ circle').length"
            counts = []
            for least in (6, 20, 60):
                browser.wait_for(f"{points} >= {least}")
                counts.append(browser.run(points))
            browser.wait_for("document.querySelector('#state-0').innerText.startsWith('Finished')")
            browser.wait_for("document.querySelector('#confusion')")
            assert browser.run(points) == 61  # with epoch 0
            assert own(browser.requests, page.url)
            assert browser.messages == []
        browser.wait_for("document.body.classList.contains('lost')")
    assert run.returncode == 0
    assert counts == sorted({*counts})
    assert counts[0] < 30  # it was seen while it grew


@pytest.mark.parametrize("by", ["drop", "choose"])
def test_a_dropped_photo_gets_the_class_that_predict_prints(
    browser: Chromium, photos: Path, tmp_path: Path, by: str
) -> None:
    """And no script of a class or of a file name runs."""
    for place in ("night", CLASS):
        photo = tmp_path / f"{place[:5]} {CLASS}.png"
        photo.write_bytes((tmp_path / "photos" / place / "3.png").read_bytes())
        line = run("predict", photos / "model.circle", "--source", photo).splitlines()[-1]
        values = re.findall(r"(night|<script>.*?) ([\d.]+)(?:, |$)", line.partition(".png: ")[2])
        with odt.LiveReport(photos) as page:
            browser.open(page.url)
            if by == "drop":
                drop(browser, photo)
            else:
                browser.choose_files("#files", [photo])
            browser.wait_for("document.querySelector('#results .bars, #results .warning')")
            rows = browser.run(
                "[...document.querySelectorAll('.bars tr')].map(row => [row.cells[0].textContent, "
                "row.cells[2].textContent])"
            )
            assert [tuple(row) for row in rows] == values
            assert len(rows) == 2
            assert browser.run("document.querySelector('.result h4').textContent") == photo.name
            assert browser.run("document.querySelector('#results img').naturalWidth") == 24
            browser.wait_for("document.querySelector('#confusion')")  # with the names of classes
            time.sleep(0.3)
            assert browser.run("document.title") != "marker"
            assert browser.run("document.querySelectorAll('body script').length") == 0
            assert own(browser.requests, page.url)
        browser.requests.clear()


def test_the_policy_stops_what_an_escape_would_miss(browser: Chromium, photos: Path) -> None:
    """The control: markup in the page itself loads nothing and runs nothing."""
    with odt.LiveReport(photos) as page:
        browser.open(page.url)
        browser.wait_for("document.querySelector('#results')")
        title = browser.run("document.title")
        before = len(browser.requests)
        browser.run(f"document.querySelector('#results').innerHTML = {CLASS!r}")
        browser.run(
            "document.body.append(Object.assign(document.createElement('script'), "
            "{textContent: \"document.title = 'marker'\"}))"
        )
        far = "fetch('http://127.0.0.1:9/').then(() => 'answer', () => 'refused')"
        assert browser.run(far) == "refused"
        time.sleep(0.3)
        assert browser.run("document.title") == title
        assert own(browser.requests[before:], page.url)
        end = time.monotonic() + 10
        while not any("Content Security Policy" in m for m in browser.messages):
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_live_page_fits_the_window(
    browser: Chromium, photos: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    browser.resize(width, 800, dark=dark)
    other = tmp_path / ("a-long-name-of-a-run-folder" * 3)
    shutil.copytree(photos, other)
    with odt.LiveReport([photos, other]) as page:
        browser.open(page.url)
        browser.choose_files("#files", [tmp_path / "photos" / "night" / "1.png"])
        browser.wait_for("document.querySelector('#results .bars')")
        browser.wait_for("document.querySelector('#confusion')")
        browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        wide = browser.run(
            "[...document.querySelectorAll('main *, header *')].filter(e => "
            "!e.closest('.wide, pre, svg') && e.getBoundingClientRect().right > innerWidth + 1)"
            ".map(e => e.outerHTML.slice(0, 80))"
        )
        assert wide == []
        assert browser.run("document.documentElement.scrollWidth") <= width
        back, ink = (
            [int(v) for v in re.findall(r"\d+", text)[:3]]
            for text in browser.run(
                "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"
            )
        )
        assert (sum(back) < sum(ink)) == dark
        assert len(browser.screenshot()) > 20_000


def test_the_live_page_works_by_keyboard(browser: Chromium, tmp_path: Path) -> None:
    """A row is typed and predicted without a mouse; each control has a name for readers."""
    rng = np.random.default_rng(2)
    rows = "".join(f"{v:.2f},{'ab'[k % 2]},{2 * v + k % 2:.2f}\n" for k, v in
                   enumerate(rng.normal(size=20)))  # fmt: skip
    (tmp_path / "table.csv").write_text(f"size,kind,price\n{rows}")
    words = ("--one-hot", "kind", "--regression")
    data = tmp_path / "data" / "train"
    run("gen-datafile", "--source", tmp_path / "table.csv", "--out-dir", data.parent, *words,
        "--split", "train")  # fmt: skip
    run("new", "mlp", "--like", f"{data}.input.bin", "--hidden", 8, "-o", tmp_path / "new.circle")
    files = ["--load-input", f"{data}.input.bin", "--load-expected", f"{data}.output.bin"]
    run("train", tmp_path / "new.circle", *files, "--loss", "mse", "--epochs", 2, "--run-dir",
        tmp_path / "run")  # fmt: skip
    (tmp_path / "row.csv").write_text("size,kind\n1.5,b\n")
    line = run("predict", tmp_path / "run" / "model.circle", "--source", tmp_path / "row.csv")
    with odt.LiveReport(tmp_path / "run") as page:
        browser.open(page.url)
        browser.wait_for("document.querySelector('#curves-0 svg')")
        focus = []
        for _ in range(12):
            browser.press("Tab")
            focus.append(browser.run("document.activeElement.name || document.activeElement.id "
                                     "|| document.activeElement.tagName"))  # fmt: skip
            if focus[-1] == "size":
                browser.send("Input.insertText", text="1.5")
            if focus[-1] == "kind":
                browser.press("ArrowDown")
            if focus[-1] == "BUTTON":
                browser.press("Enter")
                break
        assert focus == ["files", "SUMMARY", "size", "kind", "BUTTON"]
        browser.wait_for("document.querySelector('#results .bars')")
        shown = browser.run("document.querySelector('.bars td').textContent")
        assert float(shown) == pytest.approx(float(line.split()[-1]), abs=1e-4)
        nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
        unnamed = [node["role"]["value"] for node in nodes if needs_name(node)]
        assert unnamed == []
        live = [n for n in nodes if n.get("role", {}).get("value") == "status"]
        assert live


def needs_name(node: dict[str, Any]) -> bool:
    """Whether a control or a picture has no name for screen readers."""
    roles = {"button", "textbox", "combobox", "MenuListPopup", "img", "image", "heading"}
    role = node.get("role", {}).get("value")
    is_shown = not node.get("ignored")
    return is_shown and role in roles - {"MenuListPopup"} and not node.get("name", {}).get("value")
