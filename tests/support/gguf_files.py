"""GGUF files, written from the specification without odt."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensor = tuple[tuple[int, ...], int, bytes]  # shape, code of the type, bytes
U32, I32, F32, BOOL, TEXT, ARRAY = 4, 5, 6, 7, 8, 9  # types of values
FORMS = {U32: "I", I32: "i", F32: "f", BOOL: "?"}


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind: int, content: Any) -> bytes:
    """Returns a value of a type without the type."""
    return text(content) if kind == TEXT else struct.pack(f"<{FORMS[kind]}", content)


def kind_of(content: Any) -> int:
    if type(content) is int and content < 0:
        return I32
    kinds = {bool: BOOL, int: U32, float: F32, str: TEXT}
    return kinds[type(content)]


def typed(content: Any) -> bytes:
    """Returns type and value; a list has the type of its first item, or int32 for numbers."""
    if isinstance(content, list):
        kind = TEXT if content and isinstance(content[0], str) else I32
        items = b"".join(value(kind, item) for item in content)
        return struct.pack("<IIQ", ARRAY, kind, len(content)) + items
    kind = kind_of(content)
    return struct.pack("<I", kind) + value(kind, content)


def gguf(metadata: Mapping[str, Any], tensors: Mapping[str, Tensor], alignment: int = 32) -> bytes:
    """Returns the bytes of a file."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for name, content in metadata.items():
        head += text(name) + typed(content)
    body = b""
    for name, (shape, code, data) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", n) for n in reversed(shape))
        head += struct.pack("<IQ", code, len(body))
        body += data + bytes(-len(data) % alignment)
    return head + bytes(-len(head) % alignment if tensors else 0) + body


def float32(values: NDArray[Any]) -> Tensor:
    """Returns a tensor of float32."""
    return values.shape, 0, values.astype("<f4").tobytes()


BYTE_CHARACTERS = "".join(  # of byte-level BPE: printable bytes of Latin-1 stand for themselves
    chr(b) if b in printable else chr(256 + [*others].index(b))
    for printable in ({*range(33, 127), *range(161, 173), *range(174, 256)},)
    for others in (sorted({*range(256)} - printable),)
    for b in range(256)
)
MERGES = (  # each of tokens that are there already
    *("h e", "t he", "Ġ the", "i n", "Ġ a", "a n", "an d", "Ġ and", "o n", "r e", "e r", "Ġ t"),
    *("Ġt o", "in g", "Ġ w", "o r", "or d", "Ġw ord", "l l", "ll o", "he llo", "Ġ hello", "Ċ Ċ"),
    *("Ã ¤", "Ġ Ġ", "ĠĠ ĠĠ", "' s", "s er", "u ser", "a s", "as s", "ass i", "s t", "assi st"),
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TOKENS = [*SPECIAL, *BYTE_CHARACTERS, *(merge.replace(" ", "") for merge in MERGES)]
TOKENIZER = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)),
    "tokenizer.ggml.merges": [*MERGES],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.chat_template": CHATML,
}
BLOCKS, WIDTH, HIDDEN, HEADS, KV_HEADS, HEAD, CONTEXT = 2, 64, 96, 4, 2, 16, 128
LLAMA = {
    "general.architecture": "llama",
    "llama.block_count": BLOCKS,
    "llama.context_length": CONTEXT,
    "llama.embedding_length": WIDTH,
    "llama.feed_forward_length": HIDDEN,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 1000.0,
}


def llama_weights(seed: int = 0, *, tied: bool = True) -> dict[str, NDArray[np.float32]]:
    """Returns random weights of a model of the sizes above, by name in the file."""
    random = np.random.default_rng(seed)

    def weight(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)

    def gain() -> NDArray[np.float32]:
        return random.uniform(0.5, 1.5, WIDTH).astype(np.float32)

    weights = {"token_embd.weight": weight(len(TOKENS), WIDTH), "output_norm.weight": gain()}
    if not tied:
        weights["output.weight"] = weight(len(TOKENS), WIDTH)
    for k in range(BLOCKS):
        shapes = {
            "attn_q": (HEADS * HEAD, WIDTH),
            "attn_k": (KV_HEADS * HEAD, WIDTH),
            "attn_v": (KV_HEADS * HEAD, WIDTH),
            "attn_output": (WIDTH, HEADS * HEAD),
            "ffn_gate": (HIDDEN, WIDTH),
            "ffn_up": (HIDDEN, WIDTH),
            "ffn_down": (WIDTH, HIDDEN),
        }
        weights |= {f"blk.{k}.{name}.weight": weight(*shape) for name, shape in shapes.items()}
        weights |= {f"blk.{k}.{name}_norm.weight": gain() for name in ("attn", "ffn")}
    return weights


def q8_0(values: NDArray[np.float32]) -> Tensor:
    """Returns a tensor of blocks of 32 integers q with one scale d: values d q."""
    blocks = values.reshape(-1, 32)
    d = (abs(blocks).max(axis=1) / 127).astype("<f2")
    q = np.rint(blocks / d.astype(np.float32)[:, None]).clip(-127, 127).astype(np.int8)
    data = np.concatenate((d[:, None].view(np.uint8), q.view(np.uint8)), axis=1)
    return values.shape, 8, data.tobytes()


def q4_1(values: NDArray[np.float32]) -> Tensor:
    """Returns a tensor of blocks of 32 integers 0 … 15 with scale d and minimum m: d q + m."""
    blocks = values.reshape(-1, 32)
    m = blocks.min(axis=1).astype("<f2")
    d = ((blocks.max(axis=1) - m.astype(np.float32)) / 15).astype("<f2")
    scale, least = (a.astype(np.float32)[:, None] for a in (d, m))
    q = np.rint((blocks - least) / scale).clip(0, 15).astype(np.uint8)
    parts = (d[:, None].view(np.uint8), m[:, None].view(np.uint8), q[:, :16] | q[:, 16:] << 4)
    return values.shape, 3, np.concatenate(parts, axis=1).tobytes()


def tiny_llama(form: str = "blocks", **metadata: Any) -> bytes:
    """Returns the file of a small language model.

    Args:
        form: blocks for a file of Q4_1, Q8_0 and F32, floats for F32 alone.
        metadata: further entries, with "__" for ".".
    """
    tensors = {}
    for name, values in llama_weights().items():
        is_matrix = values.ndim == 2 and form == "blocks"
        pack = (q8_0 if name == "token_embd.weight" else q4_1) if is_matrix else float32
        tensors[name] = pack(values)
    others = {name.replace("__", "."): content for name, content in metadata.items()}
    return gguf({**LLAMA, **TOKENIZER, **others}, tensors)


def llama_logits(
    weights: Mapping[str, NDArray[np.float32]], tokens: NDArray[Any]
) -> NDArray[np.float64]:
    """Returns the logits (T, V) after tokens (T,), in float64, of weights as in the file.

    Rotary embeddings rotate neighbors: pair i is the values 2 i and 2 i + 1 of a head.
    """
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    time = len(tokens)
    angles = np.outer(np.arange(time), 1000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2)))
    turn = np.exp(1j * angles)[:, None]

    def norm(x: Any, name: str) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"]

    def rotate(x: Any) -> Any:
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack((pairs.real, pairs.imag), -1).reshape(x.shape)

    x = w["token_embd.weight"][tokens]
    for k in range(BLOCKS):
        block = f"blk.{k}."
        h = norm(x, f"{block}attn_norm")
        q, key, value = (
            (h @ w[f"{block}attn_{name}.weight"].T).reshape(time, -1, HEAD) for name in "qkv"
        )
        q, key = rotate(q), rotate(key)
        y = np.zeros((time, HEADS, HEAD))
        for i in range(HEADS):
            shared = i * KV_HEADS // HEADS
            for t in range(time):
                scores = key[: t + 1, shared] @ q[t, i] / np.sqrt(HEAD)
                p = np.exp(scores - scores.max())
                y[t, i] = p / p.sum() @ value[: t + 1, shared]
        x = x + y.reshape(time, -1) @ w[f"{block}attn_output.weight"].T
        h = norm(x, f"{block}ffn_norm")
        gate, up = (h @ w[f"{block}ffn_{name}.weight"].T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{block}ffn_down.weight"].T
    head = w.get("output.weight", w["token_embd.weight"])
    logits: NDArray[np.float64] = norm(x, "output_norm") @ head.T
    return logits


def main() -> None:
    """Writes a small model and texts for the pages of the documentation."""
    Path("model.gguf").write_bytes(tiny_llama("floats"))
    lines = [{"prompt": f"the word {c}", "completion": f"hello {c}"} for c in "abcdefghij"]
    Path("talks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("texts").mkdir(exist_ok=True)
    for c in "abcdef":
        Path("texts", f"{c}.txt").write_text(f"hello {c}, the word and all " * 3)


if __name__ == "__main__":
    main()
