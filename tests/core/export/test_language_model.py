"""GGUF files of language models become Circle models that compute the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.gguf_files import (
    CONTEXT,
    HEAD,
    LLAMA,
    TOKENIZER,
    TOKENS,
    float32,
    gguf,
    llama_logits,
    llama_weights,
    tiny_llama,
)

import odt
from odt.cli.main import main
from odt.core.export.language_model import halves, neighbors
from odt.core.formats.gguf.reader import ENTRY, GgufTensor, parse_gguf
from odt.core.formats.reader import read_model
from odt.errors import OdtError

T = 12


def convert(data: bytes, folder: Path, context: int = T) -> Path:
    source, output = folder / "m.gguf", folder / "m.circle"
    source.write_bytes(data)
    odt.convert_gguf(source, output, context)
    return output


def tokens(count: int = 3) -> Any:
    return np.random.default_rng(1).integers(0, len(TOKENS), (count, T)).astype(np.int32)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("code", ["<f4", "<f2"])
def test_logits_are_those_of_the_formulas(code: str, tied: bool, tmp_path: Path) -> None:
    weights = {n: w.astype(code).astype(np.float32) for n, w in llama_weights(tied=tied).items()}
    tensors = {n: float32(w) for n, w in weights.items()}
    if code == "<f2":
        for name, w in weights.items():
            if w.ndim == 2:
                tensors[name] = (w.shape, 1, w.astype(code).tobytes())
    path = convert(gguf({**LLAMA, **TOKENIZER}, tensors), tmp_path)
    x = tokens()
    y = odt.predict(path, x)
    for k in range(len(x)):
        expected = llama_logits(weights, x[k])
        assert abs(y[k] - expected).max() < 1e-5 * abs(expected).max()


def test_logits_of_blocks_are_those_of_the_formulas(tmp_path: Path) -> None:
    data = tiny_llama()
    file = parse_gguf(memoryview(data), "m.gguf")
    weights = {name: values_of(tensor) for name, tensor in file.tensors.items()}
    x = tokens()
    y = odt.predict(convert(data, tmp_path), x)
    for k in range(len(x)):
        expected = llama_logits(weights, x[k])
        assert abs(y[k] - expected).max() < 1e-5 * abs(expected).max()


def values_of(tensor: GgufTensor) -> Any:
    """The values of a tensor: d q of Q8_0, d q + m of Q4_1, of which low bits come first."""
    kind, data = tensor.kind, tensor.data
    if kind.name == "F32":
        return data.view("<f4").reshape(tensor.shape)
    blocks = data.reshape(-1, kind.nbytes)
    d = blocks[:, :2].copy().view("<f2").astype(np.float64)
    if kind.name == "Q8_0":
        return (d * blocks[:, 2:].view(np.int8)).reshape(tensor.shape)
    m, q = blocks[:, 2:4].copy().view("<f2").astype(np.float64), blocks[:, 4:]
    return (d * np.concatenate((q & 15, q >> 4), axis=1) + m).reshape(tensor.shape)


def test_blocks_keep_their_bytes(tmp_path: Path) -> None:
    data = tiny_llama()
    model = read_model(convert(data, tmp_path))
    file = parse_gguf(memoryview(data), "m.gguf")
    stored = {t.name: t for t in model.graph.tensors if t.name in file.tensors}
    assert stored.keys() == file.tensors.keys()
    for name, tensor in file.tensors.items():
        new = stored[name]
        assert (new.spec.shape, new.data is None) == (tensor.shape, False)
        kind = tensor.kind.name
        assert new.spec.dtype.names == (None if kind == "F32" else (f"GGML_{kind}",))
        assert new.data is not None
        data_of_new = new.data.reshape(-1).view(np.uint8)
        rows = tensor.rows()
        if "attn_q" in name or "attn_k" in name:  # rows 0, 2, 4, … of a head before 1, 3, 5, …
            order = [*range(0, HEAD, 2), *range(1, HEAD, 2)]
            rows = rows.reshape(-1, HEAD, rows.shape[1])[:, order]
        np.testing.assert_array_equal(data_of_new, rows.reshape(-1))


def test_metadata_stays(tmp_path: Path) -> None:
    data = tiny_llama(general__name="Tiny")
    model = read_model(convert(data, tmp_path))
    kept = parse_gguf(model.buffer(model.metadata[ENTRY]), "metadata")
    assert kept.metadata["general.name"] == "Tiny"
    assert kept.metadata["tokenizer.ggml.tokens"] == TOKENS
    assert bytes(kept.entries) == bytes(parse_gguf(memoryview(data), "m").entries)
    assert not kept.tensors


def test_the_order_of_neighbors_is_that_before_halves() -> None:
    rows = np.arange(48, dtype=np.uint8).reshape(16, 3)
    np.testing.assert_array_equal(neighbors(halves(rows, 8).reshape(16, 3), 8), rows.reshape(-1))


def test_large_data_is_not_copied(tmp_path: Path) -> None:
    """The file is as long as its parts: data of large buffers is in it once, and aligned."""
    path = convert(tiny_llama(), tmp_path)
    data = path.read_bytes()
    arrays = [t.data for t in read_model(path).graph.tensors if t.data is not None]
    large = [a.tobytes() for a in arrays if a.nbytes >= 4096]
    assert large
    for content in large:
        assert data.index(content) % 16 == 0
        assert data.count(content) == 1


def without(name: str) -> bytes:
    weights = llama_weights()
    del weights[name]
    return gguf(LLAMA, {n: float32(w) for n, w in weights.items()})


def with_tensor(name: str, shape: tuple[int, ...], code: int, nbytes: int) -> bytes:
    tensors = {n: float32(w) for n, w in llama_weights().items()}
    return gguf(LLAMA, {**tensors, name: (shape, code, bytes(nbytes))})


ROPE = "llama__rope__scaling__type"
REFUSED: dict[str, tuple[bytes, str]] = {
    "architecture": (tiny_llama(general__architecture="gemma3"), "must be llama, but got gemma3"),
    "adapter": (tiny_llama(general__type="adapter"), "must be a model, but got adapter"),
    "arrays": (tiny_llama(general__type=[1, 2]), "must be a model, but got [1 2]"),
    "rope": (tiny_llama(**{ROPE: "yarn"}), "it scales rotary embeddings"),
    "split": (tiny_llama(split__count=2), "it is split; join its files with llama-gguf-split"),
    "splits": (tiny_llama(split__count=[1, 2]), "it is split"),
    "experts": (tiny_llama(llama__expert_count=8), "it has experts (expert_count)"),
    "expert counts": (tiny_llama(llama__expert_count=[8, 8]), "it has experts (expert_count)"),
    "hyper": (tiny_llama(llama__attention__sliding_window=9), "attention.sliding_window"),
    "K-quants": (
        with_tensor("output.weight", (len(TOKENS), 256), 12, len(TOKENS) * 144),
        "it has tensors of Q4_K, not only F32, F16, Q4_0, Q4_1, Q8_0",
    ),
    "unknown": (with_tensor("blk.0.attn_q.bias", (64,), 0, 256), "but got blk.0.attn_q.bias"),
    "missing": (without("blk.1.ffn_up.weight"), "must have blk.1.ffn_up.weight, but lacks it"),
    "no head": (without("output_norm.weight"), "must have output_norm.weight"),
    "blocks": (tiny_llama(llama__block_count=10**9), "must have blk.999999999.attn_norm.weight"),
    "scalar": (with_tensor("token_embd.weight", (), 0, 4), "must have shape (1, 64), but got ()"),
    "shape": (tiny_llama(llama__feed_forward_length=95), "must have shape (95, 64)"),
    "heads": (tiny_llama(llama__attention__head_count_kv=3), "but got 3 and 4"),
    "width": (tiny_llama(llama__rope__dimension_count=8), "must be the width of a head, 16"),
    "odd width": (tiny_llama(llama__attention__key_length=15), "an even width for rotary"),
    "number": (tiny_llama(llama__block_count="2"), "must be a positive whole number, but got 2"),
    "zero": (tiny_llama(llama__attention__head_count=0), "must be a positive whole number"),
    "epsilon": (
        tiny_llama(llama__attention__layer_norm_rms_epsilon=float("nan")),
        "must be a positive number, but got nan",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_are_refused_by_name(name: str, tmp_path: Path) -> None:
    data, message = REFUSED[name]
    with pytest.raises(OdtError) as error:
        convert(data, tmp_path)
    assert message in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.gguf").write_bytes(tiny_llama())

    def run(*args: object) -> Any:
        return CliRunner().invoke(main, ["convert", *map(str, args)])

    result = run("m.gguf", "m.circle", "--context", 16)
    assert result.output == (
        f"m.gguf (gguf) is now m.circle (circle)\ntokens (1, 16) -> logits (1, 16, {len(TOKENS)})\n"
    )
    refused = {
        ("m.gguf", "n.circle", "--context", CONTEXT + 1): f"--context: must be 1 to {CONTEXT}",
        ("m.gguf", "n.tflite"): "OUT n.tflite: must end in .circle, but got .tflite",
        ("m.gguf", "n.circle", "--export-weights", "float"): "--export-weights: must be left out",
        ("m.gguf", "n.circle", "--max-detections", 3): "--max-detections: must be left out",
        ("m.circle", "n.circle", "--context", 16): "--context: must be left out for m.circle",
    }
    for args, message in refused.items():
        result = run(*args)
        assert result.exit_code == 1
        assert message in result.stderr
    assert not Path("n.circle").exists()
