"""Every command that rewrites a graph, on every form of file that odt trains.

LiteRT loads what the command writes and agrees with `odt predict`, or one line says why not.
"""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.judges import difference, litert
from support.model_forms import CLASSES, FORMS, NAMES, Integer, write_form

from odt.cli.main import main
from odt.core.export.exporter import export_model
from odt.core.export.record_metadata import LABELS
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.kernels.rows.opdef import Array

SAMPLES = 16
NEW_CLASSES = 5
CONTROL_FLOW = ("loop", "branches", "composite")
SPARSE = ("sparse", "sparse float16", "sparse int8 weights", "sparse int8")
PRUNED = ("pruning wrappers", "pruning wrappers of float16")
VARIABLES = ("variables", *PRUNED)
QUANTIZED = [name for name, make in FORMS.items() if issubclass(make, Integer)]  # type: ignore[arg-type]
# The runtime sums products of integers in another order where it has hybrid kernels.
NEAR = 0.05
STEPS = 4  # of integers, after a MEAN that is a step off


class Folder:
    """A folder with a model, data for it, and the files that commands write."""

    def __init__(self, folder: Path, form: str) -> None:
        self.folder, self.model = folder, folder / "m.tflite"
        write_form(FORMS[form], self.model)
        rng = np.random.default_rng(0)
        np.save(self / "x.npy", rng.uniform(-1, 1, (SAMPLES, 6, 6, 2)).astype(np.float32))
        for classes in (CLASSES, CLASSES + 1):
            labels = np.eye(classes, dtype=np.float32)[np.arange(SAMPLES) % classes]
            np.save(self / f"y{classes}.npy", labels)
        model = read_model(self.model)
        self.graph, self.tflite = model.graph, self.model
        if model.format == "circle":
            self.tflite = self / "converted.tflite"
            export_model(model, {}, self.tflite, "tflite")

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def run(self, *words: object) -> str:
        """Runs odt; returns its error, which is one line at the end, or nothing."""
        result = CliRunner().invoke(main, [str(w) for w in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        assert result.exit_code in (0, 1), result.output
        lines = result.output.strip().splitlines() or [""]
        if result.exit_code:
            assert lines[-1].startswith("Error: "), result.output
            return lines[-1]
        return ""

    def train(self, model: Path, x: str, *options: object) -> str:
        recipe = ("--loss", "cce", "--epochs", 2, "--batch-size", 4, "--lr", 0.05, "--seed", 1)
        data = ("--load-input", self / x, "--load-expected", self / f"y{CLASSES}.npy")
        return self.run("train", model, *data, *recipe, *options)

    @property
    def mean(self) -> int:
        """The MEAN that computes the features."""
        return next(n.origin for n in self.graph.nodes if n.op == "MEAN")

    @property
    def features(self) -> int:
        return next(n.outputs[0] for n in self.graph.nodes if n.op == "MEAN")


def train(f: Folder, out: Path) -> str:
    return f.train(f.model, "x.npy", "--export-tflite", out)


def train_to_circle(f: Folder, out: Path) -> str:
    error = f.train(f.model, "x.npy", "--export-circle", f / "m.circle")
    return error or f.run("convert", f / "m.circle", out)


def train_to_float(f: Folder, out: Path) -> str:
    return f.train(f.model, "x.npy", "--export-tflite", out, "--export-weights", "float")


def convert(f: Folder, out: Path) -> str:
    return f.run("convert", f.model, f / "m.circle") or f.run("convert", f / "m.circle", out)


def convert_to_float(f: Folder, out: Path) -> str:
    return f.run("convert", f.model, out, "--export-weights", "float")


def replace_head(f: Folder, out: Path) -> str:
    return f.run("replace-head", f.model, "--classes", NEW_CLASSES, "-o", out)


def replace_head_after(f: Folder, out: Path) -> str:
    options = ("--classes", NEW_CLASSES, "--after", f.mean)
    return f.run("replace-head", f.model, *options, "-o", out)


def cut_before(f: Folder, out: Path) -> str:
    return f.run("cut", f.model, "--before", f.features, "-o", out)


def cut_after(f: Folder, out: Path) -> str:
    return f.run("cut", f.model, "--after", f.features, "-o", out)


def join(f: Folder, out: Path) -> str:
    error = cut_after(f, f / "part.tflite")
    if error:
        return error
    graph = read_model(f / "part.tflite").graph
    shape = graph.tensors[graph.inputs[0]].spec.shape[1:]
    x = np.random.default_rng(1).uniform(0, 1, (SAMPLES, *shape)).astype(np.float32)
    np.save(f / "features.npy", x)
    error = f.train(f / "part.tflite", "features.npy", "--export-tflite", f / "trained.tflite")
    joined = f / f"joined.{read_model(f.model).format}"
    error = error or f.run("join", f.model, f / "trained.tflite", "-o", joined)
    return error or f.run("convert", joined, out)


def lora(f: Folder, out: Path) -> str:
    adapters, trained = f / "a.npz", f / "b.npz"
    error = f.run("lora", f.model, "--rank", 2, "-o", adapters)
    options = ("--adapters", adapters, "--export-adapters", trained)
    error = error or f.train(f.model, "x.npy", *options)
    return error or f.run("lora", f.model, "--merge", trained, "-o", out)


def quantize(scheme: str) -> Callable[[Folder, Path], str]:
    def command(f: Folder, out: Path) -> str:
        options = ("--calibrate", f / "x.npy") if scheme in ("int8", "int16x8") else ()
        return f.run("quantize", f.model, "--scheme", scheme, *options, "-o", out)

    return command


def personalize(classes: int) -> Callable[[Folder, Path], str]:
    def command(f: Folder, out: Path) -> str:
        data = ("--load-input", f / "x.npy", "--load-expected", f / f"y{classes}.npy")
        names = ("--classes", ",".join((*NAMES, "emu")[:classes]))
        options = ("--epochs", 2, "--held-back", 0, "--store", f / "s.npz")
        return f.run("personalize", f.model, *data, *names, *options, "-o", out)

    return command


SCHEMES = ("int8", "int16x8", "int8-weights", "int4-weights", "float16")
COMMANDS: dict[str, Callable[[Folder, Path], str]] = {
    "train": train,
    "train to circle": train_to_circle,
    "train to float": train_to_float,
    "convert": convert,
    "convert to float": convert_to_float,
    "replace-head": replace_head,
    "replace-head --after": replace_head_after,
    "cut --before": cut_before,
    "cut --after": cut_after,
    "join": join,
    "lora": lora,
    **{f"quantize {scheme}": quantize(scheme) for scheme in SCHEMES},
    "personalize": personalize(CLASSES),
    "personalize a new class": personalize(CLASSES + 1),
}
# What a command cannot do → what it says.
CUT_OUT = r"node \d+ \(\w+\): a model to quantize must not contain control flow\. Cut out a part"
NO_CUT = r"node \d+ \(\w+\): a part must not contain control flow\. Cut before or after it"
IS_QUANTIZED = "activations must be float32, but got integers: the model is quantized. Give the"
REFUSED = {
    **{(form, f"quantize {s}"): IS_QUANTIZED for form in QUANTIZED for s in SCHEMES},
    **{(form, f"quantize {s}"): CUT_OUT for form in CONTROL_FLOW for s in SCHEMES},
    **{
        (form, "replace-head"): "a model with a new head must not contain control flow. Give"
        for form in CONTROL_FLOW
    },
    **{(form, command): NO_CUT for form in CONTROL_FLOW for command in ("cut --after", "join")},
    **{(form, "lora"): "are sparse, and get none; train it without" for form in SPARSE + PRUNED},
    **{
        (form, "lora"): "adapters must stay in a file of their own if their weights have 2 or 4"
        for form in ("int4 weights", "int8 with int4 weights")
    },
    **{
        (form, "personalize a new class"): r"must be dense .* but are sparse\. Replace the layer"
        for form in SPARSE + PRUNED
    },
    **{(form, "join"): "must be 0 where .* a mask of 0, .* Train the whole" for form in PRUNED},
}
CASES = [(form, command) for form in FORMS for command in COMMANDS]


@pytest.mark.parametrize(("form", "command"), CASES)
def test_litert_agrees_with_what_a_command_writes(form: str, command: str, tmp_path: Path) -> None:
    folder, out = Folder(tmp_path, form), tmp_path / "out.tflite"
    error = COMMANDS[command](folder, out)
    if (form, command) in REFUSED:
        assert re.search(REFUSED[form, command], error)
        assert not out.exists()
        return
    assert not error
    model = read_model(out)
    x = inputs_of(model)
    theirs = litert(out, [x], xnnpack=False)[0]
    y = folder / "y.npy"
    np.save(folder / "in.npy", x)
    error = folder.run("predict", out, "--load-input", folder / "in.npy", "--output", y)
    assert not error
    ours = np.load(y)
    theirs = real(model, theirs)
    most = max(NEAR * float(np.ptp(theirs)), STEPS * step_of(model))
    assert np.abs(real(model, ours) - theirs).max() < most
    if command == "convert" and folder.tflite == folder.model:
        assert out.read_bytes() == folder.model.read_bytes()
    if command == "convert to float":
        stored = (t for t in model.graph.tensors if t.data is not None and len(t.spec.shape) == 2)
        kinds = {t.spec.dtype for t in stored if not t.name.endswith("/mask")}
        assert kinds <= {np.dtype(np.float32)}
        old = read_model(folder.model)
        given = inputs_of(old)
        source = real(old, litert(folder.tflite, [given], xnnpack=False)[0])
        after = litert(out, [real_inputs(old, given)], xnnpack=False)[0]
        assert difference(after, source) < 0.2  # of a narrow range
    if command == "join":
        assert not cut_before(folder, tmp_path / "first.tflite")
        (between,) = litert(tmp_path / "first.tflite", [x], xnnpack=False)
        (whole,) = litert(tmp_path / "trained.tflite", [between], xnnpack=False)
        np.testing.assert_allclose(real(model, whole), theirs, atol=1e-5)
    if command.startswith("quantize"):
        before = litert(folder.tflite, [x], xnnpack=False)[0]
        assert difference(theirs, before) < 0.2  # few weights, of which int4 keeps 15 values
    classes = {"replace": NEW_CLASSES, "personalize a new class": CLASSES + 1}
    if "cut" not in command:
        wanted = next((n for name, n in classes.items() if command.startswith(name)), CLASSES)
        assert theirs.shape == (len(x), wanted)
    if not command.startswith(("replace", "cut")):
        with zipfile.ZipFile(out) as archive:
            names = archive.read(LABELS).decode().split()
        assert names == [*NAMES, "emu"][: theirs.shape[1]]


@pytest.mark.parametrize("form", FORMS)
def test_the_form_can_be_trained(form: str, tmp_path: Path) -> None:
    write_form(FORMS[form], tmp_path / "m.tflite")
    result = CliRunner().invoke(main, ["check", str(tmp_path / "m.tflite")])
    assert result.exit_code == 0, result.output
    assert result.output.endswith("The model can be trained.\n")


def inputs_of(model: Model) -> Array:
    spec = model.graph.tensors[model.graph.inputs[0]].spec
    rng, shape = np.random.default_rng(2), (4, *spec.shape[1:])
    if spec.dtype.kind == "f":
        return rng.uniform(-1, 1, shape).astype(np.float32)
    quantization = model.quantization[model.graph.inputs[0]]
    steps = np.rint(rng.uniform(-1, 1, shape) / quantization.scale) + quantization.zero_point
    info = np.iinfo(spec.dtype)
    clipped: Array = np.clip(steps, info.min, info.max).astype(spec.dtype)
    return clipped


def real_inputs(model: Model, values: Array) -> Array:
    found = model.quantization.get(model.graph.inputs[0])
    if found is None or values.dtype.kind == "f":
        return values
    return ((values.astype(float) - found.zero_point) * found.scale).astype(np.float32)


def step_of(model: Model) -> float:
    """The largest step of the activations before the outputs; 0 for floats."""
    nodes = model.graph.nodes[-2:]
    found = (model.quantization.get(i) for n in nodes for i in (*n.inputs[:1], *n.outputs))
    return max((float(q.scale.max()) for q in found if q is not None), default=0.0)


def real(model: Model, values: Array) -> Array:
    if values.dtype.kind == "f":
        return values
    found = model.quantization[model.graph.outputs[0]]
    return (values.astype(float) - found.zero_point) * found.scale
