"""The folder of a run: --run-dir, --log, --tensorboard, and continuing a run."""

import csv
import hashlib
import json
import re
import signal
import struct
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM
from support.processes import start, wait_for

import odt
from odt.cli.main import main
from odt.cli.runs.events import crc32c
from odt.core.checkpoints.resume import read_resume
from odt.core.storage.atomic_files import UNFINISHED
from odt.kernels.registry import LOSSES

MODEL, X, T = (MLP_SM / name for name in ("model.circle", "input.bin", "expected.bin"))
LINE = [str(MODEL), "--load-input", str(X), "--load-expected", str(T)]
LINE += ["--validation-split", "0.25", "--metric", "accuracy", "--seed", "3"]
FILES = {"recipe.toml", "run.json", "log.csv", "log.jsonl", "last.odt", "best.odt", "memory.json"}
FILES |= {"curves.svg", "model.circle"}


def train(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["train", *map(str, arguments)])


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_run_writes_all_that_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = train(*LINE, "--epochs", 3, "--run-dir", folder)
    assert done.exit_code == 0, done.output
    assert {p.name for p in folder.iterdir()} == FILES
    recipe = tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8"))
    assert recipe["model"] == str(MODEL)
    assert recipe["epochs"] == 3
    record = json.loads((folder / "run.json").read_text())
    assert record["state"] == "finished"
    assert record["odt"]
    assert record["numpy"]
    assert "kernels" in record["kernels"]
    for name, path in (("model", MODEL), ("load-input", X), ("load-expected", T)):
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        assert record["files"][name] == {
            "path": str(path), "bytes": path.stat().st_size, "sha256": sha256
        }  # fmt: skip


def test_the_log_has_the_figures_of_the_epoch_lines(tmp_path: Path) -> None:
    done = train(*LINE, "--epochs", 3, "--schedule", "cosine", "--run-dir", tmp_path / "run")
    rows = rows_of(tmp_path / "run")
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert [row["step"] for row in rows] == [0, 3, 6, 9]
    for row in rows:
        line = next(line for line in done.stdout.splitlines() if f"Epoch {row['epoch']}/" in line)
        for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
            assert f" {name}: [0] {row[name]:.4f}" in line
        ms = float(line.partition("time: ")[2].partition("ms")[0])
        assert row["seconds"] * 1000 / 3 == pytest.approx(ms, abs=1e-3)
    rates = [row["learning_rate"] for row in rows[1:]]
    assert rates[0] == 0.001
    assert rates == sorted(rates, reverse=True)
    with (tmp_path / "run" / "log.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [{k: float(v) for k, v in line.items()} for line in table] == rows


def test_the_time_of_a_run_is_that_of_all_its_starts(tmp_path: Path) -> None:
    """With validation and the results before training; of the steps if it was killed."""
    folder = tmp_path / "run"
    begun = time.monotonic()
    assert train(*LINE, "--epochs", 2, "--run-dir", folder).exit_code == 0
    assert train("--run-dir", folder, "--epochs", 3).exit_code == 0
    taken = time.monotonic() - begun
    steps = sum(row["seconds"] for row in rows_of(folder)[1:])
    assert steps < odt.read_run(folder).seconds < taken
    record = json.loads((folder / "run.json").read_text())
    del record["starts"][1]["seconds"]
    (folder / "run.json").write_text(json.dumps(record))
    assert odt.read_run(folder).seconds == pytest.approx(steps)


def test_the_last_checkpoint_is_the_last_epoch_and_the_best_the_best(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ["--epochs", 4, "--learning-rate", 0.1, "--monitor", "val_accuracy", "--patience", 9]
    assert train(*LINE, *options, "--run-dir", folder).exit_code == 0
    values = [row["val_accuracy"] for row in rows_of(folder)][1:]
    best = values.index(max(values)) + 1
    assert read_resume(folder / "last.odt").progress.step == 12
    assert read_resume(folder / "best.odt").progress.step == 3 * best


def test_a_continued_run_has_the_same_bits_and_rows(tmp_path: Path) -> None:
    """Only the times differ."""
    through, parts = tmp_path / "through", tmp_path / "parts"
    assert train(*LINE, "--epochs", 4, "--run-dir", through).exit_code == 0
    assert train(*LINE, "--epochs", 2, "--run-dir", parts).exit_code == 0
    assert train("--run-dir", parts, "--epochs", 4).exit_code == 0
    for name in ("model.circle", "last.odt"):
        assert (parts / name).read_bytes() == (through / name).read_bytes()
    untimed = [[{**row, "seconds": 0} for row in rows_of(folder)] for folder in (through, parts)]
    assert untimed[0] == untimed[1]
    recipes = [(folder / "recipe.toml").read_text() for folder in (through, parts)]
    assert recipes[0] == recipes[1]
    assert [s["epoch"] for s in json.loads((parts / "run.json").read_text())["starts"]] == [1, 3]


def test_a_killed_run_can_be_read_and_continued(tmp_path: Path) -> None:
    through, killed = tmp_path / "through", tmp_path / "killed"
    assert train(*LINE, "--epochs", 6, "--run-dir", through).exit_code == 0
    command = [sys.executable, "-m", "odt", "train", *LINE, "--epochs", "6"]
    with start(*command, "--run-dir", str(killed)) as process:
        wait_for(process, "Epoch 2/")
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    shown = CliRunner().invoke(main, ["report", "--list", str(killed)])
    assert shown.exit_code == 0, shown.output
    assert "unfinished" in shown.stdout
    assert train("--run-dir", killed).exit_code == 0
    assert (killed / "model.circle").read_bytes() == (through / "model.circle").read_bytes()
    untimed = [[{**row, "seconds": 0} for row in rows_of(folder)] for folder in (through, killed)]
    assert untimed[0] == untimed[1]
    assert not [p.name for p in killed.iterdir() if p.name.startswith(UNFINISHED)]


def test_a_run_stopped_by_ctrl_c_continues_where_it_was(tmp_path: Path) -> None:
    """Within an epoch, with the same bits, and says how.

    The run has enough epochs not to end before the signal arrives, even on a slow machine.
    """
    through, stopped = tmp_path / "through", tmp_path / "stopped"
    line = [*LINE, "--batch-size", "2", "--epochs", "40", "--keep-best"]
    assert train(*line, "--run-dir", through).exit_code == 0
    with start(sys.executable, "-m", "odt", "train", *line, "--run-dir", str(stopped)) as process:
        wait_for(process, "Epoch 2/")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert f"odt train --run-dir {stopped} continues the run." in errors
    assert json.loads((stopped / "run.json").read_text())["state"] == "stopped"
    assert train("--run-dir", stopped).exit_code == 0
    for name in ("last.odt", "model.circle"):
        assert (stopped / name).read_bytes() == (through / name).read_bytes()
    assert [row["epoch"] for row in rows_of(stopped)] == list(range(41))


def test_a_run_in_use_is_neither_resumed_nor_overwritten(tmp_path: Path) -> None:
    """A killed owner blocks nobody; the run that was refused has changed nothing."""
    folder, rows = tmp_path / "run", [*LINE, "--batch-size", "2", "--epochs", "400"]
    used = f"--run-dir {folder}: .* is in use by process"
    with start(sys.executable, "-m", "odt", "train", *rows, "--run-dir", str(folder)) as process:
        wait_for(process, "Epoch 1/")
        for words in ((), LINE):
            refused = train(*words, "--run-dir", folder)
            assert refused.exit_code == 1
            assert re.search(f"{used} {process.pid}", refused.stderr)
        process.kill()
    assert rows_of(folder)[0]["epoch"] == 0
    assert train("--run-dir", folder, "--epochs", 1).exit_code == 0
    assert not [p.name for p in folder.iterdir() if p.name.startswith(UNFINISHED)]


def test_two_runs_never_write_one_file(tmp_path: Path) -> None:
    checkpoint, model = tmp_path / "state.odt", tmp_path / "m.circle"
    rows = [*LINE, "--batch-size", "2", "--epochs", "400", "--export-circle", str(model)]
    rows += ["--export-checkpoint", str(checkpoint)]
    with start(sys.executable, "-m", "odt", "train", *rows) as process:
        wait_for(process, "Epoch 1/")
        for option, path in (("--export-checkpoint", checkpoint), ("--export-circle", model)):
            refused = train(*LINE, option, path)
            assert refused.exit_code == 1
            assert f"is in use by process {process.pid}" in refused.stderr
        process.kill()
    assert train(*LINE, "--epochs", 1, "--export-circle", model).exit_code == 0
    assert train(*LINE, "--epochs", 1, "--export-checkpoint", checkpoint).exit_code == 0
    assert {p.name for p in tmp_path.iterdir()} == {"state.odt", "m.circle"}


def test_a_second_header_in_a_log_is_left_out(tmp_path: Path) -> None:
    """Two runs at once wrote such logs before run folders were locked."""
    folder = tmp_path / "run"
    assert train(*LINE, "--epochs", 2, "--run-dir", folder).exit_code == 0
    head, *rows = (folder / "log.csv").read_text().splitlines()
    (folder / "log.csv").write_text("\n".join([head, rows[0], head, *rows[1:]]) + "\n")
    assert train("--run-dir", folder, "--epochs", 3).exit_code == 0
    with open(folder / "log.csv", newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1", "2", "3"]


def test_a_torn_line_at_the_end_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert train(*LINE, "--epochs", 2, "--run-dir", folder).exit_code == 0
    for name in ("log.jsonl", "log.csv"):
        with (folder / name).open("a") as file:
            file.write('{"epoch": 3, "lo' if name == "log.jsonl" else "3,9,0.")
    assert train("--run-dir", folder, "--epochs", 3).exit_code == 0
    assert [row["epoch"] for row in rows_of(folder)] == [0, 1, 2, 3]
    assert (folder / "log.csv").read_text().count("\n") == 5


def test_data_that_changed_since_is_warned_of(tmp_path: Path) -> None:
    x = tmp_path / "x.bin"
    x.write_bytes(X.read_bytes())
    line = [str(x) if word == str(X) else word for word in LINE]
    assert train(*line, "--epochs", 1, "--run-dir", tmp_path / "run").exit_code == 0
    x.write_bytes(bytes(4) + X.read_bytes()[4:])
    done = train("--run-dir", tmp_path / "run", "--epochs", 2)
    warning = f"Warning: {x} has changed since the last start of the run."
    assert warning in done.stderr
    for epochs in (3, 4):  # a warning is kept, once
        assert train("--run-dir", tmp_path / "run", "--epochs", epochs).exit_code == 0
        assert (tmp_path / "run" / "warnings.txt").read_text().count("has changed since") == 1
    x.write_bytes(X.read_bytes())
    assert warning in train("--run-dir", tmp_path / "run", "--epochs", 5).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--export-checkpoint", "c.odt"], "--export-checkpoint: must be given without --run-dir"),
        ([], "must be a new folder, but it has a run. Resume that run with odt train --run-dir"),
        (["--epoch", "1"], "must be given with odt's own option names"),
    ],
)
def test_wrong_uses_are_one_line(options: list[str], message: str, tmp_path: Path) -> None:
    assert train(*LINE, "--epochs", 1, "--run-dir", tmp_path / "run").exit_code == 0
    folder = tmp_path / ("run" if not options else "new")
    done = train(*LINE, *options, "--run-dir", folder)
    assert done.exit_code in (1, 255)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_resumed_run_writes_outside_of_its_folder_only_what_is_given(tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / "out.circle"
    words = ["--epochs", 1, "--run-dir", folder, "--export-circle", out]
    assert train(*LINE, *words).exit_code == 0
    before = out.read_bytes()
    out.write_bytes(b"mine")
    done = train("--run-dir", folder, "--epochs", 2)
    assert done.exit_code == 0, done.output
    (line,) = (x for x in done.stderr.splitlines() if x.startswith("Warning: --export-circle"))
    assert "out.circle before. It is written only if it is given again." in line
    assert out.read_bytes() == b"mine"
    done = train("--run-dir", folder, "--epochs", 3, "--export-circle", out)
    assert done.exit_code == 0, done.output
    assert "Warning: --export-circle" not in done.stderr
    assert len(out.read_bytes()) == len(before)
    assert json.loads((folder / "run.json").read_text())["outputs"] == {"--export-circle": str(out)}


def test_a_received_run_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from its recipe nor from its checkpoint; the user's own loss must be given again."""
    monkeypatch.chdir(tmp_path)
    source = "class mse:\n    value = staticmethod(lambda t, y: ((y - t) ** 2).mean(-1))\n"
    source += "    gradient = staticmethod(lambda t, y: 2 * (y - t) / y.shape[1])\n"
    Path("marker_losses.py").write_text(source + "open('MARKER', 'a').write('imported')\n")
    words = ["--loss", "marker_losses:mse", "--run-dir", "run"]
    assert train(*LINE, "--epochs", 1, *words).exit_code == 0
    for forget in (lambda: sys.modules.pop("marker_losses"), LOSSES._added.clear):
        forget()
    Path("MARKER").unlink()
    done = train("--run-dir", "run", "--epochs", 2)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "recipe.toml: loss: marker_losses:mse is a custom loss" in done.stderr
    recipe = Path("run/recipe.toml")
    text = recipe.read_text()
    recipe.write_text(text.replace('loss = "marker_losses:mse"\n', ""))
    assert 'loss = "' not in recipe.read_text()
    for command in (["train", "--run-dir", "run", "--epochs", "2"], ["report", "run"]):
        done = CliRunner().invoke(main, command)  # now the checkpoint names it
        assert done.exit_code == (command[0] == "train"), done.output
    assert "a custom loss are not shown" in Path("run/report.html").read_text()
    assert not Path("MARKER").exists()
    recipe.write_text(text)
    assert train("--run-dir", "run", "--epochs", 2, "--loss", "marker_losses:mse").exit_code == 0


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = train(*LINE, "--run-dir", tmp_path)
    assert done.exit_code == 1
    assert "must be a new or empty folder, but it has notes.txt." in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_run_that_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    assert train(tmp_path / "none.circle", *LINE[1:], "--run-dir", tmp_path / "run").exit_code == 1
    assert not (tmp_path / "run").exists()
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        done = train(*LINE, "--run-dir", path)
        assert done.exit_code == 1
        assert f"--run-dir {path}: must be a folder" in done.stderr


def test_a_log_of_its_own_is_csv_or_json_lines(tmp_path: Path) -> None:
    for name in ("log.csv", "log.jsonl"):
        assert train(*LINE, "--epochs", 1, "--log", tmp_path / name).exit_code == 0
    assert (tmp_path / "log.csv").read_text().startswith("epoch,step,loss,accuracy,val_loss,")
    assert [row["epoch"] for row in rows_of(tmp_path)] == [0, 1]
    done = train(*LINE, "--epochs", 1, "--log", tmp_path / "log.txt")
    assert done.exit_code == 1
    assert "a log must end in .csv or .jsonl, but got .txt." in done.stderr
    assert "Epoch" not in done.stdout


def message_fields(data: bytes) -> list[tuple[int, Any]]:
    """Fields of a protocol buffer: number and value."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            found.append((key >> 3, varint()))
            continue
        size = varint() if size is None else size
        content, at = data[at : at + size], at + size
        form = {1: "<d", 5: "<f"}.get(key & 7)
        found.append((key >> 3, struct.unpack(form, content)[0] if form else content))
    return found


def test_tensorboard_reads_the_log(tmp_path: Path) -> None:
    """Read back by the formats' definitions: TFRecord, and the protocol buffer Event."""
    folder = tmp_path / "run"
    assert train(*LINE, "--epochs", 2, "--run-dir", folder, "--tensorboard").exit_code == 0
    (path,) = folder.glob("events.out.tfevents.*")
    data, events = path.read_bytes(), []
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        message = data[12 : 12 + size]
        for part, crc in ((data[:8], data[8:12]), (message, data[12 + size : 16 + size])):
            rotated = (struct.unpack("<I", crc)[0] - 0xA282EAD8) & 0xFFFFFFFF
            assert (rotated << 15 | rotated >> 17) & 0xFFFFFFFF == crc32c(part)
        events.append(dict(message_fields(message)))
        data = data[16 + size :]
    assert events[0][3] == b"brain.Event:2"
    for event, row in zip(events[1:], rows_of(folder), strict=True):
        values = [dict(message_fields(value)) for _, value in message_fields(event[5])]
        assert event[2] == row.pop("epoch")
        assert {v[1].decode(): v[2] for v in values} == pytest.approx(row, rel=1e-6)


def test_checksums_are_those_of_rfc_3720() -> None:
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
