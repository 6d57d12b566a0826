"""`verbose=`: bars and lines as of Keras, quiet where nobody watches, and the same weights."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.paths import MLP_SM
from support.terminal import script_on_terminal

import odt
from odt.training import live_curves

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(5)
X = RNG.normal(size=(96, 784)).astype(np.float32)
Y = np.eye(10, dtype=np.float32)[RNG.integers(0, 10, 96)]
SCRIPT = f"""
import numpy as np, odt
x = np.random.default_rng(5).normal(size=(96, 784)).astype("float32")
y = np.eye(10, dtype="float32")[np.arange(96) % 10]
with odt.Trainer({str(MODEL)!r}, metrics="accuracy") as trainer:
"""
FIT = SCRIPT + "    trainer.fit(x, y, epochs=2, validation_split=0.25, seed=1{})\n"


def trained(**options: Any) -> tuple[odt.History, dict[str, Any]]:
    with odt.Trainer(MODEL, metrics="accuracy") as trainer:
        history = trainer.fit(X, Y, epochs=2, validation_split=0.25, **options)
        return history, {name: array.copy() for name, array in trainer.weights.items()}


@pytest.fixture(name="shell")
def notebook(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A shell as that of a notebook's kernel, which keeps what is published."""
    shown: list[dict[str, Any]] = []

    def publish(data: Any, metadata: Any, *, transient: Any, update: bool) -> None:
        shown.append({"data": data, "id": transient["display_id"], "update": update})

    shell = SimpleNamespace(
        kernel=object(), display_pub=SimpleNamespace(publish=publish), shown=shown
    )
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(live_curves, "INTERVAL", 0.0)
    monkeypatch.setattr(live_curves, "SHARE", 0)
    return shell


def test_one_line_for_each_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    history, _ = trained(verbose=2)
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert len(lines) == 2
    for k, line in enumerate(lines):
        number, seconds, *values = line.split(" - ")
        assert number == f"Epoch {k + 1}/2"
        assert re.fullmatch(r"\d+\.\ds", seconds)
        assert values == [f"{name}: {line[k]:.4f}" for name, line in history.history.items()]


def test_a_bar_that_is_asked_for_has_lines_where_no_terminal_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trained(verbose=1)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.findall(r"^Epoch (\d)/2 - ", printed.err, re.MULTILINE) == ["1", "2"]


@pytest.mark.parametrize("verbose", ["auto", 0, False])
def test_an_output_that_nobody_watches_stays_quiet(
    verbose: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(verbose=verbose)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_the_bar_of_the_command_line() -> None:
    shown = script_on_terminal(FIT.format(""))
    assert shown.status == 0
    assert shown.stdout == ""
    assert re.search(r"epoch 1/2: .*\| \d/6 \[\d\d:\d\d<\d\d:\d\d, .*loss=\d", shown.errors)
    assert re.search(r"validation: 100%.* 24/24 ", shown.errors)
    for number in (1, 2):
        assert re.search(rf"\rEpoch {number}/2 - .* - val_accuracy: \d\.\d{{4}}\r\n", shown.errors)


def test_verbose_0_is_silent_on_a_terminal() -> None:
    more = "    trainer.evaluate(x, y, verbose=0); trainer.predict(x, verbose=0)\n"
    shown = script_on_terminal(
        "import warnings; warnings.simplefilter('ignore')" + FIT.format(", verbose=0") + more
    )
    assert (shown.status, shown.stdout, shown.errors) == (0, "", "")


@pytest.mark.parametrize("call", ["evaluate(x, y)", "predict(x)"])
def test_evaluation_and_prediction_show_a_bar_on_a_terminal(call: str) -> None:
    shown = script_on_terminal(f"{SCRIPT}    trainer.{call}\n")
    name = call.partition("(")[0]
    assert shown.status == 0, shown.errors
    assert re.search(rf"{name}: 100%.* 96/96 .*samples/s\]", shown.errors)


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_progress_does_not_change_the_weights(verbose: int) -> None:
    _, quiet = trained()
    _, shown = trained(verbose=verbose)
    assert all(np.array_equal(quiet[name], shown[name]) for name in quiet)


def test_a_quiet_run_calls_nothing_after_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """And loads neither bars nor curves nor IPython."""
    script = FIT.format("") + (
        "import sys\n"
        "late = ('tqdm', 'IPython', 'odt.progress', 'odt.charts', 'odt.training.live_curves')\n"
        "print([name for name in late if name in sys.modules])\n"
    )
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    called: list[str] = []
    monkeypatch.setattr(odt.Callback, "on_train_batch_end", lambda *_: called.append("end"))
    trained()
    assert called == []


@pytest.mark.parametrize("verbose", [3, "yes", None])
def test_other_values_are_refused(verbose: Any) -> None:
    words = "`verbose=`: must be (auto, 0, 1 or 2|a whole number or a text), but got"
    with odt.Trainer(MODEL) as trainer:
        for call in (
            lambda: trainer.fit(X, Y, verbose=verbose),
            lambda: trainer.evaluate(X, Y, verbose=verbose),
            lambda: trainer.predict(X, verbose=verbose),
        ):
            with pytest.raises(odt.OptionError, match=words):
                call()


def test_a_notebook_shows_curves_that_grow(
    shell: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    history, weights = trained()
    assert capsys.readouterr() == ("", "")
    assert len({shown["id"] for shown in shell.shown}) == 1
    assert [shown["update"] for shown in shell.shown] == [False] + [True] * (len(shell.shown) - 1)
    texts = [shown["data"]["text/plain"] for shown in shell.shown]
    assert any("epoch 1 of 2 · step 2 of 3 · loss " in text and " left" in text for text in texts)
    assert any("validation: 24 of 24 samples" in text for text in texts)
    assert f"val_loss {history.history['val_loss'][-1]:.4f}" in texts[-1]
    assert "ended after" in texts[-1]
    done = [
        re.search(r'<progress value="(\d+)" max="6"', s["data"]["text/html"]) for s in shell.shown
    ]
    assert [int(m[1]) for m in done if m] == sorted(int(m[1]) for m in done if m)
    assert int(done[-1][1]) == 6  # type: ignore[index]
    monkeyed, quiet = trained(verbose=0)
    assert len(texts) == len(shell.shown)
    assert monkeyed.history == history.history
    assert all(np.array_equal(quiet[name], weights[name]) for name in quiet)


def test_an_interrupted_notebook_says_so(shell: SimpleNamespace) -> None:
    def interrupt(batch: int, logs: odt.Logs) -> None:
        raise KeyboardInterrupt

    with odt.Trainer(MODEL) as trainer, pytest.raises(KeyboardInterrupt):
        trainer.fit(X, Y, callbacks=odt.LambdaCallback(on_train_batch_end=interrupt))
    assert "interrupted after" in shell.shown[-1]["data"]["text/plain"]


def test_the_bar_of_a_run_that_ends_early_has_its_steps(shell: SimpleNamespace) -> None:
    trained(max_steps=4)
    assert '<progress value="4" max="4"' in shell.shown[-1]["data"]["text/html"]


def test_batches_of_unknown_number_show_progress_too(
    shell: SimpleNamespace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    batches = [(X[k : k + 32], Y[k : k + 32]) for k in (0, 32, 64)]
    with odt.Trainer(MODEL) as trainer:
        trainer.fit(batches, epochs=2)
        trainer.fit(batches, epochs=1, verbose=2)
    texts = [shown["data"]["text/plain"] for shown in shell.shown]
    assert any("epoch 2 of 2 · step 3 · loss " in text for text in texts)
    assert capsys.readouterr().out.startswith("Epoch 1/1 - ")
