"""Prepares a training run: makes a recipe from request, checkpoint, model file and defaults."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from typing import Any

from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.dequantize import DequantizedGraph
from odt.core.model.graph import Graph
from odt.core.model.model import Model
from odt.core.model.quantization_rules import has_quantized_activations
from odt.core.model.training_info import TrainingInfo
from odt.core.options.training_options import (
    BATCH,
    BF16,
    FILE,
    FIXED,
    FLOAT32,
    RECIPE_OPTIONS,
    RESOLVED_OPTIONS,
    TRAINING_OPTIONS,
)
from odt.core.planning.output_loss import Loss
from odt.core.recipe.computations import (
    trained_tensors,
    with_batch_norms,
    with_equalized_weights,
    with_weights_as_integers,
)
from odt.core.recipe.dropout_layers import choose_dropout
from odt.core.recipe.fresh_head import ORIGIN, fresh_head
from odt.core.recipe.interface import check_signature
from odt.core.recipe.lowered_model import LoweredModel
from odt.core.recipe.option_values import check_option
from odt.core.recipe.output_losses import default_loss, output_losses
from odt.core.recipe.resolve import listed_operators, origins, resolve
from odt.core.recipe.sample_specs import SampleSpecs, training_sample_specs
from odt.core.recipe.selection import (
    Selection,
    choose_channels,
    choose_rates,
    select,
)
from odt.core.recipe.training_outputs import describe_left_out, with_class_numbers
from odt.dataclass import dataclass
from odt.errors import DataError, OptionError, UnsupportedError
from odt.kernels.loss_text import canonical_loss, parse_loss
from odt.kernels.native.library import lacks_bf16
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.schedule_text import parse_schedule

# Default decay of the moving average of weights that train rounded: they go back and forth
# between two integers, and their average does less.
EMA = 0.95


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks of a training run; the rest is the file's or the default.

    Attributes:
        options: values of RECIPE_OPTIONS by name; None for those that the user left out.
        hyper_parameters: hyper-parameters of the optimizer, by name.
        last: number of last operators of the file that train; -1 for all.
        operators: positions of the operators that train, as numbers and ranges: 0-3,7.
        selection: selection of the weights that train.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    last: int | None = None
    operators: str | None = None
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        assert self.options.keys() <= RECIPE_OPTIONS.keys(), "options without a row"

    @property
    def gives_operators(self) -> bool:
        """Whether the user gives the operators that train."""
        return self.last is not None or self.operators is not None

    @property
    def selects(self) -> bool:
        """Whether the user selects what trains."""
        return self.gives_operators or not self.selection.is_empty

    def resolved(self, name: str) -> Any:
        """Returns the value of an option that becomes another field; its default if left out."""
        value = self.options.get(name)
        return RESOLVED_OPTIONS[name].default if value is None else value

    def training_fields(self, graph: Graph) -> dict[str, Any]:
        """Returns the fields of TrainingInfo that are set.

        Raises:
            OptionError: if operators are selected in two ways, or do not exist.
        """
        fields = {name: self.options.get(name) for name in TRAINING_OPTIONS}
        if self.operators is not None:
            if self.last is not None:
                raise OptionError("operators", "must not be given with `last=`", "both")
            fields["trainable_ops"] = listed_operators(graph, self.operators)
        if fields["loss"] is not None:
            fields["loss"] = canonical_loss(fields["loss"])
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A resolved training run.

    Attributes:
        lowered: the model file, and its lowered graphs.
        info: loss, optimizer, batch size, trainable operators.
        origins: origin of each value: command line, checkpoint, circle+, record, new head or
            default.
    """

    lowered: LoweredModel
    info: TrainingInfo
    origins: Mapping[str, str]

    @property
    def model(self) -> Model:
        """The model file."""
        return self.lowered.file

    @property
    def dequantized(self) -> DequantizedGraph:
        """The file's graph with all weights in float32, and the tensors that store them."""
        return self.lowered.dequantized

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about model and defaults for the user."""
        from odt.core.model.runtime_rules import litert_note

        notes = [
            self.dequantized.note,
            litert_note(self.model),
            describe_left_out(self.lowered),
        ]
        blocks = sum(t.is_in_blocks for t in self.graph.tensors)
        if blocks and self.lowered.adapted is None:
            notes.append(
                f"{self.model.path}: weights in blocks of GGML ({blocks}) stay as they are. "
                "Adapters, which `odt lora` makes, train instead."
            )
        if self.origins["trainable_ops"] == ORIGIN:
            notes.append(
                "The new last layers alone train, since they are not trained yet; `last=-1` trains "
                "all."
            )
        return tuple(note for note in notes if note)

    @property
    def graph(self) -> Graph:
        """The file's graph with all weights in float32."""
        return self.lowered.graph

    @property
    def export_nbytes(self) -> int:
        """Bytes that an export allocates for weights that the file stores in another type.

        It dequantizes the small ones again, and quantizes those that train, one by one. Weights
        that the file stores as float32 are written as they are.
        """
        tensors, file = self.graph.tensors, self.lowered.part.graph.tensors
        stored = self.dequantized.stored
        if not stored:
            return 0
        trained = {i: stored[i] for i in trained_tensors(self.graphs, self.info) if i in stored}
        floats = (t for t in (tensors[i] for i in stored) if t.decoder is None)
        dequantized = sum(t.spec.nbytes for t in floats if t.data is not None)
        quantized = sum(file[j].spec.nbytes for j in trained.values() if j < len(file))
        largest = max((tensors[i].spec.nbytes for i in trained), default=0)
        return dequantized + quantized + largest

    @property
    def graphs(self) -> LoweredGraphs:
        """The lowered graphs of the file."""
        return self.lowered.graphs

    def computes_integers(self, graphs: LoweredGraphs) -> bool:
        """Whether the frozen part can compute integers: those of the file, with its ranges.

        Args:
            graphs: graphs of the file, or with other constants, of which there are no integers.
        """
        of_file = graphs is self.graphs and self.info.quant_ranges == FILE
        return of_file and has_quantized_activations(self.model)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The loss of each output that has one."""
        return output_losses(self.graphs, self.info)

    @property
    def samples(self) -> SampleSpecs:
        """The shapes and dtypes of one sample of each input, output and target."""
        return training_sample_specs(self.graphs, self.info)


def prepare(
    lowered: LoweredModel,
    request: Request | None = None,
    saved: Callable[[Graph], Mapping[str, Any]] | None = None,
) -> Recipe:
    """Resolves a training run.

    Args:
        lowered: the model file, and its lowered graphs.
        request: options of the user; they override saved options, which override the file's.
        saved: returns, for a graph, the fields of TrainingInfo in a checkpoint or a JSON file.

    Raises:
        OptionError: if an option is invalid for the model.
        ModelError: if the training info of the file or the checkpoint is invalid.
        UnsupportedError: if the model has unsupported operators.
    """
    request = request or Request()
    model = lowered.file
    check_signature(model)
    file_info = stored_training_info(model)
    stored = file_info.as_dict() if file_info else {}
    before = dict(saved(lowered.graph)) if saved else {}
    new_fields = request.training_fields(model.graph)
    if new_fields.get("batch_norm", before.get("batch_norm", FIXED)) == BATCH:
        lowered = with_batch_norms(lowered)
    has_loss = "loss" in {*stored, *before, *new_fields}
    recorded = {} if has_loss else _recorded_loss(lowered)
    stored = recorded | stored
    if (warmup := request.resolved("warmup")) is not None:
        check_option(RESOLVED_OPTIONS["warmup"], warmup)
        schedule = (
            new_fields.get("schedule") or before.get("schedule") or parse_schedule("constant")
        )
        new_fields["schedule"] = replace(schedule, warmup_steps=warmup)
    new_names = {*new_fields, *(["trainable_ops"] if request.last is not None else [])}
    where = origins(stored, new_names) | dict.fromkeys(recorded.keys() - new_names, "record")
    where |= dict.fromkeys(before.keys() - new_names, "checkpoint")
    part = lowered.part.graph
    info = resolve(part, stored | before, new_fields, request.hyper_parameters, request.last)
    for name, value in request.hyper_parameters.items():
        source = where["hyper_parameters"] if name in info.hyper_parameters else "default"
        where[name] = source if value is None else "command line"
    info, is_fresh = _with_default_weights(lowered, info, request, stored, before)
    if is_fresh:
        where["trainable_ops"] = ORIGIN
    info = _with_selection(lowered.graphs, with_class_numbers(lowered, info), request)
    if new_fields.get("quant_ranges", FILE) != FILE:
        _check_quantized(model, "quant_ranges")
    if where["ema"] == "default" and not info.qas and has_quantized_activations(model):
        info = replace(info, ema=EMA)
    if info.precision == BF16 and (why := lacks_bf16()):
        raise OptionError("precision", f"must be {FLOAT32} here", BF16, why)
    if info.qas:
        _check_qas(model, info)
        lowered = with_weights_as_integers(lowered, info)
    elif info.quant_ranges != FILE:
        lowered = with_equalized_weights(lowered, info)
    return Recipe(lowered, info, where)


def _with_default_weights(
    lowered: LoweredModel,
    info: TrainingInfo,
    request: Request,
    stored: Collection[str],
    before: Collection[str],
) -> tuple[TrainingInfo, bool]:
    """Selects adapters, or a new head, if nothing else selects the weights that train.

    Args:
        lowered: the model file, and its lowered graphs.
        info: resolved training info.
        request: options of the user.
        stored: fields that the model holds.
        before: fields that the checkpoint holds.

    Returns:
        The training info, and whether a new head alone trains.
    """
    if request.selects or "trainable_ops" in before:
        return info, False
    if lowered.adapted:
        adapted = lowered.adapted
        return replace(
            info, trainable_ops=adapted.operators, trainable_tensors=adapted.trained
        ), False
    head = () if "trainable_ops" in stored else fresh_head(lowered.graph)
    return (replace(info, trainable_ops=head), True) if head else (info, False)


def _with_selection(graphs: LoweredGraphs, info: TrainingInfo, request: Request) -> TrainingInfo:
    """Selects weights, channels, factors of the learning rate and dropout by the request."""
    info = select(graphs, info, request.selection, among=request.gives_operators)
    _check_blocks(graphs, info)
    info = choose_channels(graphs, info, request.resolved("sparse"))
    info = choose_rates(graphs, info, request.resolved("learning_rate_of"))
    return choose_dropout(graphs, info, request.resolved("dropout"))


def _check_blocks(graphs: LoweredGraphs, info: TrainingInfo) -> None:
    """Raises UnsupportedError if weights in blocks of GGML are among those that train."""
    graph = graphs.at_file_batch
    trained = set(trained_tensors(graphs, info))
    for node in graph.nodes:
        for i in node.inputs:
            if i in trained and graph.tensors[i].is_in_blocks:
                raise UnsupportedError(
                    f"{graph.name}: node {node.origin} ({node.op}), {graph.label(i)}: weights in "
                    "blocks of GGML must not train, but got one among those that do. Train "
                    "adapters instead, which `odt lora` makes."
                )


def _recorded_loss(lowered: LoweredModel) -> dict[str, Any]:
    """The field of the loss in a model's record, if final activations do not determine the loss.

    Empty for a damaged record, or a loss that this version lacks: the user must then give one.
    """
    graph = lowered.graph
    if all(default_loss(graph, output) for output in graph.outputs):
        return {}
    from odt.core.formats.flatbuffer.tflite_metadata import read_record

    try:
        record = read_record(lowered.file)
        if record is None or not record.loss:
            return {}
        parse_loss(record.loss)
    except (DataError, OptionError):
        return {}
    return {"loss": record.loss}


def _check_quantized(model: Model, field: str) -> None:
    """Raises OptionError if an option is given for a model with float activations."""
    if not has_quantized_activations(model):
        rule = "must come with a model whose activations are integers"
        raise OptionError(field, rule, "float32", "Quantize it first: `odt quantize`.")


def _check_qas(model: Model, info: TrainingInfo) -> None:
    """Raises OptionError if integers cannot train."""
    _check_quantized(model, "qas")
    if info.ema:
        raise OptionError("qas", "must come without `ema=`, whose averages are floats", "both")
    if OPTIMIZERS[info.optimizer].whole:
        rule = "must come with an optimizer that updates each value on its own"
        raise OptionError("qas", rule, info.optimizer, "Give sgd or adam.")
