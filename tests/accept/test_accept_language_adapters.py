"""Adapters of SmolLM2-135M in Q4_1, trained by odt, in llama.cpp and in PEFT.

tests/support/language_judges.py runs in an environment with xllamacpp, transformers and peft.
"""

from pathlib import Path

import numpy as np
import pytest
from support.language import answer, gguf_file, run
from support.paths import ROOT

import odt
from odt.kernels.rows.opdef import Array

pytestmark = pytest.mark.accept
T, TRAINED, HELD_OUT = 64, 40, 6  # tokens, and windows of them
PROMPTS, LENGTH, LIKELIEST = 50, 16, 5
NEAR, CORRELATION = 1e-4, 0.95


@pytest.fixture(scope="module")
def model() -> Path:
    """The GGUF file."""
    return gguf_file()


@pytest.fixture(scope="module")
def rows(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Array:
    """Windows of T + 1 tokens of odt's pages, in random order."""
    folder = tmp_path_factory.mktemp("tokens")
    texts = [path.read_text() for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
    tokens = [t for found, _ in answer(folder, "tokens", model, texts) for t in found]
    count = len(tokens) // (T + 1)
    windows = np.array(tokens[: count * (T + 1)], np.int32).reshape(count, T + 1)
    return windows[np.random.default_rng(0).permutation(count)]


@pytest.fixture(scope="module")
def trained(model: Path, rows: Array, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with trained adapters in both forms, held-out tokens, and odt's loss of them."""
    folder = tmp_path_factory.mktemp("adapters")
    odt.convert_gguf(model, folder / "m.circle", T)
    adapted = odt.lora(folder / "m.circle", 8, alpha=16, target="blk.*", seed=1)
    held_out = rows[-HELD_OUT:]
    x, y = held_out[:, :T], held_out[:, 1:].copy()
    y[:, -1] = -1  # the judge has no token after the last one
    np.save(folder / "held-out.npy", x)
    with odt.Trainer(
        adapted,
        loss="sparse_categorical_crossentropy",
        optimizer="adamw",
        learning_rate=1e-3,
        batch_size=4,
    ) as trainer:
        before = trainer.evaluate(x, y)["loss"]
        trainer.fit(rows[:TRAINED, :T], rows[:TRAINED, 1:], epochs=3, seed=1)
        after = trainer.evaluate(x, y)["loss"]
        (folder / "peft").mkdir()
        trainer.export_adapters(folder / "peft" / "adapter_model.safetensors")
        trainer.export_adapters(folder / "a.gguf")
    print("held-out loss before and after", before, after)
    assert after < before - 0.1
    (folder / "loss").write_text(repr(after))
    return folder


def test_peft_computes_the_same_held_out_loss(model: Path, trained: Path, tmp_path: Path) -> None:
    tokens = trained / "held-out.npy"
    theirs = answer(tmp_path, "loss", model, tokens, trained / "peft")
    ours = float((trained / "loss").read_text())
    print("odt", ours, "peft", theirs)
    assert abs(ours - theirs) < NEAR * ours


def test_llama_cpp_changes_as_the_float_model(
    model: Path, rows: Array, trained: Path, tmp_path: Path
) -> None:
    """Changes of log-probabilities by the adapter, of the likeliest next tokens of each prompt."""
    prompts = rows[-PROMPTS:, :LENGTH].tolist()
    base, adapted = (
        np.array(answer(tmp_path, "peft", model, prompts, *folder))
        for folder in ((), (trained / "peft",))
    )
    theirs, theirs_adapted = (
        answer(tmp_path, "llama", model, prompts, *path) for path in ((), (trained / "a.gguf",))
    )
    changes, expected = [], []
    for k in range(PROMPTS):
        for token in np.argsort(-base[k])[:LIKELIEST]:
            if {str(token)} <= theirs[k].keys() & theirs_adapted[k].keys():
                changes.append(theirs_adapted[k][str(token)] - theirs[k][str(token)])
                expected.append(adapted[k, token] - base[k, token])
    correlation = float(np.corrcoef(changes, expected)[0, 1])
    print(len(changes), "changes, mean size", np.abs(expected).mean(), "correlation", correlation)
    assert len(changes) >= 0.8 * PROMPTS * LIKELIEST
    assert correlation >= CORRELATION


def test_the_script_of_the_tutorial_shows_what_adapters_change(model: Path, trained: Path) -> None:
    script = ROOT / "docs" / "tutorials" / "run_in_llama.py"
    printed = run(script, model, trained / "a.gguf", "To save memory,", 12).splitlines()
    texts = {line.partition(": ")[0]: line.partition(": ")[2].strip() for line in printed}
    assert texts.keys() >= {"without", "with"}
    assert all(texts[key].startswith("To save memory,") for key in ("without", "with"))
    assert texts["without"] != texts["with"]
