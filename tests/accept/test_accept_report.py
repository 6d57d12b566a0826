"""The report of a run in Debian's Chromium, at the widths of a phone and of a desk."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import MLP_SM

from odt.cli.main import main

pytestmark = [
    pytest.mark.accept,
    pytest.mark.skipif(not shutil.which("chromium"), reason="Chromium is not installed"),
]
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
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 500)},3000"]
    command += ["--virtual-time-budget=5000", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("width", [400, 1280])
def test_the_report_fits_the_window(width: int, tmp_path: Path) -> None:
    words = ["train", *LINE, "--run-dir", str(tmp_path / "run")]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert CliRunner().invoke(main, ["report", str(tmp_path / "run")]).exit_code == 0
    page, measured = tmp_path / "run" / "report.html", tmp_path / "measured.html"
    text = page.read_text(encoding="utf-8")
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
