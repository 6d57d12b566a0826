"""Chats as texts with roles: lines of JSON, and the template ChatML of language models.

A template is a program of Jinja in the metadata of a model. odt runs none: it knows the form that
writes each message as <|im_start|>ROLE, a new line, the content, <|im_end|> and a new line, with or
without a default system message for chats that have none.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from odt.core.storage.json_text import parse_json
from odt.core.storage.reading import listed, printable
from odt.dataclass import dataclass
from odt.errors import UnsupportedError

START, END = "<|im_start|>", "<|im_end|>"
ANSWER = "assistant"
ROLES = ("system", "user", ANSWER)
TEMPLATE = "tokenizer.chat_template"
# The default system message, in ChatML and in quotes.
_DEFAULT = r"(?:'(?P<single>[^'\\]*)'|\"(?P<double>[^\"\\]*)\")"


def _pattern() -> re.Pattern[str]:
    """Returns the pattern of ChatML templates, without white space outside of quotes."""

    def tag(text: str) -> str:
        return rf"\{{%-?{text}-?%\}}"

    def quoted(text: str) -> str:
        return rf"(?:'{text}'|\"{text}\")"

    def part(name: str) -> str:
        return rf"message(?:\[{quoted(name)}\]|\.{name})"

    start, end, line = re.escape(START), re.escape(END), r"\n"
    new_line = quoted(line)
    joined = r"\+"
    message = (
        rf"\{{\{{-?{quoted(start)}{joined}{part('role')}{joined}{new_line}{joined}{part('content')}"
        rf"(?:{joined}{quoted(end)}{joined}{new_line}|{joined}{quoted(end + line)})-?\}}\}}"
    )
    is_first = rf"loop\.firstandmessages\[0\]\[{quoted('role')}\]!={quoted('system')}"
    system = rf"{tag('if' + is_first)}\{{\{{-?{_DEFAULT}-?\}}\}}{tag('endif')}"
    answer = rf"\{{\{{-?{quoted(start + ANSWER + line)}-?\}}\}}"
    prompt = rf"{tag('ifadd_generation_prompt')}{answer}{tag('endif')}"
    loop = tag("formessageinmessages")
    return re.compile(rf"{loop}(?:{system})?{message}{tag('endfor')}(?:{prompt})?")


class Message(NamedTuple):
    """A message of a chat: who says it, and the text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatML:
    """The template ChatML.

    Attributes:
        system: content of the default system message; empty for none.
    """

    system: str = ""

    def complete(self, messages: Sequence[Message]) -> list[Message]:
        """Returns the messages of a chat, after the default system message if it has none."""
        if self.system and messages[0].role != "system":
            return [Message("system", self.system), *messages]
        return [*messages]


def chat_template(template: object, name: str) -> ChatML:
    """Recognizes the template of a model.

    Args:
        template: the program; None if the model has none.
        name: the model's name in messages.

    Raises:
        UnsupportedError: if it is not ChatML.
    """
    rule = f"{name}: {TEMPLATE} must be ChatML to read chats"
    if not isinstance(template, str):
        raise UnsupportedError(f"{rule}, but the model has none. Give texts instead of chats.")
    match = _PATTERN.fullmatch(_without_space(template))
    if match is None:
        start = printable(" ".join(template.split()), 40)
        raise UnsupportedError(f"{rule}, but got another: {start}. Give texts instead of chats.")
    text = match["single"] or match["double"] or ""
    if not text:
        return ChatML()
    begin, end = f"{START}system\n", f"{END}\n"
    if not (text.startswith(begin) and text.endswith(end) and text.count(START) == 1):
        raise UnsupportedError(f"{rule}, but its first message is {printable(text, 40)}.")
    return ChatML(text[len(begin) : -len(end)])


def _without_space(template: str) -> str:
    """Returns a template without white space outside of quotes, and with new lines for \\n."""
    parts = re.split(r"('[^']*'|\"[^\"]*\")", template)
    return "".join(
        part.replace("\\n", "\n") if k % 2 else "".join(part.split())
        for k, part in enumerate(parts)
    )


_PATTERN = _pattern()


def read_line(line: str) -> str | list[Message]:
    """Returns the text or the chat of a line of JSON.

    Raises:
        ValueError: if it is neither.
    """
    try:
        value = parse_json(line)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"must be JSON, but got: {e}") from e
    fields = value if isinstance(value, dict) else {}
    if isinstance(fields.get("text"), str):
        return str(fields["text"])
    if "messages" in fields:
        return _messages(fields["messages"])
    if "prompt" in fields and "completion" in fields:
        pairs = (("user", fields["prompt"]), (ANSWER, fields["completion"]))
        return _messages([{"role": role, "content": content} for role, content in pairs])
    got = listed(fields) if fields else type(value).__name__
    raise ValueError(f"must have messages, prompt and completion, or text, but got {got}")


def _messages(values: Any) -> list[Message]:
    """Returns the messages of a chat, of which one must be an answer."""
    messages = []
    for value in values if isinstance(values, list) else ():
        fields = value if isinstance(value, dict) else {}
        role, content = fields.get("role"), fields.get("content")
        if role not in ROLES or not isinstance(content, str):
            raise ValueError(
                f"a message must have a role of {', '.join(ROLES)} and a text as content, but got "
                f"{printable(value)}"
            )
        messages.append(Message(role, content))
    if not any(message.role == ANSWER for message in messages):
        raise ValueError(f"a chat must have a message of the role {ANSWER}, but got none")
    return messages
