"""Checkpoints and artifacts of a small model, and functions that damage and use them."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner
from model_builder import ModelBuilder

import odt
from odt import federated
from odt.cli.main import main
from odt.training.artifact_files import sha256
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
RUN_KEYS = (
    *("model", "load-input", "load-expected", "loss", "output-loss", "metric", "optimizer"),
    *("batch-size", "micro-batch", "accumulate", "learning-rate", "schedule", "validation-split"),
    *("data-length", "seed", "monitor", "memory-budget", "class-weight", "sample-weight", "ema"),
    *("export-circle", "export-checkpoint", "log", "png", "checkpoint", "adapters", "teacher"),
    *("trainable", "cache-frozen", "augment", "dropout", "signature", "input-shape", "properties"),
)
RUN_VALUES: tuple[str, ...] = (
    *('"marker_module:loss"', '"0=marker_module:loss"', '"written.circle"', '"../written.csv"'),
    *('"/dev/zero"', '"."', r'"x\u001b[31m"', r'"\u0000"', "0", "-1", "1e308", "nan", "true", "[]"),
    *("2147483647", "9" * 30, "0x" + "f" * 4000, '["a", "b"]', "{a = 1}", "1979-05-27", "0.99"),
    *('"accuracy"', '"val_x"', '"64MB"', '"1"', '"*"', '"cosine:alpha=0.1"', f'"{"a" * 9999}"'),
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
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    run_odt(
        "train", folder / MODEL, "--load-input", folder / "x.npy", "--load-expected",
        folder / "y.npy", "--epochs", 1, "--validation-split", 0.25, "--metric", "accuracy",
        "--batch-size", 2, "--run-dir", folder / "run",
    )  # fmt: skip
    with trainer(folder, ema=None) as t:
        federated.simulate(t, X, Y, clients=2, rounds=2, save_to=folder / "fed.odt")
    odt.generate_artifacts(
        folder / MODEL, folder / DEVICE, optimizer=odt.Adam(0.01), batch_size=4,
        trainable=odt.last(2), memory_budget="4GB", workers=1, metrics="accuracy",
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
        at = pick([k for k, line in enumerate(lines) if line[-1:].isdigit()], rng)
        value = pick((0, 1, 2, 3, 1000, 10**6, 10**9, 2**31, 2**62, 2**63 - 1), rng)
        lines[at] = f"{lines[at].partition('=')[0]}= {value}"
        return "\n".join(lines[: at + 1]).encode()
    for _ in range(int(rng.integers(1, 4))):
        at, cut = int(rng.integers(len(text) + 1)), int(rng.integers(0, 12))
        text = text[:at] + pick(TOML, rng) + text[at + cut :]
    return text.encode()


def run_odt(*words: object) -> None:
    """Runs a command line.

    Raises:
        odt.OdtError: with the one line of an error.
    """
    done = CliRunner().invoke(main, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code:
        lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert len(lines) == 1, done.output
        raise odt.OdtError(lines[0])


def use_run(path: Path) -> None:
    """Lists, draws and resumes a run in a copy of its folder; no file says what to run or write."""
    copy = path.parent.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path.parent, copy)
    before = {p.name for p in path.parent.parent.iterdir()}
    try:
        errors = []
        few = ("--epochs", 2, "--max-steps", 3, "--workers", 1)
        for words in (
            ["report", "--list", copy],
            ["report", copy],
            ["train", "--run-dir", copy, *few],
        ):
            try:
                run_odt(*words)
            except odt.OdtError as e:
                errors.append(e)
    finally:
        assert {p.name for p in path.parent.parent.iterdir()} == before
        assert "marker_module" not in sys.modules
    if errors:
        raise errors[0]


def use_federation(path: Path) -> None:
    """Goes on with a federation."""
    with trainer(path.parent, ema=None) as t:
        federated.simulate(t, X, Y, clients=2, rounds=2, checkpoint=path)


def run_recipe(data: bytes, rng: Random) -> bytes:
    """Sets a key of a recipe to something else, or adds one, also such as an attacker would."""
    lines = data.decode().splitlines()
    key = pick(RUN_KEYS, rng)
    value = pick(RUN_VALUES, rng)
    kept = [line for line in lines if not line.startswith(f"{key} =")]
    return "\n".join([f"{key} = {value}", *kept]).encode()


def log_lines(data: bytes, rng: Random) -> bytes:
    lines = data.decode().splitlines()
    at = int(rng.integers(len(lines)))
    lines[at] = json_text(lines[at].encode(), rng).decode()
    return "\n".join([*lines, ""]).encode()


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
RUN = partial(Kind, use=use_run)
KINDS = {
    "run, recipe": RUN("run/recipe.toml", either(run_recipe, run_recipe, toml_text, any_bytes)),
    "run, record": RUN("run/run.json", either(same_types, json_text, any_bytes)),
    "run, log": RUN("run/log.jsonl", either(log_lines, log_lines, any_bytes)),
    "run, table": RUN("run/log.csv", any_bytes),
    "run, memory": RUN("run/memory.json", either(same_types, json_text, any_bytes)),
    "run, last": RUN("run/last.odt", CHECKPOINT),
    "run, model": RUN("run/model.circle", model_bytes),
    "federation": Kind("fed.odt", CHECKPOINT, use_federation),
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
