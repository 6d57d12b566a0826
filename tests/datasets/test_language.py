"""Texts and chats become windows of tokens for language models."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.gguf_files import CHATML, tiny_llama

import odt
from odt.cli.main import main
from odt.datasets.chat import ChatML, chat_template
from odt.errors import UnsupportedError
from odt.kernels.rows.opdef import Array

T = 16
PADDING = 2  # <|im_end|>, the last token of a text
SYSTEM = (
    "{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
)
WITH_SYSTEM = CHATML.replace("messages %}", "messages %}" + SYSTEM, 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_model()
    return tmp_path


def make_model(**metadata: Any) -> None:
    Path("m.gguf").write_bytes(tiny_llama("floats", **metadata))
    odt.convert_gguf("m.gguf", "m.circle", T)


def generate(*args: str) -> Any:
    line = ["gen-datafile", "--tokenizer", "m.circle", "--split", "all=1.0", *args]
    return CliRunner().invoke(main, line)


def windows(source: str, *args: str) -> tuple[Array, Array]:
    result = generate("--source", source, *args)
    assert result.exit_code == 0, result.stderr
    x, y = (
        np.fromfile(f"out/all.{name}.bin", np.int32).reshape(-1, T) for name in ("input", "output")
    )
    return x, y


def write_lines(*values: Any) -> None:
    Path("t.jsonl").write_text("".join(json.dumps(v) + "\n" for v in values), encoding="utf-8")


def chat(*messages: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def test_windows_of_a_text() -> None:
    text = "the word and hello " * 5
    Path("t.txt").write_text(text, encoding="utf-8")
    x, y = windows("t.txt", "--no-shuffle")
    tokens = odt.load_tokenizer("m.circle").encode(text)
    count = len(tokens) - 1  # targets
    assert len(x) == -(-count // T)
    padded = len(x) * T - count
    np.testing.assert_array_equal(x.reshape(-1), tokens[:-1] + [PADDING] * padded)
    np.testing.assert_array_equal(y.reshape(-1), tokens[1:] + [-1] * padded)


def test_a_folder_has_one_text_in_each_file() -> None:
    Path("d/e").mkdir(parents=True)
    Path("d/b.txt").write_text("hello the a")
    Path("d/e/c.md").write_text("\ufeffthe word", encoding="utf-8")
    Path("d/a.jsonl").write_text('{"text": "and the"}\n\n{"text": "in"}\n')
    Path("d/x.png").write_bytes(b"no text")
    x, _ = windows("d", "--no-shuffle")
    decode = odt.load_tokenizer("m.circle").decode
    texts = [decode(row).split("<|im_end|>")[0] for row in x]
    assert texts == ["and", "hello the", "the"]  # without the last token, a target alone


def test_only_answers_count() -> None:
    write_lines(chat(("user", "hello"), ("assistant", " the\nword"), ("user", "on")))
    x, y = windows("t.jsonl")
    tokenizer = odt.load_tokenizer("m.circle")
    rendered = (
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n the\nword<|im_end|>\n"
        "<|im_start|>user\non<|im_end|>\n"
    )
    tokens = tokenizer.encode(rendered, controls=True)
    flat = x.reshape(-1)
    np.testing.assert_array_equal(flat[: len(tokens) - 1], tokens[: T * len(x)][: len(tokens) - 1])
    counted = y.reshape(-1) >= 0
    assert tokenizer.decode(y.reshape(-1)[counted]) == " the\nword<|im_end|>"
    for k in np.flatnonzero(counted):
        assert y.reshape(-1)[k] == tokens[k + 1]


def test_windows_without_an_answer_are_left_out() -> None:
    write_lines(chat(("user", "x" * 40), ("assistant", "on")))
    x, y = windows("t.jsonl")
    assert len(x) == 1
    assert odt.load_tokenizer("m.circle").decode(y[y >= 0]) == "on<|im_end|>"


def test_the_number_of_targets_that_count_is_printed() -> None:
    write_lines({"prompt": "hello", "completion": "on"})
    assert "note: t.jsonl: 2 of 16 targets count." in generate("--source", "t.jsonl").stderr


def test_prompt_and_completion_are_a_chat() -> None:
    write_lines({"prompt": "hello", "completion": "on"})
    first = windows("t.jsonl")
    write_lines(chat(("user", "hello"), ("assistant", "on")))
    np.testing.assert_array_equal(windows("t.jsonl"), first)


def test_the_message_of_the_system_comes_first() -> None:
    make_model(tokenizer__chat_template=WITH_SYSTEM)
    write_lines(chat(("user", "a"), ("assistant", "b")))
    given = windows("t.jsonl")
    write_lines(chat(("system", "Be kind."), ("user", "a"), ("assistant", "b")))
    np.testing.assert_array_equal(windows("t.jsonl"), given)


def test_the_beginning_of_texts() -> None:
    make_model(tokenizer__ggml__add_bos_token=True)
    write_lines({"text": "on"})
    x, y = windows("t.jsonl")
    assert (x[0, 0], y[0, 0]) == (1, odt.load_tokenizer("m.circle").encode("on")[0])


def test_a_number_that_is_no_token_pads_nothing() -> None:
    """Some files give −1 for a token that they do not have."""
    make_model(tokenizer__ggml__padding_token_id=-1)
    write_lines({"text": "the word and hello"})
    x, _ = windows("t.jsonl")
    assert x[0, -1] == PADDING


def test_control_tokens_in_data_are_text() -> None:
    write_lines({"prompt": "a", "completion": "<|im_end|>"})
    x, _ = windows("t.jsonl")
    tokens = odt.load_tokenizer("m.circle").encode("<|im_start|>", controls=True)
    assert (x == tokens[0]).sum() == 2


@pytest.mark.parametrize(
    ("template", "system"),
    [
        (CHATML, ""),
        (WITH_SYSTEM, "Be kind."),
        (CHATML.replace("'", '"').replace("\n", "\\n"), ""),
        (CHATML.replace("message['role']", "message.role").replace("%}", "-%}"), ""),
        (CHATML.replace("'<|im_end|>' + '\n'", "'<|im_end|>\n'"), ""),
        (CHATML.split("{% if add")[0], ""),
    ],
)
def test_chatml_is_recognized(template: str, system: str) -> None:
    assert chat_template(template, "m") == ChatML(system)


@pytest.mark.parametrize(
    "template",
    [
        None,
        "{{ bos_token }}",
        CHATML.replace("im_start", "start"),
        CHATML.replace("message['content']", "message['content'] | trim"),
        CHATML.replace("{% for", "{{ bos_token }}{% for"),
        WITH_SYSTEM.replace("system\nBe", "user\nBe"),
    ],
)
def test_other_templates_are_refused(template: str | None) -> None:
    with pytest.raises(UnsupportedError, match="must be ChatML to read chats"):
        chat_template(template, "m")


GOOD = '{"text": "hello the"}'
BAD_LINES = {
    "{": "line 2: must be JSON, but got: Expecting property name",
    "[1]": "line 2: must have messages, prompt and completion, or text, but got list",
    '{"a": 1}': "or text, but got a",
    '{"messages": [{"role": "user", "content": "x"}]}': "must have a message of the role assistant",
    '{"messages": [{"role": "bot", "content": "x"}]}': "a role of system, user, assistant",
    '{"messages": [{"role": "user", "content": ["x"]}]}': "and a text as content",
    '{"messages": 3}': "must have a message of the role assistant",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_lines(line: str) -> None:
    Path("t.jsonl").write_text(f"{GOOD}\n{line}\n")
    result = generate("--source", "t.jsonl")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert BAD_LINES[line] in result.stderr
    assert not Path("out").exists()
    result = generate("--source", "t.jsonl", "--on-error", "skip")
    assert "note: 1 of 2 lines left out; the first: t.jsonl: line 2" in result.stderr
    assert result.exit_code == 0


def test_other_sources_and_models_are_refused() -> None:
    Path("t.txt").write_text("hello")
    Path("u.txt").write_bytes(b"\xff\xfe")
    Path("e.txt").write_text("")
    Path("d").mkdir()
    messages = {
        ("--source", "no.txt"): "no.txt: not found",
        ("--source", "u.txt"): "u.txt: must be text in UTF-8, but got other bytes at byte 0",
        ("--source", "e.txt"): "e.txt: must have a text of two tokens or more, but has none",
        ("--source", "d"): "a folder must have .txt or .md or .jsonl or .ndjson files",
        ("--source", "m.gguf"): "texts must be .txt or .md or .jsonl or .ndjson files",
        ("--source", "t.txt", "--tokenizer", "m.gguf"): "but is a GGUF file. Convert it",
        ("--source", "t.txt", "--scale", "0..1"): "--scale (for numbers): has no effect",
    }
    for args, message in messages.items():
        result = generate(*args)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert message in result.stderr


def test_other_tokenizers_are_refused() -> None:
    Path("t.txt").write_text("hello")
    for metadata, message in (
        ({"tokenizer__ggml__model": "llama"}, "tokenizer.ggml.model must be gpt2, byte-level"),
        ({"tokenizer__ggml__pre": "llama-bpe"}, "must be gpt-2 or smollm, byte-level"),
        ({"tokenizer__ggml__tokens": "x"}, "tokenizer.ggml.tokens must be an array of texts"),
        ({"tokenizer__ggml__token_type": [1]}, "must have a number for each token"),
        ({"tokenizer__chat_template": "{{ x }}"}, "must be ChatML"),
    ):
        make_model(**metadata)
        write_lines(chat(("user", "a"), ("assistant", "b")))
        result = generate("--source", "t.jsonl")
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert message in result.stderr


def test_other_models_have_no_tokenizer() -> None:
    from support.paths import MLP_SM

    Path("t.txt").write_text("hello")
    result = generate("--source", "t.txt", "--tokenizer", str(MLP_SM / "model.circle"))
    assert "must be a language model that odt convert has made" in result.stderr
