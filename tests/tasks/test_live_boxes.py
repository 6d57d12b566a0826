"""The live page of a run draws the boxes that a detector finds in a dropped file."""

import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from support.blaze import ANCHORS, small_blaze
from support.datafiles import odt as run
from support.detectors import small_detector
from support.square_photos import CLASSES, photos, saved

from odt.live.new_samples import RunModel
from odt.live.result_page import results
from odt.runs.run import read_run

pytestmark = pytest.mark.filterwarnings("ignore:.*training leaves out node")


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize("is_complete", [True, False])
def test_dropped_photos_have_the_boxes_that_predict_prints(
    tmp_path: Path, stated: bool, is_complete: bool
) -> None:
    """Also with the weights of the best epoch, and for anchors that only the recipe states.

    The report of the run is complete, too.
    """
    model, folder = tmp_path / "m.tflite", tmp_path / "run"
    model.write_bytes(small_blaze(len(CLASSES)) if stated else small_detector(len(CLASSES), seed=1))
    x, y = saved(tmp_path, "train", photos(8, 3))
    words = ["--load-input", x, "--load-expected", y, "--learning-rate", 1e-5]
    words += ["--validation-split", 0.25]
    if stated:
        words += ["--anchors", ANCHORS]
    result = run("train", model, *words, "--epochs", 1, "--run-dir", folder)
    assert result.exit_code == 0, result.output
    photo = tmp_path / "photo.npy"
    np.save(photo, photos(1, 4)[0])
    trained = folder / "model.tflite"
    line = run("predict", trained, "--load-input", photo).stdout.splitlines()[-1]
    expected = re.findall(r"(\w+) (\d\.\d+) \(", line)
    assert expected, line
    if not is_complete:
        trained.unlink()
    loaded = RunModel()
    html = results(loaded.predict(read_run(folder), photo, "photo.npy"))
    loaded.close()
    rows = re.findall(r"<td>([^<]*)</td><td>(\d[^<]*)</td>", html)
    assert [(unescape(name), score) for name, score in rows] == expected
    assert html.count('<rect class="detected"') == len(expected)
    assert ("best.odt" in html) is not is_complete
    report = run("report", folder, "-o", tmp_path / "report.html")
    assert report.exit_code == 0, report.output
    assert "Samples with the most missed and false boxes" in (tmp_path / "report.html").read_text()
