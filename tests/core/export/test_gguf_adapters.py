"""Adapters in GGUF files: read, trained, written, and converted to other formats."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.gguf_files import (
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
from support.paths import GOLDEN

import odt
from odt.cli.main import main
from odt.core.formats.gguf.reader import Gguf, parse_gguf
from odt.errors import DataError, ModelError
from odt.kernels.rows.opdef import Array

T, RANK, ALPHA = 6, 2, 3.0
DENSE = GOLDEN / "mlp_sm/model.circle"
ADAPTER = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora"}
HEADER = {**ADAPTER, "adapter.lora.alpha": ALPHA}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A language model of floats."""
    (tmp_path / "m.gguf").write_bytes(tiny_llama("floats"))
    odt.convert_gguf(tmp_path / "m.gguf", tmp_path / "m.circle", T)
    return tmp_path / "m.circle"


def parsed(path: Path) -> Gguf:
    return parse_gguf(memoryview(path.read_bytes()), path.name)


def values(file: Gguf, name: str) -> Array:
    tensor = file.tensors[name]
    assert tensor.kind.name == "F32"
    return tensor.data.view("<f4").reshape(tensor.shape)


def random_adapters() -> dict[str, Array]:
    """Matrices for all layers of the model's blocks, by name in a GGUF file."""
    rng = np.random.default_rng(4)
    found: dict[str, Array] = {}
    for name, w in llama_weights().items():
        if name.startswith("blk.") and w.ndim == 2:
            for letter, shape in (("a", (RANK, w.shape[1])), ("b", (w.shape[0], RANK))):
                found[f"{name}.lora_{letter}"] = rng.normal(0, 0.2, shape).astype(np.float32)
    return found


def merged(arrays: dict[str, Array], scale: float) -> dict[str, Any]:
    """Weights of the model with adapters added, as the formula says, in the order of GGUF."""
    weights = llama_weights()
    for name in {n.removesuffix(".lora_a") for n in arrays if n.endswith(".lora_a")}:
        product = arrays[f"{name}.lora_b"].astype(np.float64) @ arrays[f"{name}.lora_a"]
        weights[name] = (weights[name] + scale * product).astype(np.float32)
    return weights


def write(path: Path, arrays: dict[str, Array], **header: Any) -> Path:
    entries = {**HEADER, **{k.replace("__", "."): v for k, v in header.items()}}
    path.write_bytes(gguf(entries, {name: float32(a) for name, a in arrays.items()}))
    return path


@pytest.mark.parametrize("alpha", [ALPHA, 0.0])
def test_adapters_of_gguf_are_added_in_its_order_of_rows(
    alpha: float, model: Path, tmp_path: Path
) -> None:
    """α = 0 stands for a scale of 1, as in llama.cpp."""
    arrays = random_adapters()
    path = write(tmp_path / "a.gguf", arrays, adapter__lora__alpha=alpha)
    tokens = np.random.default_rng(1).integers(0, len(TOKENS), (2, T)).astype(np.int32)
    ours = odt.predict(odt.load_model(model, path), tokens)
    weights = merged(arrays, alpha / RANK if alpha else 1.0)
    for k, sample in enumerate(tokens):
        expected = llama_logits(weights, sample)
        assert abs(ours[k] - expected).max() < 1e-5 * abs(expected).max()


def test_trained_adapters_have_the_names_and_rows_of_gguf(model: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, len(TOKENS), (4, T)).astype(np.int32)
    adapted = odt.lora(model, RANK, alpha=ALPHA, target="blk.*")
    loss = "sparse_categorical_crossentropy"
    with odt.Trainer(adapted, loss=loss, batch_size=2, learning_rate=0.01) as trainer:
        trainer.fit(tokens, np.roll(tokens, -1, 1), epochs=2, seed=1)
        ours = trainer.predict(tokens)
        trainer.export_adapters(tmp_path / "a.gguf")
        trainer.export_adapters(tmp_path / "a.npz")
    file = parsed(tmp_path / "a.gguf")
    assert {k: file.metadata[k] for k in HEADER} == HEADER
    assert file.tensors.keys() == random_adapters().keys()
    arrays = {name: values(file, name) for name in file.tensors}
    for name, expected in random_adapters().items():
        assert arrays[name].shape == expected.shape
    for k in range(2):
        expected = llama_logits(merged(arrays, ALPHA / RANK), tokens[k])
        assert abs(ours[k] - expected).max() < 1e-4 * abs(expected).max()
    again = odt.load_model(model, tmp_path / "a.gguf")
    again.save_adapters(tmp_path / "b.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "a.npz").read_bytes()


def test_files_become_those_of_other_programs(model: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "a.gguf", random_adapters())
    folder = tmp_path / "peft"
    folder.mkdir()
    for source, output in (
        (path, folder / "adapter_model.safetensors"),
        (folder, tmp_path / "a.npz"),
        (tmp_path / "a.npz", tmp_path / "b.gguf"),
    ):
        words = ["lora", str(model), "--adapters", str(source), "-o", str(output)]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
    for name, array in random_adapters().items():
        np.testing.assert_array_equal(values(parsed(tmp_path / "b.gguf"), name), array)
    config = (folder / "adapter_config.json").read_text()
    assert '"model.layers.1.self_attn.q_proj"' in config  # the names of transformers
    assert '"model.layers.0.mlp.down_proj"' in config


def test_adapters_of_other_models_are_refused(model: Path, tmp_path: Path) -> None:
    arrays = random_adapters()
    name = "blk.0.attn_q.weight"
    pair = {f"{name}.lora_{k}": arrays[f"{name}.lora_{k}"] for k in "ab"}
    a, b = f"{name}.lora_a", f"{name}.lora_b"
    cases: list[tuple[dict[str, Array], dict[str, Any], str]] = [
        ({a: pair[a]}, {}, f"only one of A and B of {name}"),
        ({**pair, "rope": pair[a]}, {}, "a tensor rope"),
        ({a: pair[a], b: pair[b][:-1]}, {}, "rows of heads of 16"),
        ({a: pair[a], b: pair[b][:-HEAD]}, {}, r"B of .* must have shape \(64, 2\)"),
        ({a: pair[a][:1], b: pair[b]}, {}, "ranks 1, 2"),
        ({a: pair[a] * np.float32("inf"), b: pair[b]}, {}, "numbers that are not finite"),
        ({k.replace("blk.0", "blk.7"): v for k, v in pair.items()}, {}, "but got blk.7.attn_q"),
        ({}, {}, "no array"),
        (pair, {"adapter__type": "control"}, "adapter.type control"),
        (pair, {"general__type": "model"}, "`odt convert` makes a Circle model of it"),
        (pair, {"adapter__lora__alpha": -1.0}, "adapter.lora.alpha -1"),
        (pair, {"adapter__lora__alpha": "x"}, "adapter.lora.alpha x"),
    ]
    for tensors, header, message in cases:
        with pytest.raises(DataError, match=message) as e:
            odt.load_model(model, write(tmp_path / "bad.gguf", tensors, **header))
        assert "\n" not in str(e.value)
    with pytest.raises(DataError, match="must belong to a model that odt convert made"):
        odt.load_model(DENSE, write(tmp_path / "a.gguf", pair))
    with pytest.raises(DataError, match="must belong to a model that odt convert made"):
        odt.lora(DENSE, 2).save_adapters(tmp_path / "new.gguf")
    assert not (tmp_path / "new.gguf").exists()
    odt.lora(model, RANK).save_adapters(tmp_path / "ours.gguf")
    weights = {n: float32(w + 1) for n, w in llama_weights().items()}
    (tmp_path / "other.gguf").write_bytes(gguf({**LLAMA, **TOKENIZER}, weights))
    odt.convert_gguf(tmp_path / "other.gguf", tmp_path / "other.circle", T)
    with pytest.raises(ModelError, match="with the model for which they were made"):
        odt.load_model(tmp_path / "other.circle", tmp_path / "ours.gguf")


def test_the_layer_of_the_logits_gets_an_adapter_only_if_a_pattern_matches_it(
    tmp_path: Path,
) -> None:
    """PEFT's all-linear leaves it out, too."""
    weights = {n: float32(w) for n, w in llama_weights(tied=False).items()}
    (tmp_path / "m.gguf").write_bytes(gguf({**LLAMA, **TOKENIZER}, weights))
    odt.convert_gguf(tmp_path / "m.gguf", tmp_path / "m.circle", T)
    layers = {n for n, (shape, *_) in weights.items() if n.startswith("blk.") and len(shape) == 2}

    def adapted(*args: str) -> set[str]:
        line = ["lora", str(tmp_path / "m.circle"), "--rank", "2", *args]
        result = CliRunner().invoke(main, [*line, "-o", str(tmp_path / "a.gguf")])
        assert result.exit_code == 0, result.stderr
        return {name.rsplit(".", 1)[0] for name in parsed(tmp_path / "a.gguf").tensors}

    assert adapted() == layers
    assert adapted("--target", "*") == layers | {"output.weight"}
    assert adapted("--target", "output*") == {"output.weight"}
