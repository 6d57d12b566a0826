"""Samples of language models: windows of tokens, and the token after each as its target.

Targets of −1 are ignored: padding, and in chats everything except the answers.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from odt.core.data.byte_pairs import BytePairs
from odt.core.formats.reader import read_model
from odt.core.storage.reading import printable, read_input
from odt.dataclass import dataclass
from odt.datasets.chat import (
    ANSWER,
    END,
    START,
    TEMPLATE,
    ChatML,
    Message,
    chat_template,
    read_line,
)
from odt.datasets.source import ArrayPart, Source
from odt.datasets.source_format import Opening
from odt.datasets.tokenizer import model_metadata, tokenizer_of
from odt.errors import DataError, UnsupportedError
from odt.kernels.rows.lossdef import IGNORED
from odt.kernels.rows.opdef import Array

INT32 = np.dtype(np.int32)
LINES = (".jsonl", ".ndjson")  # suffixes of files with a text or a chat in each line
TEXTS = (".txt", ".md")  # suffixes of files that are texts


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """What the data for a language model depend on.

    Attributes:
        path: path of the model.
        tokenizer: its tokenizer.
        length: number of tokens T that it reads.
        vocabulary: number of tokens that it knows.
        first: token at the beginning of a text; None for none.
        padding: token after the end of a text.
        template: template of chats in its metadata; None for none.
    """

    path: str
    tokenizer: BytePairs
    length: int
    vocabulary: int
    first: int | None
    padding: int
    template: object

    def text(self, text: str) -> tuple[Array, Array]:
        """Returns the tokens of a text, and for each whether it counts as a target."""
        first = [] if self.first is None else [self.first]
        tokens = np.array(first + self.tokenizer.encode(text), INT32)
        return tokens, np.ones(len(tokens), bool)

    def chat(self, template: ChatML, messages: list[Message]) -> tuple[Array, Array]:
        """Returns the tokens of a chat, and for each whether it belongs to an answer."""
        start, end = (self.tokenizer.controls[control] for control in (START, END))
        new_line = self.tokenizer.encode("\n")
        tokens: list[int] = [] if self.first is None else [self.first]
        counted = [False] * len(tokens)
        for message in template.complete(messages):
            head = f"{message.role}\n"
            said = self.tokenizer.encode(head + message.content)
            before = self.tokenizer.count_within(said, len(head))
            tokens += [start, *said, end, *new_line]
            is_answer = message.role == ANSWER
            counted += [False] * (1 + before)
            counted += [is_answer] * (len(said) - before + 1)
            counted += [False] * len(new_line)
        return np.array(tokens, INT32), np.array(counted)

    def windows(self, tokens: Array, counted: Array) -> Iterator[tuple[Array, Array]]:
        """Yields windows (T,) of tokens and targets, of which at least one counts."""
        targets = np.where(counted[1:], tokens[1:], IGNORED).astype(INT32)
        for begin in range(0, len(targets), self.length):
            x = np.full(self.length, self.padding, INT32)
            y = np.full(self.length, IGNORED, INT32)
            count = min(self.length, len(targets) - begin)
            x[:count] = tokens[begin : begin + count]
            y[:count] = targets[begin : begin + count]
            if (y != IGNORED).any():
                yield x, y


def read_language_model(path: str | os.PathLike[str]) -> LanguageModel:
    """Reads a model that `odt convert` has made from a GGUF file.

    Raises:
        ModelError: if it is another file.
        UnsupportedError: for a tokenizer of another kind, or other inputs and outputs.
    """
    name = os.fspath(path)
    model = read_model(name)
    metadata = model_metadata(name)
    tokenizer = tokenizer_of(metadata, name)
    inputs, outputs = (
        [model.graph.tensors[i].spec for i in g] for g in (model.graph.inputs, model.graph.outputs)
    )
    if (
        len(inputs) != 1
        or len(outputs) != 1
        or len(inputs[0].shape) != 2
        or len(outputs[0].shape) != 3
    ):
        raise UnsupportedError(
            f"{name}: must read tokens (1, T) and compute logits (1, T, V), but has inputs "
            f"{', '.join(map(str, inputs))} and outputs {', '.join(map(str, outputs))}."
        )
    vocabulary = outputs[0].shape[-1]
    if len(tokenizer.tokens) > vocabulary:
        raise UnsupportedError(
            f"{name}: its tokenizer must have at most the {vocabulary} tokens of the logits, but "
            f"has {len(tokenizer.tokens)}."
        )

    def number(key: str) -> int | None:
        value = metadata.get(f"tokenizer.ggml.{key}_token_id")
        return value if type(value) is int and 0 <= value < vocabulary else None

    first = number("bos") if metadata.get("tokenizer.ggml.add_bos_token") is True else None
    padding = next((n for n in (number("padding"), number("eos")) if n is not None), 0)
    return LanguageModel(
        name, tokenizer, inputs[0].shape[1], vocabulary, first, padding, metadata.get(TEMPLATE)
    )


def open_language(opening: Opening) -> Source:
    """Opens texts and chats: a file, or a folder of files.

    Raises:
        DataError: if a file cannot be read, or a line is neither text nor chat.
        UnsupportedError: if the template of the model is not known, for chats.
    """
    if opening.tokenizer is None:
        raise DataError(f"{opening.text}: the model must be given by `tokenizer=` to read texts.")
    model = read_language_model(opening.tokenizer)
    reader = _Reader(model, opening.skip)
    for path in _files(opening.path):
        reader.read(path)
    if not reader.inputs:
        raise DataError(f"{opening.text}: must have a text of two tokens or more, but has none.")
    inputs, targets = np.stack(reader.inputs), np.stack(reader.targets)
    counted = int((targets != IGNORED).sum())
    notes = [f"note: {opening.text}: {counted:,} of {targets.size:,} targets count."]
    if faults := reader.faults:
        notes.append(
            f"note: {len(faults)} of {reader.lines} lines left out; the first: {faults[0]}"
        )
    return Source(
        name=opening.text,
        kind="features",
        parts={"all": ArrayPart([inputs], [targets], False)},
        origin={"tokenizer": model.path, "tokens": model.length},
        dtype=INT32,
        notes=tuple(notes),
    )


def _files(path: Path) -> list[Path]:
    """Returns the files of a folder with texts, or the file itself.

    Raises:
        DataError: if there are none, or the file is of another kind.
    """
    known = (*TEXTS, *LINES)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix.lower() in known and p.is_file())
        if not files:
            raise DataError(f"{path}: a folder must have {' or '.join(known)} files, but has none.")
        return files
    if path.suffix.lower() not in known:
        raise DataError(
            f"{path}: texts must be {' or '.join(known)} files or a folder of them, but got "
            f"{path.suffix or 'none'}."
        )
    return [path]


class _Reader:
    """Collects the windows of files.

    Attributes:
        inputs, targets: the windows.
        faults: lines that were left out, with reasons.
        lines: number of lines of JSON.
    """

    def __init__(self, model: LanguageModel, skip: bool) -> None:
        self.model, self._skip = model, skip
        self.inputs: list[Array] = []
        self.targets: list[Array] = []
        self.faults: list[str] = []
        self.lines = 0
        self._template: ChatML | None = None

    def read(self, path: Path) -> None:
        """Reads a file."""
        try:
            text = read_input(path).decode("utf-8-sig")
        except UnicodeDecodeError as e:
            raise DataError(
                f"{path}: must be text in UTF-8, but got other bytes at byte {e.start}."
            ) from e
        if path.suffix.lower() not in LINES:
            self._add(*self.model.text(text))
            return
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                self._read_line(line, f"{path}: line {number}")

    def _read_line(self, line: str, where: str) -> None:
        """Reads a line of JSON; a fault is noted if faults are left out."""
        self.lines += 1
        try:
            content = read_line(line)
        except ValueError as e:
            fault = f"{where}: {printable(e, 160)}."
            if not self._skip:
                raise DataError(fault) from e
            self.faults.append(fault)
            return
        if isinstance(content, str):
            self._add(*self.model.text(content))
            return
        if self._template is None:
            self._template = self._chat_template()
        self._add(*self.model.chat(self._template, content))

    def _chat_template(self) -> ChatML:
        """Returns the template of the model, whose control tokens the tokenizer must have."""
        template = chat_template(self.model.template, self.model.path)
        missing = [c for c in (START, END) if c not in self.model.tokenizer.controls]
        if missing:
            raise UnsupportedError(
                f"{self.model.path}: its tokenizer must have the control tokens of ChatML, but "
                f"lacks {' and '.join(missing)}."
            )
        return template

    def _add(self, tokens: Array, counted: Array) -> None:
        for x, y in self.model.windows(tokens, counted):
            self.inputs.append(x)
            self.targets.append(y)
