"""`odt report --live`: the server, what it refuses, and predictions like those of `odt predict`."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import wave
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from support.hostile_runs import EVIL, hostile
from support.paths import MLP_SM

import odt
from odt.cli.main import main
from odt.live.new_samples import RunModel
from odt.runs.run import read_run

LINE = [MLP_SM / "model.circle", "--load-input", MLP_SM / "input.bin"]
LINE += ["--load-expected", MLP_SM / "expected.bin", "--validation-split", "0.25", "--seed", 1]
MARKUP = "<img src=x onerror=alert(1)>"


def run(*arguments: object) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def error(*arguments: object) -> str:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exit_code in (1, 2)
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "first"
    run("train", *LINE, "--metric", "accuracy", "--epochs", 3, "--run-dir", path)
    return path


@pytest.fixture
def live(folder: Path) -> Iterator[odt.LiveReport]:
    with odt.LiveReport(folder) as page:
        yield page


def get(url: str, **headers: str) -> tuple[int, Any, str]:
    """Status, headers and content of a page."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read().decode()


def post(page: odt.LiveReport, path: str, content: bytes, **headers: str) -> tuple[int, str]:
    """Status and answer to what the page sends."""
    place = urlsplit(page.url)
    origin = {"Origin": f"http://{place.netloc}"}
    request = urllib.request.Request(page.url + path, content, {**origin, **headers}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def outputs(html: str) -> dict[str, float]:
    """Names and values of the bars."""
    pattern = r'<th scope="row">([^<]*)</th>(?:<td><span[^>]*></span></td>)?<td>([^<]*)</td>'
    return {unescape(name): float(value) for name, value in re.findall(pattern, html)}


def predicted(*words: object) -> dict[str, float]:
    """Names and values that `odt predict` prints for one sample."""
    line = run("predict", *words).splitlines()[-1].rpartition(": ")[2]
    pairs = (text.rpartition(" ") for text in line.split(", "))
    return {name: float(value) for name, _, value in pairs}


def test_the_page_needs_nothing_of_other_hosts(live: odt.LiveReport) -> None:
    status, headers, text = get(live.url)
    assert status == 200
    links = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert sorted(links) == ["live.css", "live.js"]
    files = [get(live.url + name) for name in links]
    assert [f[0] for f in files] == [200, 200]
    for _, _, content in [(status, headers, text), *files]:
        assert not re.search(r"https?:|@import|url\(|\beval\b", content)
    policy = dict(rule.strip().split(" ", 1) for rule in
                  headers["Content-Security-Policy"].split(";"))  # fmt: skip
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert not re.search(r"<script>|\bon\w+=", text)


def test_only_the_own_page_is_answered(live: odt.LiveReport, folder: Path) -> None:
    place = urlsplit(live.url)
    root = f"http://{place.netloc}/"
    assert place.hostname == "127.0.0.1"
    token = place.path.strip("/")
    assert len(token) >= 20
    for path in ("", "x" * len(token) + "/", token, f"{token}/recipe.toml", f"{token}/../",
                 f"{token}/../../etc/passwd", f"{token}//", f"{token}/predict",
                 f"{token}/%2e%2e/run.json", "?", f"{token}/state/.."):  # fmt: skip
        status, _, text = get(root + path)
        assert (status, text) == (404, "There is no such page."), path
    far = f"127.0.0.1.example.org:{place.port}"
    for host in (far, "example.org", "127.0.0.1", f"localhost:1{place.port}", ""):
        assert get(live.url, Host=host)[0] == 403, host
    assert get(live.url, Host=f"localhost:{place.port}")[0] == 200
    with odt.LiveReport(folder) as other:
        assert urlsplit(other.url).path != place.path


def test_only_the_own_page_may_send(live: odt.LiveReport) -> None:
    content = b"x"
    assert post(live, "predict?name=a.txt", content)[0] == 422  # refused by odt, not by the guard
    for origin in ("http://example.org", "null", "", "http://127.0.0.1", "https://localhost"):
        assert post(live, "predict?name=a.txt", content, Origin=origin)[0] == 403, origin
    assert post(live, "predict", content, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert post(live, "state", content)[0] == 404
    place = urlsplit(live.url)

    def status(method: str, headers: dict[str, str], body: bytes = b"") -> int:
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
        connection.putrequest(method, place.path + "predict", skip_accept_encoding=True)
        for name, value in {"Origin": f"http://{place.netloc}", **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        assert len(answer.read()) < 200
        connection.close()
        return answer.status

    assert status("POST", {}) == 411
    assert status("POST", {"Content-Length": "-1"}) == 411
    assert status("POST", {"Content-Length": str((1 << 25) + 1)}) == 413
    assert status("POST", {"Content-Length": "9" * 5000}) == 413
    assert status("POST", {"Content-Length": "1", "Transfer-Encoding": "chunked"}, b"x") == 411
    assert status("PUT", {}) == 501
    assert get(live.url)[0] == 200  # it still answers


def test_the_curve_grows_with_the_log(folder: Path, tmp_path: Path) -> None:
    """A run that trains appends rows; a question without news has no answer."""
    growing = tmp_path / "growing"
    growing.mkdir()
    for path in folder.iterdir():
        if path.name != "model.circle":
            (growing / path.name).write_bytes(path.read_bytes())
    record = json.loads((growing / "run.json").read_text())
    (growing / "run.json").write_text(json.dumps({**record, "state": "unfinished"}))
    rows = (growing / "log.jsonl").read_text().splitlines(keepends=True)
    (growing / "log.jsonl").write_text("")
    with odt.LiveReport(growing) as page:
        version, seen = "", []
        for row in rows:
            with (growing / "log.jsonl").open("a") as log:
                log.write(row)
            status, _, text = get(f"{page.url}state?since={version}")
            assert status == 200
            state = json.loads(text)
            version = state["version"]
            assert get(f"{page.url}state?since={version}")[0] == 204
            line = re.search(r'data-name="val_loss" points="([^"]*)"', state["parts"]["curves-0"])
            assert line is not None
            seen.append(len(line[1].split()))
            assert state["ended"] == [False]
        assert seen == [1, 2, 3, 4]
        assert state["parts"]["state-0"] == "Training: 3 of 3 epochs are complete."
        (growing / "run.json").write_text("{")
        damaged = json.loads(get(f"{page.url}state")[2])["parts"]["state-0"]
        assert "must be the record of a run" in damaged


def test_runs_are_compared(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "first"  # of the same name in another folder
    run("train", *LINE, "--learning-rate", 0.01, "--epochs", 2, "--run-dir", other)
    with odt.LiveReport([folder, other]) as page:
        assert "<title>2 runs</title>" in get(page.url)[2]
        parts = json.loads(get(f"{page.url}state")[2])["parts"]
        text = parts["comparison"]
        names = [f"{path.parent.name}/first" for path in (folder, other)]
        for name in names:
            assert f'data-name="{name}"' in text
            assert f"<td>{name}</td>" in text
        assert '<th scope="col">learning-rate</th>' in text
        assert "<td>0.01</td>" in text
        assert str(tmp_path) not in text
        assert "curves-1" in parts
        assert "of 24 right" in get(f"{page.url}samples?run=1")[2]
        assert get(f"{page.url}samples?run=2")[0] == 422


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two classes of photos, one with markup in its name, and the photos."""
    path = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(1)
    for name, dark in (("night", 40), (f"day {MARKUP}", 200)):
        (path / "photos" / name).mkdir(parents=True)
        for k in range(8):
            pixels = rng.normal(dark, 30, (20, 24, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(path / "photos" / name / f"{k}.png")
    learned(path, path / "photos", "--size", "8x10", "--scale", "0..1")
    return path


def learned(path: Path, source: Path, *words: object, loss: Sequence[str] = ()) -> None:
    run("gen-datafile", "--source", source, *words, "--out-dir", path / "data",
        "--split", "train")  # fmt: skip
    data = path / "data" / "train.input.bin"
    run("new", "mlp", "--like", data, "--hidden", 8, "-o", path / "new.circle", "--seed", 1)
    files = ["--load-input", data, "--load-expected", path / "data" / "train.output.bin"]
    run("train", path / "new.circle", *files, *loss, "--epochs", 2, "--run-dir", path / "run")


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_dropped_photo_gets_the_class_that_predict_prints(
    photos: Path, tmp_path: Path, is_complete: bool
) -> None:
    """Also with the weights of the best epoch, while the run trains."""
    folder = photos / "run"
    if not is_complete:
        folder = tmp_path / "run"
        folder.mkdir()
        for path in (photos / "run").iterdir():
            if path.name != "model.circle":
                (folder / path.name).write_bytes(path.read_bytes())
    photo = photos / "photos" / "night" / "3.png"
    name = f"3 {MARKUP}.png"
    with odt.LiveReport(folder) as page:
        status, text = post(page, f"predict?name={quote(name)}", photo.read_bytes())
        broken = post(page, "predict?name=a.png", b"no picture")
    assert status == 200, text
    values = predicted(photos / "run" / "model.circle", "--source", photo)
    assert outputs(text) == values
    assert {*values} == {"night", f"day {MARKUP}"}
    assert MARKUP not in text
    assert "night" in text
    assert text.count("data:image/png;base64,") == 1
    assert ("best.odt" in text) is not is_complete
    assert broken[0] == 422
    assert broken[1].startswith("a.png")
    assert "/tmp" not in broken[1]


def test_a_model_that_trains_has_the_classes_of_its_new_data(photos: Path, tmp_path: Path) -> None:
    """Not those that the model had before."""
    data = tmp_path / "data" / "train"
    for new, name in (("moon", "night"), ("sun", f"day {MARKUP}")):
        (tmp_path / "new" / new).mkdir(parents=True)
        for path in (photos / "photos" / name).iterdir():
            (tmp_path / "new" / new / path.name).write_bytes(path.read_bytes())
    words = ("--size", "8x10", "--scale", "0..1", "--split", "train")
    run("gen-datafile", "--source", tmp_path / "new", *words, "--out-dir", data.parent)
    files = ["--load-input", f"{data}.input.bin", "--load-expected", f"{data}.output.bin"]
    before = photos / "run" / "model.circle"
    run("train", before, *files, "--epochs", 1, "--run-dir", tmp_path / "run")
    photo = tmp_path / "new" / "sun" / "2.png"
    values = predicted(tmp_path / "run" / "model.circle", "--source", photo)
    (tmp_path / "run" / "model.circle").unlink()
    with odt.LiveReport(tmp_path / "run") as page:
        _, text = post(page, "predict?name=2.png", photo.read_bytes())
    assert outputs(text) == values
    assert {*values} == {"moon", "sun"}


def test_the_input_of_the_model_is_shown(photos: Path) -> None:
    """The picture is the photo after preprocessing: Pillow's resized photo, stretched to white."""
    import base64
    import io

    photo = photos / "photos" / "night" / "5.png"
    with odt.LiveReport(photos / "run") as page:
        _, text = post(page, "predict?name=5.png", photo.read_bytes())
    code = re.search(r'base64,([^"]*)"', text)
    assert code is not None
    with Image.open(io.BytesIO(base64.b64decode(code[1]))) as image:
        shown = np.asarray(image).astype(float)
    with Image.open(photo) as image:
        resized = np.asarray(image.resize((10, 8), Image.Resampling.BILINEAR)).astype(float)
    assert shown.shape == (8, 10, 3)
    resized = (resized - resized.min()) / (resized.max() - resized.min()) * 255
    assert np.abs(shown - resized).max() <= 6
    assert "8 × 10 × 3" in text


def test_a_dropped_sound_is_predicted(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name, pitch in (("low", 200), ("high", 1500)):
        (tmp_path / "sounds" / name).mkdir(parents=True)
        for k in range(4):
            wave_of = np.sin(np.arange(4000) * pitch * 2 * np.pi / 4000) + rng.normal(0, 0.1, 4000)
            with wave.open(str(tmp_path / "sounds" / name / f"{k}.wav"), "wb") as file:
                file.setparams((1, 2, 4000, 0, "NONE", ""))
                file.writeframes((wave_of * 8000).astype("<i2").tobytes())
    learned(tmp_path, tmp_path / "sounds", "--mel", 8, "--rate", 4000)
    sound = tmp_path / "sounds" / "low" / "2.wav"
    with odt.LiveReport(tmp_path / "run") as page:
        assert "Drop a sound here" in get(page.url)[2]
        status, text = post(page, "predict?name=2.wav", sound.read_bytes())
    assert status == 200, text
    assert outputs(text) == predicted(tmp_path / "run" / "model.circle", "--source", sound)
    assert "data:image/png" in text


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that predicts two numbers from a table with words."""
    path = tmp_path_factory.mktemp("prices")
    rng = np.random.default_rng(2)
    lines = [f"size,place {MARKUP},price,days"]
    for _ in range(40):
        size, city = rng.uniform(1, 3), rng.choice(["town", "village"])
        lines.append(f"{size:.3f},{city},{size * 2 + (city == 'town'):.3f},{5 - size:.3f}")
    (path / "table.csv").write_text("\n".join(lines) + "\n")
    table = ["--label-column", "price,days", "--one-hot", f"place {MARKUP}", "--regression"]
    loss = ("--loss", "mse")
    learned(path, path / "table.csv", *table, "--scale", "standardize", loss=loss)
    return path


def test_a_row_is_predicted(prices: Path, tmp_path: Path) -> None:
    """Typed, or a file with one row, or with several."""
    place = f"place {MARKUP}"
    row = {"size": "1.5", place: "village"}
    (tmp_path / "one.csv").write_text(f"size,{place}\n1.5,village\n")
    model = prices / "run" / "model.circle"
    values = predicted(model, "--source", tmp_path / "one.csv")
    with odt.LiveReport(prices / "run") as page:
        form = get(page.url)[2]
        status, typed = post(page, "row", json.dumps(row).encode())
        _, dropped = post(page, "predict?name=one.csv", (tmp_path / "one.csv").read_bytes())
        _, several = post(page, "predict?name=t.csv", (prices / "table.csv").read_bytes())
        refusals = [
            post(page, "row", content)
            for content in (b"[]", b"{", b'{"size": 1}', b'{"size": "1"}', b"\xff", b"[" * 100_000)
        ]
        words = post(page, "row", json.dumps({**row, place: "sea"}).encode())
    assert MARKUP not in form + typed + dropped + several
    assert unescape(form).count(f'name="{place}"') == 1
    assert "<option>village</option>" in form
    assert status == 200, typed
    for text in (typed, dropped):
        assert outputs(text) == pytest.approx(values, abs=1e-4)
        assert [*outputs(text)] == ["price", "days"]
    cells = re.findall(r"<tr><td>size</td><td>([^<]*)</td><td>([^<]*)</td></tr>", typed)
    given = np.loadtxt(prices / "table.csv", delimiter=",", skiprows=1, usecols=0)
    assert float(cells[0][0]) == 1.5
    assert float(cells[0][1]) == pytest.approx((1.5 - given.mean()) / given.std(), rel=1e-4)
    assert several.count("<tr>") == 1 + 20
    assert "The first 20 of 40 samples are shown." in several
    assert [status for status, _ in refusals] == [422] * 6
    assert all(text.startswith("row: must ") for _, text in refusals)
    assert "sea" in words[1]


def test_a_row_has_the_columns_of_the_trained_model(prices: Path, tmp_path: Path) -> None:
    """Not those of other data that have taken the place of the training data since."""
    table = (prices / "table.csv").read_text()
    (tmp_path / "table.csv").write_text(table)
    learned(tmp_path, tmp_path / "table.csv", "--label-column", "price,days", "--one-hot",
            f"place {MARKUP}", "--regression", loss=("--loss", "mse"))  # fmt: skip
    sidecar = tmp_path / "data" / "train.input.bin.json"
    sidecar.write_text(sidecar.read_text().replace('"size"', '"width"'))
    row = {"size": "1.5", f"place {MARKUP}": "village"}
    with odt.LiveReport(tmp_path / "run") as page:
        assert '<input name="size"' in get(page.url)[2]
        status, text = post(page, "row", json.dumps(row).encode())
    assert status == 200, text


def test_a_model_that_is_written_while_another_is_loaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([""])
    last = str(folder / "model.circle")
    monkeypatch.setattr("odt.live.new_samples.model_of", lambda run: next(answers, last))
    with RunModel() as model:
        used = [
            model.predict(read_run(folder), MLP_SM / "input.bin", "input.bin").model
            for _ in range(2)
        ]
    assert used == ["weights of best.odt, the best epoch so far", "model.circle"]


def test_a_run_before_its_first_epoch_has_a_page(prices: Path, tmp_path: Path) -> None:
    for name in ("recipe.toml", "run.json", "memory.json"):
        (tmp_path / name).write_bytes((prices / "run" / name).read_bytes())
    row = json.dumps({"size": "1.5", f"place {MARKUP}": "village"})
    with odt.LiveReport(tmp_path) as page:
        assert '<input name="size"' in get(page.url)[2]
        parts = json.loads(get(f"{page.url}state")[2])["parts"]
        status, text = post(page, "row", row.encode())
    assert "No epoch is complete." in parts["curves-0"]
    assert status == 422
    assert "must have completed an epoch to predict, but has not." in text


def test_files_of_arrays_are_predicted_without_a_record(live: odt.LiveReport, folder: Path) -> None:
    data = np.fromfile(MLP_SM / "input.bin", "<f4").reshape(96, -1)
    status, text = post(live, "predict?name=input.bin", data[:1].tobytes())
    assert status == 200, text
    with (folder / "model.circle").open("rb") as file:
        assert file.read(8)[4:] == b"CIR0"
    y = odt.predict(folder / "model.circle", data[:1])[0]
    values = outputs(text)
    assert [*values] == [f"output {k}" for k in np.argsort(-y, kind="stable")]
    assert [*values.values()] == pytest.approx(np.sort(y)[::-1].tolist(), rel=1e-4)


def test_markup_in_a_run_folder_stays_text(folder: Path, tmp_path: Path) -> None:
    bad = hostile(folder, tmp_path / "bad")
    with odt.LiveReport([bad, folder]) as page:
        texts = [get(page.url)[2], *json.loads(get(f"{page.url}state")[2])["parts"].values()]
    written = EVIL.encode(errors="replace").decode()
    for text in texts:
        assert "<script>document" not in text
        assert "<img src=x" not in text
        assert written not in text
    assert sum(text.count("marker") for text in texts) > 15


def test_the_command_prints_the_address_and_ends_with_ctrl_c(folder: Path) -> None:
    words = [sys.executable, "-m", "odt", "report", "--live", str(folder)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert get(url)[0] == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert err.splitlines() == ["Ctrl-C ends the page.", "Stopped."]
    with pytest.raises(urllib.error.URLError):
        get(url)


def test_a_report_is_opened_in_the_browser(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = []

    def browser(address: str) -> bool:
        addresses.append(address)
        return len(addresses) == 1

    monkeypatch.setattr("webbrowser.open", browser)
    path = tmp_path / "a page.html"
    done = CliRunner().invoke(main, ["report", str(folder), "-o", str(path), "--open"])
    assert (done.exit_code, done.stderr) == (0, "")
    done = CliRunner().invoke(main, ["report", str(folder), "-o", str(path), "--open"])
    assert done.stderr == f"--open: no browser was found. Open {path.as_uri()} yourself.\n"
    assert addresses == [path.as_uri()] * 2
    assert "%20" in path.as_uri()


def test_the_end_of_the_page_ends_an_evaluation(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def slow(run: odt.Run, data: None, most: int, progress: Any) -> list[str]:
        begun.set()
        while True:
            progress(1, 2)

    monkeypatch.setattr("odt.live.live.sample_sections", slow)
    with odt.LiveReport(folder) as page:
        waiting = threading.Thread(target=lambda: get(page.url + "samples"), daemon=True)
        waiting.start()
        assert begun.wait(30)
        started = time.monotonic()
    assert time.monotonic() - started < 10
    waiting.join(30)


def test_wrong_calls_are_one_line(live: odt.LiveReport, folder: Path, tmp_path: Path) -> None:
    port = urlsplit(live.url).port
    taken = error("report", "--live", folder, "--port", port)
    assert f"--port: must be a port that can be used, but got {port}: " in taken
    assert "RUN: must be the folder of a run" in error("report", "--live")
    assert "must be the folder of a run" in error("report", "--live", tmp_path)
    assert "--port: must come with --live" in error("report", folder, "--port", 8000)
    assert "--open: must be given without --list" in error("report", "--list", folder, "--open")
    assert "--live: must be given without --list" in error("report", folder, "--live", "--list")
    assert "--wrong: must be given without --live" in error(
        "report", folder, "--live", "--wrong", 3
    )
    with pytest.raises(odt.OptionError, match="must be 1 to 8 folders"):
        odt.LiveReport([])
