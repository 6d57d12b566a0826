"""The files of an artifacts folder, and its manifest: names, SHA-256 and expected losses.

model.circle or model.tflite  the model: a circle+ file if it can hold the training info
model.onnx                    an ONNX model, with the files beside it that hold its weights
adapters.npz                  its low-rank adapters, if it has some
checkpoint.odt                weights and optimizer state, or names only; options of training
recipe.toml                   options that the checkpoint does not hold; `odt train` reads it, too
artifacts.json                the manifest: SHA-256 of the files, expected losses, version
"""

import math
import os
from collections.abc import Mapping, Set
from typing import Any

from odt.core.storage.json_text import json_text, parse_json
from odt.core.storage.reading import open_input, printable, read_input, reading
from odt.core.training.random_data import FLOATS
from odt.dataclass import dataclass
from odt.errors import ModelError

FORMAT, VERSION = "odt-artifacts", 1
MANIFEST = "artifacts.json"
RECIPE = "recipe.toml"
CHECKPOINT = "checkpoint.odt"
ADAPTERS = "adapters.npz"
ONNX_MODEL = "model.onnx"
MODELS = ("model.circle", "model.tflite", ONNX_MODEL)
NAMES = (*MODELS, MANIFEST, RECIPE, CHECKPOINT, ADAPTERS)
MAX_BYTES = 1 << 20  # of the manifest and of the recipe
MAX_LOSSES = 100
SHA256_DIGITS = 64
# Largest difference between losses of different kernels and processors.
TOLERANCE, MIN_TOLERANCE = 1e-3, 1e-6  # relative, and absolute for losses near 0


@dataclass(frozen=True, slots=True)
class ExpectedLosses:
    """Losses of the first steps on synthetic data.

    Attributes:
        seed: seed of the data.
        floats: distribution of the model's inputs, one of random_data.FLOATS.
        losses: loss of each step.
    """

    seed: int
    floats: str
    losses: tuple[float, ...]

    def difference(self, losses: tuple[float, ...]) -> str:
        """Describes the first loss that differs by more than rounding; empty if none does."""
        for k, (expected, loss) in enumerate(zip(self.losses, losses, strict=True)):
            if not abs(loss - expected) <= TOLERANCE * abs(expected) + MIN_TOLERANCE:
                return f"{loss:.6g} instead of {expected:.6g} in step {k + 1}"
        return ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of artifacts.json.

    Attributes:
        files: name of each file → its SHA-256.
        expected: losses of the first steps.
        odt: version of odt that wrote the folder.
        data: losses of the first steps on the data; empty if there were none.
    """

    files: Mapping[str, str]
    expected: ExpectedLosses
    odt: str
    data: tuple[float, ...] = ()

    def to_bytes(self) -> bytes:
        """Returns the bytes of the file."""
        expected = self.expected
        content = {
            "format": FORMAT,
            "version": VERSION,
            "odt": self.odt,
            "files": dict(self.files),
            "expected": {
                "seed": expected.seed,
                "floats": expected.floats,
                "losses": list(expected.losses),
            },
            "data": {"losses": list(self.data)},
        }
        return (json_text(content, indent=2) + "\n").encode()


def model_of(files: Mapping[str, str]) -> str:
    """Returns the name of the model among the files of a manifest."""
    return next(name for name in MODELS if name in files)


def read_manifest(folder: str) -> Manifest:
    """Reads the manifest of a folder, and checks that the files are those that it names.

    Raises:
        ModelError: if a file is missing or changed, or the manifest is damaged or newer.
    """
    path = os.path.join(folder, MANIFEST)
    with reading(path, "must be a manifest as odt writes it", ModelError):
        content = parse_json(read_input(path, "a manifest of artifacts", ModelError, MAX_BYTES))
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"no format {FORMAT}")
        version = content.get("version")
        if type(version) is int and version > VERSION:
            raise ModelError(
                f"{path}: the version must be at most {VERSION}, but got {printable(version)}. "
                "Update odt, or generate the artifacts with this version."
            )
        if version != VERSION:
            raise ValueError(f"version {printable(version)}")
        manifest = _manifest(content)
    for name, digest in manifest.files.items():
        actual = sha256(os.path.join(folder, name))
        if actual != digest:
            raise ModelError(
                f"{os.path.join(folder, name)}: must be the file that was validated, with SHA-256 "
                f"{digest}, but got {actual}. Copy the folder again, or generate it again."
            )
    return manifest


def _manifest(content: Mapping[str, Any]) -> Manifest:
    """Returns the manifest with this content; raises ValueError if a value is invalid."""
    files = content["files"]
    expected = content["expected"]
    if not _are_artifacts(files.keys()):
        raise ValueError(f"files {printable(sorted(map(str, files)))}")
    for digest in files.values():
        if not isinstance(digest, str) or len(digest) != SHA256_DIGITS:
            raise ValueError(f"SHA-256 {printable(digest)}")
    seed = expected["seed"]
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ValueError(f"seed {printable(seed)}")
    if expected["floats"] not in FLOATS:
        raise ValueError(f"floats {printable(expected['floats'])}")
    return Manifest(
        files=dict(files),
        expected=ExpectedLosses(seed, expected["floats"], _losses(expected["losses"])),
        odt=str(content["odt"]),
        data=_losses(content["data"]["losses"]),
    )


def _are_artifacts(names: Set[str]) -> bool:
    """Whether a manifest may name these files: one model, recipe, checkpoint, and adapters.

    An ONNX model may have further files, which hold its weights.
    """
    models = [name for name in MODELS if name in names]
    others = names - {*NAMES}
    may_have_others = models == [ONNX_MODEL] and all(map(is_file_name, others))
    return (
        len(models) == 1
        and {RECIPE, CHECKPOINT} <= names
        and MANIFEST not in names
        and (not others or may_have_others)
    )


def is_file_name(name: str) -> bool:
    """Whether a file name has no folders, also on Windows."""
    return name not in ("", ".", "..") and not {*name} & {*"/\\:\0"}


def _losses(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) > MAX_LOSSES:
        raise ValueError(f"losses {printable(values)}")
    for value in values:
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(f"loss {printable(value)}")
    return tuple(map(float, values))


def sha256(path: str) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits.

    Raises:
        ModelError: if the file cannot be read.
    """
    import hashlib

    with open_input(path, "a file of the artifacts", ModelError) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
