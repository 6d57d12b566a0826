"""Tokenizers of language models, from the metadata of their files."""

import os
from typing import Any

import numpy as np

from odt.arguments import checked_arguments
from odt.core.data.byte_pairs import PIECES, BytePairs
from odt.core.formats.gguf.reader import (
    ENTRY,
    Metadata,
    entry_text,
    is_gguf,
    parse_gguf,
    read_gguf,
)
from odt.core.formats.reader import read_model
from odt.core.storage.reading import open_input
from odt.errors import ModelError, UnsupportedError

MODEL, PRE = "tokenizer.ggml.model", "tokenizer.ggml.pre"
BYTE_PAIRS = "gpt2"  # of MODEL


def model_metadata(path: str | os.PathLike[str]) -> Metadata:
    """Returns the metadata of a GGUF file, or that of a model that was converted from one.

    Raises:
        ModelError: if the file is no such model.
    """
    name = os.fspath(path)
    if os.path.isfile(name):
        with open_input(name, error=ModelError) as file:
            start = file.read(4)
        if is_gguf(memoryview(start)):
            return read_gguf(name).metadata
    model = read_model(name)
    if ENTRY not in model.metadata:
        raise ModelError(
            f"{name}: must be a language model that odt convert has made from a GGUF file, with "
            "its tokenizer, but has none."
        )
    return parse_gguf(model.buffer(model.metadata[ENTRY]), name).metadata


def tokenizer_of(metadata: Metadata, name: str) -> BytePairs:
    """Returns the tokenizer that metadata describe.

    Args:
        metadata: metadata of a GGUF file.
        name: the file's name in messages.

    Raises:
        UnsupportedError: for a tokenizer of another kind.
        ModelError: if the metadata contradict each other.
    """
    for key, known in ((MODEL, (BYTE_PAIRS,)), (PRE, tuple(PIECES))):
        actual = entry_text(metadata, key, "none")
        if actual not in known:
            raise UnsupportedError(
                f"{name}: {key} must be {' or '.join(known)}, byte-level byte-pair encoding, but "
                f"got {actual}."
            )
    tokens = _texts(metadata, "tokenizer.ggml.tokens", name)
    merges = _texts(metadata, "tokenizer.ggml.merges", name)
    types = metadata.get("tokenizer.ggml.token_type", np.ones(len(tokens), np.int32))
    if not isinstance(types, np.ndarray) or len(types) != len(tokens):
        raise ModelError(f"{name}: tokenizer.ggml.token_type must have a number for each token.")
    return BytePairs(tokens, merges, types.tolist(), str(metadata[PRE]))


def _texts(metadata: Metadata, key: str, name: str) -> list[str]:
    """Returns an array of texts of the metadata."""
    texts: Any = metadata.get(key)
    if not isinstance(texts, list):
        raise ModelError(f"{name}: {key} must be an array of texts, but is none.")
    return texts


@checked_arguments
def load_tokenizer(path: str | os.PathLike[str]) -> BytePairs:
    """Reads the tokenizer of a language model.

    Args:
        path: path of a GGUF file, or of a model that `odt convert` has made from one.

    Returns:
        The tokenizer: `encode` returns the numbers of the tokens of a text, `decode` the text.

    Raises:
        ModelError: if the file has no tokenizer, or is damaged.
        UnsupportedError: for a tokenizer other than byte-level byte-pair encoding.
    """
    return tokenizer_of(model_metadata(path), os.fspath(path))
