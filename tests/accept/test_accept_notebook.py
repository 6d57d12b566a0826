"""Objects of odt as notebooks show them, in Debian's Chromium: no name runs a script."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.chromium import Chromium
from support.paths import MLP_SM

import odt

pytestmark = pytest.mark.accept
MARK = "<img src=x onerror=document.title=1>"
SCRIPT = "</td></table><script>document.title=1</script>"
NOT_LOADED = "[...document.images].filter(e => !e.complete || !e.naturalWidth).length"
TOO_WIDE = """[...document.querySelectorAll("img")]
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"""


def test_objects_load_and_no_name_runs_a_script(browser: Chromium, tmp_path: Path) -> None:
    model = tmp_path / f"{MARK}.circle"
    shutil.copy(MLP_SM / "model.circle", model)
    x = np.fromfile(MLP_SM / "input.bin", np.float32).reshape(-1, 784)
    y = np.fromfile(MLP_SM / "expected.bin", np.float32).reshape(-1, 10)
    names = [MARK, SCRIPT, *(f"{MARK}{k}" for k in range(8))]
    with odt.Trainer(model, metrics="accuracy") as trainer:
        history = trainer.fit(x, y, epochs=3, validation_split=0.25)
        report = odt.classification_report(trainer, x, y, classes=names)
        rates = trainer.find_rate(x, y)
    shown: list[Any] = [
        trainer.model,
        history,
        report,
        rates,
        odt.plan(model),
        odt.quantize(model, x),
    ]
    body = "<hr>".join(value._repr_html_() for value in shown)
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><title>notebook</title>{body}", encoding="utf-8")
    for width in (1200, 400):
        browser.resize(width, 1000)
        browser.open(page.as_uri())
        assert browser.run("document.images.length") == 6  # graph, curves, rates, memory
        assert browser.run(NOT_LOADED) == 0
        assert browser.run(TOO_WIDE) == 0
        assert browser.run("document.title") == "notebook"
        assert browser.run("document.scripts.length") == 0
        assert MARK in browser.run("document.body.innerText")
    assert [url for url in browser.requests if not url.startswith(("data:", "file:"))] == []
