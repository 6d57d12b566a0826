"""`check`: whether a model can be trained, by operators, memory, and gradients on one batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from odt.arguments import checked_arguments
from odt.charts.html import paragraph, preformatted
from odt.core.data.protocol import Data
from odt.core.export.remedies import before_decoder, largest_part, what_trains
from odt.core.formats.flatbuffer.detection_postprocess import OPERATOR as POST_PROCESS
from odt.core.lowering.unsupported import UnsupportedNode, unsupported_node
from odt.core.model.graph import Graph
from odt.core.model.model import Model as File
from odt.core.model.onnx import PREFIX
from odt.core.model.runtime_rules import litert_note
from odt.core.options.analysis_options import CHECK_OPTIONS
from odt.core.recipe.interface import check_signature
from odt.core.recipe.option_values import check_option
from odt.core.recipe.sequences import is_single_run
from odt.core.recipe.trainability import Trainability, flops, trainability, training_flops
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.storage.free_memory import in_process_of
from odt.core.training.random_data import random_data
from odt.core.training.self_test import self_test, verdict
from odt.dataclass import dataclass
from odt.errors import MAX_MESSAGE, DataError, one_line
from odt.habits import check_arguments
from odt.models.detector_classes import limit_lines
from odt.models.model import Model, Path, file_of, lowered_of
from odt.models.summary import describe_constants
from odt.text import size
from odt.training.memory_text import memory_block, trained_line
from odt.training.opening import open_session
from odt.training.planning import MemoryForecast, plan
from odt.training.session import Session, process_nbytes
from odt.training.trainer import Trainer

MARKS = {True: "ok  ", False: "FAIL", None: "?   "}
VERDICTS = {
    True: "The model can be trained.",
    False: "The model cannot be trained.",
    None: "Unknown whether the model can be trained.",
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of `check`; true if the model can be trained. Printed, it is the text of `odt check`.

    Attributes:
        trains: True, False, or None if unknown.
        findings: a line with the result of each test. If the model has operators that odt cannot
            compute, a line for each of them.
        trained: labels of the weights that train.
        untrained: labels of the selected weights that get no gradient.
        could_train: how to train a part of a model that cannot be trained as a whole; else empty.
        flops: floating-point operations of a sample, forward.
        training_flops: floating-point operations of a sample, forward and backward.
        nbytes: bytes that training allocates.
        forecast: memory, and with samples the time of an epoch; None if the model cannot train.
        text: all of this, as `odt check` prints it.
    """

    trains: bool | None
    findings: tuple[str, ...]
    trained: tuple[str, ...] = ()
    untrained: tuple[str, ...] = ()
    could_train: str = ""
    flops: int = 0
    training_flops: int = 0
    nbytes: int = 0
    forecast: MemoryForecast | None = None
    text: str = ""

    def __bool__(self) -> bool:
        return self.trains is True

    def __repr__(self) -> str:
        trained = f"{len(self.trained)} weights train, {size(self.nbytes)}"
        return f"CheckResult(trains={self.trains}, {trained})"

    def _repr_html_(self) -> str:
        return f"<div>{paragraph(VERDICTS[self.trains], bold=True)}{preformatted(self.text)}</div>"

    def __str__(self) -> str:
        return self.text


class _Lines:
    """Lines of text, each shown as soon as it is known."""

    def __init__(self, show: Callable[[str], object] | None) -> None:
        self._lines: list[str] = []
        self._show = show

    def add(self, *lines: str) -> None:
        """Adds lines."""
        self._lines += lines
        if self._show is not None and lines:
            self._show("\n".join(lines))

    def __str__(self) -> str:
        return "\n".join(self._lines)


@checked_arguments
def check(
    model: Model | Path,
    x: Any = None,
    y: Any = None,
    *,
    seed: int = 0,
    show: Callable[[str], object] | None = None,
    **options: Any,
) -> CheckResult:
    """Checks before a long run whether a model can be trained.

    One batch of at most 8 samples is tested in float64: the loss must be finite; the gradient of
    every tensor that trains must be finite, and not zero as a whole unless the loss does not depend
    on the tensor; the derivatives by 8 weights, drawn with `seed`, must agree with finite
    differences; and one step must lower the loss. Slow models are tested with fewer samples and
    weights, and in float32 if this is still too slow.

    Args:
        model: a model or the path of its file.
        x: inputs (N, …) of the tested batch, as in `Trainer.fit`; None for random samples.
        y: targets (N, …), as in `Trainer.fit`; left out with a DataSet and with random samples.
        seed: random seed of random samples, and of the weights that are compared.
        show: called with each part of the text as soon as it is known, such as `print`.
        options: arguments of Trainer.

    Raises:
        ModelError: if the model or the checkpoint cannot be read.
        DataError: if the samples do not fit the model.
        OptionError: if options contradict each other or the model.
        UnsupportedError: if the selected signature does not predict, but for example only saves
            weights.
    """
    check_option(CHECK_OPTIONS["seed"], seed)
    source = model if isinstance(model, Model) else Model(file_of(model))
    lowered = lowered_of(source)
    lines = _Lines(show)
    process = process_nbytes(lowered.file)
    check_signature(lowered.file)
    refused = lowered.graphs.unsupported
    if refused:
        part = what_trains(lowered, refused)
        lines.add(*describe_refusals(refused, part))
        return CheckResult(False, tuple(map(str, refused)), could_train=part, text=str(lines))
    check_arguments(options, Trainer.__init__, Trainer.fit)
    if is_detector(lowered.file) and options.get("loss") is None:
        options = {"task": "boxes", **options}
    with open_session(source, single_runs=True, **options) as session:
        core = session.build()
        recipe = session.recipe
        facts = trainability(recipe.graph, core.info, core.plan)
        graph = core.plan.graph
        memory = core.memory()
        schedule = core.runtime.schedule
        forward, whole = flops(graph), training_flops(core.plan)
        notes = (
            describe_left_out(lowered),
            before_decoder(lowered),
            one_line(litert_note(lowered.file), MAX_MESSAGE),
        )
        if session.detection is not None:
            limits = limit_lines(lowered.file)
            lines.add(f"detector: {session.detection.detector}", *limits)
        lines.add(
            *filter(None, notes),
            trained_line(core.parameters.trained.values()),
            *describe_weights(graph, facts),
        )
        result = CheckResult(
            trains=False,
            findings=(),
            trained=tuple(map(graph.label, facts.trained)),
            untrained=tuple(map(graph.label, facts.untrained)),
            flops=forward // schedule.micro_batch,
            training_flops=whole // schedule.micro_batch,
            nbytes=memory.total,
        )
        if facts.blocked and not facts.trained:
            nodes = [unsupported_node(lowered.graph, block.node) for block in facts.blocked]
            part = largest_part(lowered, nodes)
            lines.add(*describe_no_gradient(facts, part))
            return replace(result, could_train=part, text=str(lines))
        lines.add(
            f"arithmetic: {result.flops:,} FLOP a sample forward, "
            f"{result.training_flops:,} forward and backward",
            memory_block(memory, schedule),
        )
        data, length = _samples(session, x, y, seed)
    info = replace(core.info, batch_size=min(core.info.batch_size, length))
    findings = self_test(recipe.graphs, info, data, seed=seed)
    texts = tuple(f"{f.what}: {f.detail}" for f in findings)
    marks = [MARKS[f.passed] for f in findings]
    trains = False if facts.blocked else verdict(findings)
    lines.add(*(f"{mark} {text}" for mark, text in zip(marks, texts, strict=True)))
    forecast = None
    if trains is not False and not is_single_run(file_of(source)):
        with in_process_of(process):
            forecast = plan(source, x, y, **options)
        lines.add(forecast.verdict)
    lines.add(VERDICTS[trains])
    return replace(result, trains=trains, findings=texts, forecast=forecast, text=str(lines))


def is_detector(model: File) -> bool:
    """Whether a model ends in the post-processing of a detector, or anchors are stated for it."""
    return bool(model.anchors) or any(node.op == POST_PROCESS for node in model.graph.nodes)


def _samples(session: Session, x: Any, y: Any, seed: int) -> tuple[Data, int]:
    """Returns the samples of the test and their number; random ones if there are none."""
    core = session.build()
    if x is None and y is None:
        return random_data(core.runtime, seed), core.info.batch_size
    data = session.open(x, y)
    if not data.targets:
        raise DataError("y: must be given to check with samples, but got None.")
    return data, data.length


def describe_refusals(refused: Sequence[UnsupportedNode], part: str) -> list[str]:
    """Describes the nodes that odt cannot compute; a node of a loop once, not for each iteration.

    Args:
        refused: the nodes.
        part: how a part of the model could train; empty if none could.
    """
    first: dict[tuple[object, ...], UnsupportedNode] = {}
    for refusal in refused:
        first.setdefault((refusal.node.origin, refusal.node.op, refusal.reason), refusal)
    lines = [f"blocked: {refusal}" for refusal in first.values()]
    none = "none, because no weights precede or follow these operators"
    if any(refusal.node.op.startswith(PREFIX) for refusal in refused):
        none = "none, because odt cuts no part out of ONNX files"
    return [*lines, f"could train: {part or none}", VERDICTS[False]]


def describe_weights(graph: Graph, result: Trainability) -> list[str]:
    """Describes the weights that get no gradient, with the reason, and those that train."""
    lines = [
        f"blocked: node {block.node.origin} ({block.node.op}): "
        f"{graph.label(block.tensor)} gets no gradient through it"
        for block in result.blocked
    ]
    if result.untrained:
        names = one_line(", ".join(graph.label(i) for i in result.untrained), MAX_MESSAGE)
        lines.append(f"not trained: {names}")
        if result.trained:
            lines.append(f"all weights train with: `last={result.deepest}`")
    if result.trained:
        names = one_line(", ".join(graph.label(i) for i in result.trained), MAX_MESSAGE)
        lines += [f"trained: {names}", *describe_constants(result.constant_reasons, graph)]
    return lines


def describe_no_gradient(result: Trainability, part: str) -> list[str]:
    """Describes a model whose weights all get no gradient.

    Args:
        result: the operators that block gradients.
        part: how a part of the model could train; empty if none could.
    """
    ops = ", ".join(dict.fromkeys(block.node.op for block in result.blocked))
    none = (
        f"none, because the outputs depend on the weights through {ops}, which has no gradient. "
        "Another signature may have outputs before it"
    )
    return [f"could train: {part or none}", VERDICTS[False]]
