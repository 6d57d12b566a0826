"""Language models of GGUF files: tokens of llama.cpp, logits of transformers, damaged files.

ODT_ACCEPT_CASES sets another number of damaged models, and of damaged files of adapters.
"""

import json
import os
import random
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import damaged_adapters
from support.bounded import answers
from support.gguf_files import tiny_llama
from support.language import answer, gguf_file, judge
from support.mutations import mutations
from support.paths import ROOT

import odt
from odt.core.export.language_model import circle_of_gguf
from odt.core.formats.gguf.reader import parse_gguf
from odt.core.formats.gguf.tensor_types import TYPES
from odt.datasets.tokenizer import tokenizer_of

pytestmark = pytest.mark.accept

CASES = int(os.environ.get("ODT_ACCEPT_CASES", "20000"))
PART = 1000
FILES = (
    "docs/*.md",
    "docs/*.svg",
    "core/*/*.py",
    "kernels/native/src/*.[ch]",
    "*.toml",
    "Makefile",
)
LIKELY = 10  # tokens after each prompt
PROMPTS = (
    "The capital of France is",
    "Water boils at a temperature of",
    "def fibonacci(n):\n    ",
    "<|im_start|>user\nWhat is a cat?<|im_end|>\n<|im_start|>assistant\n",
)


def texts() -> Iterator[str]:
    """Files of text and code, and random strings of many alphabets."""
    rng = random.Random(4)
    paths = [path for pattern in FILES for path in sorted(ROOT.glob(pattern))]
    for path in rng.sample(paths, 40):
        yield path.read_text(encoding="utf-8", errors="replace")
    alphabets = [(0x20, 0x7F)] * 4 + [(0x0, 0x21), (0x30, 0x3A), (0xA0, 0x250), (0x300, 0x400)]
    alphabets += [(0x400, 0x500), (0x590, 0x700), (0x900, 0xA00), (0xE00, 0xE80), (0x660, 0x66A)]
    alphabets += [(0x2000, 0x2070), (0x2150, 0x2190), (0x3040, 0x3100), (0x4E00, 0x9FFF)]
    alphabets += [(0xAC00, 0xD7A3), (0x10000, 0x10100), (0x1D400, 0x1D7FF), (0x1F300, 0x1F700)]
    words = ("'s", "'re", "'ll", " '", "n't", "  ", "\n\n", "\r\n", "\t", "<|im_end|>", "3.14")

    def character() -> str:
        while True:
            c = chr(rng.randrange(*rng.choice(alphabets)))
            if unicodedata.category(c) not in ("Cn", "Cs"):
                return c

    for _ in range(2000):
        length = rng.randrange(1, 40)
        yield "".join(
            rng.choice(words) if rng.random() < 0.15 else character() for _ in range(length)
        )


def test_sizes_of_blocks_are_those_of_ggml() -> None:
    sizes = json.loads(judge("sizes"))
    for kind in TYPES.values():
        assert sizes[kind.name] == [kind.values, kind.nbytes]


def test_tokens_are_those_of_llama_cpp(tmp_path: Path) -> None:
    samples = [*texts()]
    expected = answer(tmp_path, "tokens", gguf_file(), samples)
    tokenizer = odt.load_tokenizer(gguf_file())
    for text, (plain, special) in zip(samples, expected, strict=True):
        assert tokenizer.encode(text) == plain, text[:200]
        assert tokenizer.encode(text, controls=True) == special, text[:200]


@pytest.fixture(scope="module")
def circle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2 as Circle, with its blocks."""
    path = tmp_path_factory.mktemp("circle") / "m.circle"
    odt.convert_gguf(gguf_file(), path, 256)
    return path


def test_logits_are_those_of_transformers(circle: Path, tmp_path: Path) -> None:
    """transformers computes with the same weights, dequantized to float32."""
    tokens = np.random.default_rng(0).integers(0, 49152, (1, 256)).astype(np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    judge("logits", gguf_file(), tmp_path / "tokens.npy", tmp_path / "logits.npy")
    expected = np.load(tmp_path / "logits.npy")
    judge("floats", gguf_file(), tmp_path / "m.gguf")
    odt.convert_gguf(tmp_path / "m.gguf", tmp_path / "floats.circle", 256)
    for path in (circle, tmp_path / "floats.circle"):
        difference = abs(odt.predict(path, tokens) - expected).max() / abs(expected).max()
        print(f"{path.name}: logits differ from those of transformers by {difference:.2g}")
        assert difference < 1e-4


def test_probabilities_are_near_those_of_llama_cpp(circle: Path, tmp_path: Path) -> None:
    """llama.cpp rounds activations to 8 bits; the distance is printed."""
    tokenizer = odt.load_tokenizer(circle)
    prompts = [tokenizer.encode(prompt, controls=True) for prompt in PROMPTS]
    differences = []
    for prompt, likely in zip(
        prompts, answer(tmp_path, "llama", gguf_file(), prompts), strict=True
    ):
        tokens = np.zeros((1, 256), np.int32)
        tokens[0, : len(prompt)] = prompt
        logits = odt.predict(circle, tokens)[0, len(prompt) - 1].astype(np.float64)
        log_p = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        differences += [log_p[int(k)] - p for k, p in [*likely.items()][:LIKELY]]
    mean = abs(np.array(differences)).mean()
    print(f"log p of {len(differences)} likely tokens differs by {mean:.3f} on average")
    assert mean < 0.2


def convert(data: bytes) -> Callable[[], object]:
    """Returns what reads and converts a file, and reads its tokenizer."""

    def read() -> Any:
        file = parse_gguf(memoryview(data), "damaged model")
        tokenizer_of(file.metadata, file.path).encode("hello the word")
        return b"".join(circle_of_gguf(file, 16))

    return read


@pytest.mark.parametrize("part", range(-(-CASES // PART)))
def test_damaged_files(part: int) -> None:
    data = tiny_llama()
    # Most bytes are weights, of which each value is valid.
    metadata = len(data) - sum(
        t.data.nbytes for t in parse_gguf(memoryview(data), "").tensors.values()
    )
    count = min(PART, CASES) // 2
    damaged = [*mutations(data, count, seed=part)]
    damaged += [bytes(m) + data[metadata:] for m in mutations(data[:metadata], count, seed=part)]
    assert {answers(convert(m)) for m in damaged} == {True, False}


@pytest.mark.parametrize("form", damaged_adapters.FORMS)
@pytest.mark.parametrize("part", range(-(-CASES // len(damaged_adapters.FORMS) // PART)))
def test_damaged_adapters(form: str, part: int, tmp_path: Path) -> None:
    damaged_adapters.fuzz(form, tmp_path, min(PART, CASES), seed=part)
