"""Texts and chats for language models."""

from odt.datasets.language import open_language
from odt.datasets.source_format import SourceFormat

FORMATS = (
    SourceFormat(
        "language",
        open_language,
        contents="texts and chats for a language model (.txt, .md, .jsonl or a folder)",
        place=30,
    ),
)
