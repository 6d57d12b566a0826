"""Trains a shipped model file, and compares it with LiteRT before and after."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from bench.shipped import Cost, cost

from odt.core.data.protocol import Data
from odt.core.export.cut import cut
from odt.core.export.exporter import export_model
from odt.core.model.model import Model
from odt.core.recipe.interface import read_interface
from odt.core.recipe.lowered_model import LoweredModel, lower_model
from odt.core.recipe.prepare import Recipe, Request, prepare
from odt.core.recipe.trainability import trainability
from odt.core.training.random_data import RandomData, random_data
from odt.core.training.self_test import DIFFERENCES, self_test
from odt.core.training.trainer import Trainer
from odt.dataclass import dataclass
from odt.errors import OdtError, TrainingError
from odt.kernels.rows.opdef import Array
from support.drawings import people
from support.judges import difference, litert, odt
from support.networks import ArrayData, InOrder
from support.unrolled import write_unrolled

GROUPS = 2  # batches of the file's size in a step
STEPS = 20
PROBABILITIES = ("LOGISTIC", "SOFTMAX")
FORWARD = 1e-4  # difference from LiteRT that needs no explanation, as a fraction of the range
MOVED = 1e-3  # of the range, at least: outputs that hardly move would agree in any case
RATES = (1e-3, 1e-4, 1e-5, 1e-6)  # of Adam; the first with which the loss falls


@dataclass(frozen=True, slots=True)
class Result:
    """What was found out about a model.

    Attributes:
        name: name in the list.
        operators: operator → number of nodes.
        weights: number of weights that train.
        blocked: why the model does not train whole; empty if it does.
        forward, export: largest difference from LiteRT, as a fraction of the output's range.
        judges: difference of LiteRT's two sets of kernels, if `forward` is above FORWARD.
        moved: how far training moved the outputs, in the same unit: what `export` could notice.
        gradients: what `odt check` finds.
        losses: before and after the steps.
        cost: time and memory of a step.
    """

    name: str
    operators: dict[str, int]
    weights: int = 0
    blocked: str = ""
    forward: float = np.nan
    export: float = np.nan
    judges: float = 0.0
    moved: float = np.nan
    gradients: str = ""
    losses: tuple[float, float] = (np.nan, np.nan)
    cost: Cost | None = None

    def row(self) -> str:
        """The result as a row of a Markdown table."""
        names = ", ".join(f"{op} {n}" for op, n in sorted(self.operators.items()))
        if self.blocked:
            return f"| {self.name} | {names} | – | {self.blocked} | | | | | | | |"
        assert self.cost
        before, after = self.losses
        found = self.cost.step_to_forward
        ratio = "–" if np.isnan(found) else f"{found:.1f}"
        judges = f" (LiteRT's own {self.judges:.0e})" if self.judges else ""
        return (
            f"| {self.name} | {names} | {self.weights:,} | yes | {self.forward:.0e}{judges} | "
            f"{self.gradients} | {before:.4g} → {after:.4g} | {self.moved:.0e} | "
            f"{self.export:.0e} | {ratio} | "
            f"{self.cost.memory_to_plan:.2f} |"
        )


HEAD = (
    "| model | operators | weights | trains whole | forward | gradients | loss | moved | "
    "export | step / LiteRT forward | peak memory / plan |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def examine(entry: dict[str, Any], path: Path, folder: Path) -> Result:
    """Trains one model for a few steps.

    Args:
        entry: the model's entry in tools/shipped_models.toml.
        path: the model.
        folder: where to write the trained model.
    """
    file = _read(entry, path)
    operators = dict(Counter(node.op for node in file.graph.nodes))
    try:
        model = lower_model(file)
        refused = model.graphs.unsupported
        if refused:
            names = dict.fromkeys(f"{n.node.op}" for n in refused)
            return Result(entry["name"], operators, blocked=", ".join(names))
        samples = GROUPS * model.graphs.file_batch
        recipe = _recipe(model, samples, {})
    except OdtError as e:
        return Result(entry["name"], operators, blocked=str(e).partition(": ")[2])
    with Trainer(recipe.graphs, recipe.info, workers=1) as trainer:
        found = trainability(recipe.graph, trainer.info, trainer.plan)
        weights = sum(trainer.parameters.tensors[i].size for i in found.trained)
        inputs = _inputs(entry, _data(trainer), samples)
    if found.untrained:
        names = dict.fromkeys(b.node.op for b in found.blocked)
        return Result(entry["name"], operators, weights, f"no gradient: {', '.join(names)}")
    if model.left_out and "parts" not in entry:
        entry = {**entry, "parts": [{"before": model.graph.outputs}]}
    compared = _in_float(model, folder)
    before = odt(_read(entry, compared), inputs, samples)
    miss = entry.get("miss")
    specs = [model.graphs.specs[i] for i in model.graph.outputs]
    real = [k for k, spec in enumerate(specs) if spec.dtype.kind == "f" and spec.shape]
    tasks = {k: _task(before[k], miss) for k in real}
    recipe = _recipe(model, samples, {str(k): loss for k, (loss, _) in tasks.items()})
    gradients = _gradients(recipe)
    data = ArrayData(inputs, [targets for _, targets in tasks.values()])
    losses = _train(recipe, data, folder / "trained.tflite")
    trained = _in_float(lower_model(_read(entry, folder / "trained.tflite")), folder)
    forward, export, moved, judges = _compared(entry, (compared, trained), inputs, folder)
    return Result(
        entry["name"],
        operators,
        weights,
        forward=forward,
        gradients=gradients,
        losses=losses,
        export=export,
        moved=moved,
        judges=judges,
        cost=cost(entry["name"], path),
    )


def _read(entry: dict[str, Any], path: Path) -> Model:
    return read_interface(path, entry.get("signature"), entry.get("input_shapes"))


def _litert(entry: dict[str, Any], path: Path, inputs: Sequence[Array]) -> list[Array]:
    if "signature" not in entry:
        return litert(path, inputs, list(entry.get("input_shapes", {}).values()))
    model = _read(entry, path)
    (signature,) = (s for s in model.signatures if s.key == model.signature)
    run = Interpreter(str(path), num_threads=1).get_signature_runner(signature.key)
    names = {i: name for name, i in signature.inputs.items()}
    made = {i: name for name, i in signature.outputs.items()}
    results = [
        run(**{names[i]: a[k : k + 1] for i, a in zip(model.graph.inputs, inputs, strict=True)})
        for k in range(len(inputs[0]))
    ]
    return [np.concatenate([r[made[i]] for r in results]) for i in model.graph.outputs]


def _compared(
    entry: dict[str, Any], models: tuple[Path, Path], inputs: Sequence[Array], folder: Path
) -> tuple[float, float, float, float]:
    """Compares a model before and after training with LiteRT, and with each other.

    Probabilities are compared, and their logits: a rounding error by 1e-6 of logits up to 200 is
    one by 5e-5 of a probability, in LiteRT too, if compared with float64; logits close to 0 have
    larger errors than their probabilities, and probabilities close to 0 or 1 do not move.

    Returns:
        Result.forward, export, moved and judges, of the form that moves and agrees better.
    """
    if "parts" in entry:
        return *_parts_compared(entry, models, inputs, folder), 0.0
    found = []
    for before, after in zip(*(_forms(entry, path, folder) for path in models), strict=True):
        ours = [odt(_read(entry, p), inputs, len(inputs[0])) for p in (before, after)]
        judged = [_computed_by_litert(entry, p, folder) for p in (before, after)]
        theirs = [_litert(entry, p, inputs) for p in judged]
        forward, export = map(differences, ours, theirs)
        judges = 0.0
        if forward > FORWARD and "signature" not in entry:
            shapes = list(entry.get("input_shapes", {}).values())
            judges = differences(litert(judged[0], inputs, shapes, xnnpack=False), theirs[0])
        found.append((forward, export, differences(ours[1], ours[0]), judges))
    return min(found, key=lambda form: (form[2] < MOVED, form[1]))


def _computed_by_litert(entry: dict[str, Any], path: Path, folder: Path) -> Path:
    """Returns the model, or a copy without control flow if LiteRT lacks its lists of tensors."""
    if "unrolled" not in entry:
        return path
    copy = folder / f"{path.stem}.unrolled.tflite"
    write_unrolled(_read(entry, path), copy)
    return copy


def _parts_compared(
    entry: dict[str, Any], models: tuple[Path, Path], inputs: Sequence[Array], folder: Path
) -> tuple[float, float, float]:
    """Compares the parts that LiteRT computes; returns Result.forward, export and moved.

    Parts that begin in the middle of the model get what odt computes there.
    """
    found = []
    for path in models:
        file, ours, theirs = _read(entry, path), list[Array](), list[Array]()
        for k, part in enumerate(entry["parts"]):
            after = part.get("after", ())
            front = cut(file, before=after).model if after else None
            inner = cut(file, after, part["before"]).model
            given = odt(front, inputs, len(inputs[0])) if front else _inputs_of(file, inner, inputs)
            copy = folder / f"{path.stem}.part{k}.tflite"
            export_model(inner, {}, copy)
            ours += odt(copy, given, len(inputs[0]))
            theirs += _litert({}, copy, given)
        found.append((ours, theirs))
    (before, judged), (trained, judged_again) = found
    errors = differences(before, judged), differences(trained, judged_again)
    return *errors, differences(trained, before)


def _inputs_of(whole: Model, part: Model, inputs: Sequence[Array]) -> list[Array]:
    """Returns the inputs of a model that a part of it has too, which keep their names."""
    names = {part.graph.tensors[i].name for i in part.graph.inputs}
    each = zip(whole.graph.inputs, inputs, strict=True)
    return [a for i, a in each if whole.graph.tensors[i].name in names]


def _forms(entry: dict[str, Any], path: Path, folder: Path) -> list[Path]:
    """Returns the model, and a copy whose outputs are logits if it has probabilities."""
    graph = _read(entry, path).graph
    made = {i: node for node in graph.nodes for i in node.outputs if node.op in PROBABILITIES}
    if "signature" in entry or made.keys().isdisjoint(graph.outputs):
        return [path]
    logits = [made[i].inputs[0] if i in made else i for i in graph.outputs]
    return [path, _with_outputs(path, folder, logits)]


def _with_outputs(path: Path, folder: Path, tensors: Sequence[int]) -> Path:
    """Returns a copy of a model with these outputs, as many as before."""
    data = bytearray(path.read_bytes())
    outputs = schema.Model.GetRootAs(data).Subgraphs(0).OutputsAsNumpy()
    outputs[:] = tensors
    copy = folder / f"{path.stem}.logits.tflite"
    copy.write_bytes(data)
    return copy


def differences(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """Returns the largest difference over all outputs, as a fraction of each output's range.

    Two samples may have nearly the same value, so a range counts as at least a tenth of the largest
    value: 1e-5 of it is eight times the distance of two float32 numbers.
    """
    found = 0.0
    for ours_k, theirs_k in zip(ours, theirs, strict=True):
        a, b = (np.asarray(v, np.float64) for v in (ours_k, theirs_k))
        spread = float(b.max() - b.min()) or 1.0
        found = max(found, difference(a, b) * spread / max(spread, 0.1 * float(abs(b).max())))
    return found


def _recipe(model: LoweredModel, samples: int, losses: dict[str, str]) -> Recipe:
    options = {"loss": "mean_squared_error", "batch_size": samples}
    return prepare(model, Request({**options, "output_losses": tuple(losses.items()) or None}))


def _data(trainer: Trainer) -> RandomData:
    """Random samples; those of models of pictures are pixels between 0 and 1."""
    data = random_data(trainer.runtime, seed=0)
    pictures = all(len(s.shape) == 3 and s.shape[-1] in (1, 3) for s in data.inputs)
    return replace(data, floats="unit") if pictures else data


def _inputs(entry: dict[str, Any], data: RandomData, samples: int) -> list[Array]:
    if entry.get("pictures") == "people":
        return [people(samples, *s.shape[:2]) for s in data.inputs]
    data = replace(data, floats=entry.get("inputs", data.floats))
    inputs = [np.empty((samples, *s.shape), s.dtype) for s in data.inputs]
    data.read(range(samples), inputs, ())
    return inputs


def _task(outputs: Array, miss: float | None) -> tuple[str, Array]:
    """Returns a loss that fits the values, and targets that they miss.

    Normalized outputs cannot move all by the same amount, so targets miss them by random ones, up
    to 1, or a fraction of their range.
    """
    if outputs.min() < 0 or outputs.max() > 1:
        missed = np.random.default_rng(0).random(outputs.shape[1:], np.float32)
        most = np.float32(1 if miss is None else miss * np.ptp(outputs))
        return "mean_squared_error", outputs + most * missed
    if outputs.shape[-1] > 1 and np.allclose(outputs.sum(axis=-1), 1, atol=1e-3):
        wanted = outputs.argsort(axis=-1)[..., -2]
        return "categorical_crossentropy", np.eye(outputs.shape[-1], dtype=np.float32)[wanted]
    return "binary_crossentropy", (outputs < 0.5).astype(np.float32)


def _gradients(recipe: Recipe) -> str:
    with Trainer(recipe.graphs, recipe.info, workers=1) as trainer:
        data = _data(trainer)
    found = {f.what: f for f in self_test(recipe.graphs, recipe.info, data)}
    wrong = [f"{f.what}: {f.detail}" for f in found.values() if f.passed is False]
    told = DIFFERENCES in found and found[DIFFERENCES].passed
    return "; ".join(wrong) or ("agree" if told else "unknown")


def _in_float(model: LoweredModel, folder: Path) -> Path:
    """Returns the model with float weights: of int8 ones, LiteRT rounds the activations too."""
    file, tensors = model.file, model.part.graph.tensors
    stored = model.dequantized.stored.values()
    if not any(tensors[i].spec.dtype.kind in "iu" for i in stored if i < len(tensors)):
        return Path(file.path)
    path = folder / f"{Path(file.path).stem}.float.tflite"
    export_model(file, {}, path, float_weights=True)
    return path


def _train(recipe: Recipe, data: Data, path: Path) -> tuple[float, float]:
    """Trains until the loss has fallen, writes the model, and returns both losses."""
    losses = [np.nan]
    for rate in RATES:
        info = replace(recipe.info, optimizer="adam", hyper_parameters={}, learning_rate=rate)
        with Trainer(recipe.graphs, info, workers=1) as trainer:
            order = InOrder(info.batch_size)
            losses = []
            with suppress(TrainingError):  # too large a step: the loss is not finite
                for epoch in trainer.train(data, order, epochs=STEPS):
                    losses.append(epoch.training.loss)
            if len(losses) < STEPS:
                continue
            if losses[-1] < losses[0] or rate == RATES[-1]:
                export_model(recipe.model, trainer.weights(), path)
                break
    return losses[0], losses[-1]
