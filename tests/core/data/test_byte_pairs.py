"""Byte-level byte-pair encoding, against a literal implementation of its rules."""

import random
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import pytest
from support.gguf_files import BYTE_CHARACTERS, MERGES, SPECIAL, TOKENS

from odt.core.data.byte_pairs import CHARACTERS, CONTROL, NORMAL, USER_DEFINED, BytePairs
from odt.errors import DataError

TYPES = [CONTROL] * len(SPECIAL) + [NORMAL] * (len(TOKENS) - len(SPECIAL))
CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
SPACES = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029}
SPACES |= {0x202F, 0x205F, 0x3000}  # White_Space in Unicode


def kind(c: str) -> str:
    if ord(c) in SPACES:
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(c)[0], "other")


def pieces(text: str, digits: bool) -> Iterator[str]:
    """The pieces of GPT-2: contractions; a space and letters, numbers or others; white space."""
    if digits:  # each number is a piece by itself, and the rest is divided around them
        part = ""
        for c in text:
            if kind(c) == "number":
                yield from pieces(part, False)
                yield c
                part = ""
            else:
                part += c
        yield from pieces(part, False)
        return
    at = 0
    while at < len(text):
        contraction = next((c for c in CONTRACTIONS if text.startswith(c, at)), None)
        if contraction:
            yield contraction
            at += len(contraction)
            continue
        first = at + (text[at] == " " and at + 1 < len(text) and kind(text[at + 1]) != "space")
        end = first
        if kind(text[first]) != "space":
            while end < len(text) and kind(text[end]) == kind(text[first]):
                end += 1
        else:
            while end < len(text) and kind(text[end]) == "space":
                end += 1
            # The last space before another character belongs to what follows.
            if end < len(text) and end - at > 1:
                end -= 1
        yield text[at:end]
        at = end


def merged(piece: str) -> list[int]:
    """The tokens of a piece: of all pairs, the leftmost of the first merge, again and again."""
    parts = [BYTE_CHARACTERS[b] for b in piece.encode()]
    while True:
        pairs = [f"{a} {b}" for a, b in pairwise(parts)]
        ranks = [MERGES.index(p) for p in pairs if p in MERGES]
        if not ranks:
            return [TOKENS.index(p) for p in parts]
        k = pairs.index(MERGES[min(ranks)])
        parts[k : k + 2] = ["".join(parts[k : k + 2])]


def tokenizer(pre: str = "smollm") -> BytePairs:
    return BytePairs(TOKENS, MERGES, TYPES, pre)


def texts(count: int) -> Iterator[str]:
    rng = random.Random(3)
    ranges = [(0x20, 0x7F)] * 3 + [(0xA0, 0x250), (0x0, 0x21), (0x2000, 0x2070), (0x2150, 0x2190)]
    ranges += [(0x4E00, 0x4F00), (0x660, 0x66A), (0x1F600, 0x1F640), (0x300, 0x330)]
    words = ("'s", "'ll", "'", " hello", "the", " and", "  ", "\n\n", "\r\n", "ä", "12", "assist")
    for _ in range(count):
        yield "".join(
            rng.choice(words) if rng.random() < 0.4 else chr(rng.randrange(*rng.choice(ranges)))
            for _ in range(rng.randrange(1, 40))
        )


def test_characters_of_bytes() -> None:
    assert "".join(CHARACTERS) == BYTE_CHARACTERS
    assert (CHARACTERS[ord(" ")], CHARACTERS[ord("\n")], CHARACTERS[0]) == ("Ġ", "Ċ", "Ā")


@pytest.mark.parametrize("pre", ["gpt-2", "smollm"])
def test_tokens_are_those_of_the_rules(pre: str) -> None:
    tokens = tokenizer(pre)
    for text in texts(1500):
        expected = [k for piece in pieces(text, pre == "smollm") for k in merged(piece)]
        assert tokens.encode(text) == expected, text
        assert tokens.decode(expected) == text


def test_control_tokens() -> None:
    tokens = tokenizer()
    text = "<|im_start|>user\nhello<|im_end|>"
    numbers = tokens.encode(text, controls=True)
    assert (numbers[0], numbers[-1]) == (1, 2)
    assert {0, 1, 2}.isdisjoint(tokens.encode(text))
    assert tokens.decode(numbers) == tokens.decode(tokens.encode(text)) == text


def test_tokens_of_the_user_are_always_read() -> None:
    types = [*TYPES[:-1], USER_DEFINED]
    own = BytePairs([*TOKENS[:-1], "<x>"], MERGES, types, "gpt-2")
    assert own.encode("a<x>") == [*own.encode("a"), len(TOKENS) - 1]


def test_bytes_without_a_token_are_left_out() -> None:
    """llama.cpp does so, too: SmolLM2's vocabulary lacks 21 bytes."""
    less = BytePairs(["a", "b", "ab"], ["a b"], [1, 1, 1], "gpt-2")
    assert less.encode("abcab") == [2, 2]
    assert less.decode([2, 0]) == "aba"


@pytest.mark.parametrize("number", [-1, 3])
def test_numbers_without_a_token_are_refused(number: int) -> None:
    """-1 stands for a label that is ignored, not for the last token."""
    less = BytePairs(["a", "b", "ab"], ["a b"], [1, 1, 1], "gpt-2")
    message = f"^numbers: must be tokens 0 … 2, but got {number}"
    for read in (less.decode, lambda numbers: less.count_within(numbers, 9)):
        with pytest.raises(DataError, match=message):
            read([0, number])


def test_a_merge_without_its_token_becomes_bytes() -> None:
    less = BytePairs(["a", "b"], ["a b"], [1, 1], "gpt-2")
    assert less.encode("ab") == [0, 1]


def test_long_pieces_take_linear_time() -> None:
    tokens = BytePairs(["a", "aa", "aaaa"], ["a a", "aa aa"], [1, 1, 1], "gpt-2")
    assert tokens.encode("a" * 100_001) == [2] * 25_000 + [0]


def test_count_within() -> None:
    tokens = tokenizer()
    numbers = tokens.encode("hello the")
    assert [tokens.count_within(numbers, size) for size in (0, 4, 5, 8, 9)] == [0, 0, 1, 1, 2]
