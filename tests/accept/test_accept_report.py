"""The report of a run in Debian's Chromium, at the widths of a phone and of a desk."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.hostile_runs import hostile
from support.paths import MLP_SM

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


def chromium(folder: Path, width: int, *words: str) -> str:
    """Runs Chromium without a window, whose width is at least 500."""
    if not shutil.which("chromium"):
        pytest.fail("chromium: must be installed, but is not. apt-get install chromium", False)
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
