"""`odt report --list`: a table and one chart of several runs."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.charts import values_of
from support.paths import MLP_SM

from odt.charts.chart import Chart, svg
from odt.cli.main import main
from odt.runs.run import read_run

LINE = [str(MLP_SM / "model.circle"), "--load-input", str(MLP_SM / "input.bin")]
LINE += ["--load-expected", str(MLP_SM / "expected.bin"), "--epochs", "3", "--seed", "1"]
LINE += ["--validation-split", "0.25", "--metric", "accuracy"]


def odt(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of different learning rates."""
    path = tmp_path_factory.mktemp("runs")
    for rate in ("0.001", "0.01"):
        done = odt("train", *LINE, "--learning-rate", rate, "--run-dir", path / f"r{rate}")
        assert done.exit_code == 0, done.output
    return path


def test_the_table_has_the_best_epoch_and_what_differs(folder: Path) -> None:
    head, *lines = odt("report", "--list", folder).stdout.splitlines()
    names = ["RUN", "STATE", "EPOCHS", "BEST", "AT", "TIME", "METRIC"]
    assert head.split() == [*names, "learning-rate"]
    for line, rate in zip(lines, ("0.001", "0.01"), strict=True):
        run = read_run(folder / f"r{rate}")
        cells = line.split()
        values = [row["val_loss"] for row in run.rows[1:]]
        assert cells[0] == str(run.path)
        assert cells[1:3] == ["finished", "3"]
        assert cells[3] == f"{min(values):.4f}"
        assert int(cells[4]) == values.index(min(values)) + 1
        assert cells[6:] == ["val_loss", rate]


def test_another_metric_may_be_compared(folder: Path) -> None:
    shown = (
        odt("report", "--list", folder / "r0.01", "--metric", "val_accuracy")
        .stdout.splitlines()[1]
        .split()
    )
    values = [row["val_accuracy"] for row in read_run(folder / "r0.01").rows[1:]]
    assert shown[3] == f"{max(values):.4f}"
    for word in ("val_categorical_accuracy", "val_acc", "val-categorical-accuracy"):
        again = odt(
            "report", "--list", folder / "r0.01", "--metric", word
        ).stdout  # as epoch lines name it
        assert again.splitlines()[1].split() == shown
    wrong = odt("report", "--list", folder, "--metric", "f1")
    assert wrong.exit_code == 1
    assert "--metric: must be one of accuracy, learning_rate, loss, " in wrong.stderr


def test_the_chart_has_the_values_of_all_runs(folder: Path, tmp_path: Path) -> None:
    """Read back from the picture by its axes."""
    svg_path, png = tmp_path / "runs.svg", tmp_path / "runs.png"
    done = odt("report", "--list", folder, "--metric", "loss", "--svg", svg_path, "--png", png)
    assert done.exit_code == 0, done.output
    assert png.read_bytes().startswith(b"\x89PNG")
    lines = values_of(svg_path.read_text(encoding="utf-8"))
    for rate in ("0.001", "0.01"):
        rows = read_run(folder / f"r{rate}").rows
        wanted = [(row["epoch"], row["loss"]) for row in rows]
        for (x, y), (epoch, loss) in zip(lines[str(folder / f"r{rate}")], wanted, strict=True):
            assert x == pytest.approx(epoch, abs=0.02)
            assert y == pytest.approx(loss, abs=0.02)


def test_curves_of_a_wide_range_have_a_logarithmic_axis() -> None:
    line = [(float(k), 10.0**-k) for k in range(6)]
    picture = svg([Chart("loss", {"loss": line})])
    for (_, y), (_, wanted) in zip(values_of(picture)["loss"], line, strict=True):
        assert y == pytest.approx(wanted, rel=0.02)


def test_charts_of_few_values_are_whole() -> None:
    for line in ([], [(1.0, 0.0)], [(1.0, 5.0), (2.0, 5.0)], [(0.0, -1.0), (1.0, -3.0)]):
        picture = svg([Chart("a < b", {"x": line} if line else {})])
        assert "nan" not in picture
        assert "a &lt; b" in picture


def test_only_values_that_change_results_are_differences(folder: Path, tmp_path: Path) -> None:
    recipe = (folder / "r0.01" / "recipe.toml").read_text(encoding="utf-8")
    for name, more in (("a", 'export-circle = "x"\nbatch-size = 8\n'), ("b", "epochs = 9\n")):
        (tmp_path / name).mkdir()
        kept = recipe.replace("epochs = 3\n", "")
        (tmp_path / name / "recipe.toml").write_text(more + kept, encoding="utf-8")
    head, first, second = odt("report", "--list", tmp_path).stdout.splitlines()
    assert head.split()[-2:] == ["METRIC", "batch-size"]
    assert (first.split()[-1], second.split()[-1]) == ("8", "-")
    assert "unfinished" in first


def test_folders_without_runs_are_refused(tmp_path: Path) -> None:
    assert (
        "must be or contain folders of runs, but has none."
        in odt("report", "--list", tmp_path).stderr
    )
    assert "must be a folder, but there is none." in odt("report", "--list", tmp_path / "x").stderr
    (tmp_path / "recipe.toml").write_text("epochs = 1\n")
    (tmp_path / "run.json").write_text("[")
    done = odt("report", "--list", tmp_path)
    assert done.exit_code == 1
    assert re.match(r"Error: .*run\.json: must be the record of a run, but got: ", done.stderr)


def test_options_of_the_list_and_of_the_page_exclude_each_other(
    folder: Path, tmp_path: Path
) -> None:
    for words in (["--wrong", 3], ["-o", tmp_path / "x.html"], ["--load-input", "x.npy"]):
        done = odt("report", "--list", folder, *words)
        assert done.exit_code == 1
        assert "must be given without --list, but got both." in done.stderr
    for name in ("--metric", "--svg", "--png"):
        done = odt("report", folder / "r0.01", name, tmp_path / f"x.{name[2:]}")
        assert (done.exit_code, done.stdout) == (1, "")
        assert f"{name}: must come with --list" in done.stderr
    assert list(tmp_path.iterdir()) == []
    for runs in ([], [folder, folder]):
        done = odt("report", *runs)
        assert done.exit_code == 2
        assert f"RUN: must be one folder, but got {len(runs)}." in done.stderr
