"""Tab completes values: words of options, model files, folders of runs, topics, data sets."""

from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from odt.cli.main import TASKS, main


def completed(*words: str) -> list[str]:
    """What the shell offers for the last word."""
    shell = ShellComplete(main, {}, "odt", "_ODT_COMPLETE")
    items = shell.get_completions(list(words[:-1]), words[-1])
    return [item.value if item.type == "plain" else f"<{item.type}>" for item in items]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("train", "m.tflite", "--optimizer", "ada"), ["adam", "adamw", "adagrad", "adafactor"]),
        (("train", "m.tflite", "--loss", "mean-s"), ["mean-squared-error"]),
        (("train", "m.tflite", "--schedule", "cos"), ["cosine", "cosine-restarts"]),
        (("eval", "m.tflite", "--metric", "r"), ["recall", "r2"]),
        (("new", "ds"), ["ds-cnn"]),
        (("docs", "glos"), ["glossary"]),
        (("docs", "xyzzy"), []),
        (("gen-datafile", "fashion_"), ["fashion_mnist"]),
        (("train", "m.tflite", "--augment", "ro"), ["rotate"]),
        (("train", "m.tflite", "--augment", "flip,shift:0.1,c"), ["flip,shift:0.1,crop"]),
        (("gen-datafile", "--augment", "flip,n"), ["flip,noise="]),
    ],
)
def test_words_are_completed(words: tuple[str, ...], values: list[str]) -> None:
    assert {*values} <= {*completed(*words)}
    assert all(value.startswith(words[-1]) for value in completed(*words))


def test_model_files_and_runs_are_completed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("net.tflite", "net.json", "other.circle", "old/net.onnx", "runs/a/log.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert completed("train", "") == ["net.tflite", "other.circle"]
    assert completed("eval", "n") == ["net.tflite"]
    assert completed("eval", "old/") == ["old/net.onnx"]
    assert completed("eval", "runs/") == ["<file>"]
    assert completed("report", "runs/") == ["runs/a"]
    assert completed("report", "o") == ["<dir>"]


def test_every_command_has_a_task() -> None:
    context = click.Context(main, info_name="odt")
    missing = {*main.list_commands(context)}.difference(*TASKS.values())
    assert not missing, f"cli/main.py: add {missing} to TASKS"
    text = main.get_help(context)
    assert text.index("First steps:") < text.index("  learn ") < text.index("  train ")


@pytest.mark.parametrize(
    ("word", "hint"), [("help", "odt docs"), ("summary", "odt inspect"), ("export", "odt convert")]
)
def test_words_of_other_tools_get_a_hint(word: str, hint: str) -> None:
    with pytest.raises(click.UsageError, match=f"Use .*{hint}"):
        main.main([word], standalone_mode=False)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--gpu", "which --workers limits"),
        ("--batchsize", "Did you mean '--batch-size'?"),
        ("--early-stopping", "--patience N"),
        ("--qwertz", None),
    ],
)
def test_a_wrong_option_gets_what_is_meant_alone(option: str, hint: str | None) -> None:
    with pytest.raises(click.NoSuchOption) as caught:
        main.main(["train", "m.tflite", option, "1"], standalone_mode=False)
    text = caught.value.format_message()
    assert text.count("--") - text.count("odt --") <= 3
    assert (hint in text) if hint else ("Did you mean" not in text)


def test_a_trained_network_gets_a_head_and_is_not_new() -> None:
    with pytest.raises(click.BadParameter, match="odt replace-head mobilenet --classes N"):
        main.main(["new", "mobilenet", "-o", "x.tflite"], standalone_mode=False)


def test_a_wrong_schedule_gets_the_nearest() -> None:
    with pytest.raises(click.BadParameter, match=r"Did you mean cosine\?"):
        main.main(["train", "m.tflite", "--schedule", "cosin"], standalone_mode=False)
