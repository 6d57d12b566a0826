"""Checkpoints and artifacts of a small model, and functions that damage and use them."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from model_builder import ModelBuilder

import odt
from odt.artifacts.files import sha256
from support.bounded import answers
from support.file_mutations import (
    Damage,
    Random,
    any_bytes,
    edited_checkpoint,
    either,
    fields,
    json_text,
    npy_header,
    own_checkpoint,
    pick,
    same_types,
    zip_of,
)
from support.mutations import mutations

X = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[X[:, :3].argmax(1)]
MODEL, DEVICE = "m.circle", "device"
# What replaces a piece of the recipe.
TOML: tuple[str, ...] = (
    "",
    "=",
    "[",
    "]",
    '"',
    "'",
    "\n",
    "#",
    "1",
    "-1",
    "1e400",
    "nan",
    "9" * 30,
    "true",
    "{}",
)
TOML += ("[[a]]", "a.b = 1\n", 'workers = "2"\n', "workers = 100000\n", "micro-batch = 10000000\n")
TOML += ("\x00", "é", "memory-budget = 1\n", 'output-loss = ["0=none"]\n', 'metric = "auc"\n')


def trainer(folder: Path, **options: Any) -> odt.Trainer:
    return odt.Trainer(
        folder / MODEL, **{"optimizer": odt.Adam(0.01), "batch_size": 4, "ema": 0.5, **options}
    )


def prepare(folder: Path) -> None:
    """Writes a model of 6 → 5 → 3, three checkpoints and a folder of artifacts."""
    builder = ModelBuilder("circle")
    y = builder.add_dense(builder.add_dense(builder.add_input((1, 6)), 5), 3)
    builder.write(folder / MODEL, builder.add_operator("SOFTMAX", [y], (1, 3), beta=1.0))
    with trainer(folder) as t:
        t.train_on_batch(X[:4], Y[:4])
        t.state.properties["device"] = "kitchen"
        t.state.save(folder / "full.odt")
        t.state.save(folder / "full.npz")
        t.state.save(folder / "nominal.odt", nominal=True)
    with trainer(folder, trainable=odt.last(2)) as t:
        t.state.save(folder / "frozen.odt", trainable_only=False)
    odt.generate_artifacts(
        folder / MODEL, folder / DEVICE, optimizer=odt.Adam(0.01), batch_size=4,
        trainable=odt.last(2), memory_budget="100MB", workers=1, metrics="accuracy",
    )  # fmt: skip


def use_state(path: Path) -> None:
    """Loads a checkpoint, prints, changes and saves it, and trains with it."""
    state = odt.CheckpointState.load(path)
    repr((state, state.parameters, state.optimizer_state, state.properties))
    if state.is_nominal:
        if state.parameters_size(False) < 10_000:
            state.copy_buffer_to_parameters(
                np.zeros(state.parameters_size(False), np.float32), trainable_only=False
            )
        else:
            return
    state.copy_buffer_to_parameters(state.get_contiguous_parameters())
    state.copy_buffer_to_optimizer_state(state.get_contiguous_optimizer_state())
    state.step += 1
    state.properties["more"] = 1
    state.save(path.parent / "again.odt", trainable_only=False)
    with odt.Trainer(path.parent / MODEL, checkpoint=state) as t:
        t.train_on_batch(X[:1], Y[:1])


def resume(path: Path) -> None:
    """Resumes training from a checkpoint; a nominal one gets weights first."""
    with odt.Trainer(path.parent / MODEL, checkpoint=path) as t:
        if t.state.is_nominal:
            t.state.copy_buffer_to_parameters(np.zeros(t.state.parameters_size(), np.float32))
        t.fit(X, Y, epochs=1, new_data=True)


def use_artifacts(path: Path) -> None:
    """Trains with a folder of artifacts."""
    with odt.Trainer.from_artifacts(path.parent) as t:
        t.train_on_batch(X[:1], Y[:1])
        t.export(path.parent.parent / "new.circle")


def model_bytes(data: bytes, rng: Random) -> bytes:
    return next(mutations(data, 1, int(rng.integers(2**31))))


def toml_text(data: bytes, rng: Random) -> bytes:
    """Replaces numbers, or pieces of the text."""
    text = data.decode()
    if rng.random() < 0.4:
        lines = [*text.splitlines(), "micro-batch = 1", "workers = 1"]
        at = pick([k for k, line in enumerate(lines) if line[-1].isdigit()], rng)
        value = pick((0, 1, 2, 3, 1000, 10**6, 10**9, 2**31, 2**62, 2**63 - 1), rng)
        lines[at] = f"{lines[at].partition('=')[0]}= {value}"
        return "\n".join(lines[: at + 1]).encode()
    for _ in range(int(rng.integers(1, 4))):
        at, cut = int(rng.integers(len(text) + 1)), int(rng.integers(0, 12))
        text = text[:at] + pick(TOML, rng) + text[at + cut :]
    return text.encode()


@dataclass(frozen=True)
class Kind:
    """A kind of damage.

    Attributes:
        file: name of the file.
        damage: damages its bytes.
        use: uses the file.
        signed: whether the manifest gets the SHA-256 of the damaged file.
    """

    file: str
    damage: Damage
    use: Callable[[Path], None]
    signed: bool = False

    def write(self, folder: Path, data: bytes) -> Path:
        """Writes the bytes of the file; returns its path."""
        path = folder / self.file
        path.write_bytes(data)
        if self.signed:
            manifest = path.parent / "artifacts.json"
            content = json.loads(manifest.read_text(encoding="utf-8"))
            content["files"][path.name] = sha256(str(path))
            manifest.write_text(json.dumps(content), encoding="utf-8")
        return path


CHECKPOINT = either(edited_checkpoint, edited_checkpoint, own_checkpoint, any_bytes, fields(64))
ARTIFACT = partial(Kind, use=use_artifacts)
KINDS = {
    "state": Kind("full.odt", CHECKPOINT, use_state),
    "resume": Kind("full.odt", CHECKPOINT, resume),
    "npz": Kind("full.npz", either(zip_of(either(npy_header, any_bytes)), any_bytes), use_state),
    "frozen": Kind("frozen.odt", CHECKPOINT, use_state),
    "nominal": Kind("nominal.odt", CHECKPOINT, use_state),
    "nominal resume": Kind("nominal.odt", CHECKPOINT, resume),
    "manifest": ARTIFACT(f"{DEVICE}/artifacts.json", either(same_types, json_text, any_bytes)),
    "model": ARTIFACT(f"{DEVICE}/model.circle", any_bytes),
    "model, signed": ARTIFACT(f"{DEVICE}/model.circle", model_bytes, signed=True),
    "checkpoint, signed": ARTIFACT(f"{DEVICE}/checkpoint.odt", CHECKPOINT, signed=True),
    "recipe, signed": ARTIFACT(f"{DEVICE}/recipe.toml", either(toml_text, any_bytes), signed=True),
}


def fuzz(kind: Kind, source: Path, folder: Path, count: int, seed: int) -> None:
    """Damages a file again and again, in a copy of the sound files, and uses it."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    path = folder / kind.file
    data, rng, found = path.read_bytes(), np.random.default_rng(seed), []
    assert answers(partial(kind.use, path)), "the sound file must be accepted"
    for number in range(count):
        kind.write(folder, kind.damage(data, rng))
        try:
            found.append(answers(partial(kind.use, path)))
        except BaseException as e:
            kept = Path(os.environ.get("ODT_FUZZ_KEEP", folder)) / f"{number}-{path.name}"
            kept.write_bytes(path.read_bytes())
            e.add_note(f"mutation {number}, seed {seed}, kept as {kept}")
            raise
        if path.name == "artifacts.json":
            continue
        manifest = path.parent / "artifacts.json"
        if manifest.exists():
            shutil.copy(source / DEVICE / manifest.name, manifest)
    assert count < 200 or sum(found) < count, "damage must not be harmless"
