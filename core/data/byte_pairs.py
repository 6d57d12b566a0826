"""Byte-level byte-pair encoding: text to the numbers of tokens, and back.

A text is split into pieces, such as words with the space before them. Of the bytes of a piece, each
written as a character, the pair whose merge comes first in the list is merged again and again, the
leftmost first. What is left are tokens. Source: Sennrich et al., *Neural Machine Translation of
Rare Words with Subword Units* (2016); Radford et al., *Language Models are Unsupervised Multitask
Learners* (2019), for bytes and pieces.

Letters, numbers and white space are those of Unicode. Python's regular expressions lack these
classes, so each character beyond ASCII stands for its class as an ASCII character.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

from odt.errors import DataError

# Pre-tokenizer in the metadata of GGUF files → the pieces.
_WORDS = r"'(?:[stmd]|re|ve|ll)| ?[A-Za-z]+"
_OTHERS = r" ?[^\sA-Za-z0-9]+"
PIECES = {
    "gpt-2": re.compile(rf"{_WORDS}| ?[0-9]+|{_OTHERS}|\s+(?!\S)|\s+", re.ASCII),
    # Each digit is a piece, and ends what is before it.
    "smollm": re.compile(rf"{_WORDS}|[0-9]|{_OTHERS}|\s+(?![^\s0-9])|\s+", re.ASCII),
}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4  # types of tokens
SEPARATORS = range(0x1C, 0x20)  # white space in Python, but not in Unicode
CACHED = 1 << 16  # pieces whose tokens are kept


def _byte_characters() -> list[str]:
    """Returns a character for each byte: itself if it is printable Latin-1, or one from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


CHARACTERS = _byte_characters()
BYTES = {character: byte for byte, character in enumerate(CHARACTERS)}


class _Classes(dict[int, int]):
    """Code of a character → the code of an ASCII character of its class; for str.translate."""

    def __missing__(self, code: int) -> int:
        if code < 0x80 and code not in SEPARATORS:
            stand_in = code
        else:
            character = chr(code)
            kind = unicodedata.category(character)[0]
            stand_in = ord({"L": "A", "N": "0"}.get(kind, "!"))
            if character.isspace() and code not in SEPARATORS:
                stand_in = ord("\t")
        self[code] = stand_in
        return stand_in


CLASSES = _Classes()


class BytePairs:
    """A tokenizer of byte-level byte-pair encoding.

    Attributes:
        tokens: tokens by number.
        controls: numbers of the control tokens, such as <|im_start|>.

    Args:
        tokens: tokens by number, in characters of bytes; control tokens as they are shown.
        merges: pairs with a space in between, the first to be merged first.
        types: type of each token.
        pieces: rule by which a text is split into pieces: "gpt-2" or "smollm".
    """

    def __init__(
        self, tokens: Sequence[str], merges: Sequence[str], types: Sequence[int], pieces: str
    ) -> None:
        self.tokens = tuple(tokens)
        self._numbers = {token: k for k, token in enumerate(tokens)}
        # Of equal merges, the first one counts.
        self._ranks = {merge: k for k, merge in reversed([*enumerate(merges)])}
        self._pieces = PIECES[pieces]
        self.controls = {tokens[k]: k for k, t in enumerate(types) if t in (UNKNOWN, CONTROL)}
        self._own = {tokens[k]: k for k, t in enumerate(types) if t == USER_DEFINED}
        self._verbatim = {k for k, t in enumerate(types) if t != NORMAL}
        self._of_piece = lru_cache(CACHED)(self._merged)

    def encode(self, text: str, *, controls: bool = False) -> list[int]:
        """Returns the numbers of the tokens of a text.

        Args:
            text: the text.
            controls: whether control tokens in the text, such as <|im_start|>, become one number,
                instead of the numbers of their letters.
        """
        known = {**self._own, **(self.controls if controls else {})}
        numbers: list[int] = []
        for part in _split(text, known):
            if part in known:
                numbers.append(known[part])
                continue
            classes = part.translate(CLASSES)
            for match in self._pieces.finditer(classes):
                numbers += self._of_piece(part[match.start() : match.end()])
        return numbers

    def decode(self, numbers: Iterable[int]) -> str:
        """Returns the text of tokens; bytes that are not UTF-8 become �.

        Raises:
            DataError: for a number that no token has.
        """
        data = bytearray()
        for k in numbers:
            token = self._token(k)
            if k in self._verbatim:
                data += token.encode()
            else:
                data += bytes(BYTES[c] for c in token if c in BYTES)
        return data.decode(errors="replace")

    def count_within(self, numbers: Sequence[int], size: int) -> int:
        """Returns how many of the first tokens end within the first `size` bytes of their text.

        Raises:
            DataError: for a number that no token has.
        """
        end = 0
        for count, k in enumerate(numbers):
            token = self._token(k)
            end += len(token.encode() if k in self._verbatim else token)
            if end > size:
                return count
        return len(numbers)

    def _token(self, number: int) -> str:
        """Returns a token by its number; raises DataError if there is none."""
        if not 0 <= number < len(self.tokens):
            raise DataError(
                f"numbers: must be tokens 0 … {len(self.tokens) - 1}, but got {number}."
            )
        return self.tokens[number]

    def _merged(self, piece: str) -> tuple[int, ...]:
        """Returns the numbers of the tokens of a piece.

        A part that was merged into the one before it is empty; `before` and `after` are the
        neighbors of a part. The heap holds pairs by rank and place; those of which a part was
        merged in between are left out.
        """
        parts = [CHARACTERS[byte] for byte in piece.encode("utf-8", "surrogatepass")]
        count, ranks = len(parts), self._ranks
        before, after = list(range(-1, count - 1)), list(range(1, count + 1))

        def pair(left: int, right: int) -> Iterator[tuple[int, int, str]]:
            if left >= 0 and right < count:
                merge = f"{parts[left]} {parts[right]}"
                if merge in ranks:
                    yield ranks[merge], left, merge

        heap = [entry for k in range(count - 1) for entry in pair(k, k + 1)]
        heapify(heap)
        while heap:
            _, left, merge = heappop(heap)
            right = after[left]
            if right >= count or f"{parts[left]} {parts[right]}" != merge:
                continue
            parts[left], parts[right] = parts[left] + parts[right], ""
            after[left] = after[right]
            if after[left] < count:
                before[after[left]] = left
            for entry in (*pair(before[left], left), *pair(left, after[left])):
                heappush(heap, entry)
        return tuple(number for part in parts if part for number in self._known(part))

    def _known(self, part: str) -> list[int]:
        """Returns the token of a part; if there is none, those of its bytes that are tokens.

        Vocabularies lack bytes that the texts of their training never had.
        """
        numbers = self._numbers
        return [numbers[p] for p in ([part] if part in numbers else part) if p in numbers]


def _split(text: str, known: Mapping[str, int]) -> list[str]:
    """Returns the parts of a text, of which some are known tokens, the longest first."""
    parts = [text]
    for token in sorted(known, key=len, reverse=True):
        if token and token in text:
            parts = [
                piece
                for part in parts
                for piece in ([part] if part in known else _around(part, token))
            ]
    return [part for part in parts if part]


def _around(text: str, token: str) -> list[str]:
    """Returns what is between the occurrences of a token, and the occurrences, in order."""
    first, *others = text.split(token)
    return [first, *(piece for other in others for piece in (token, other))]
