"""Selects the weights that train: by patterns, only biases, or without batch normalization.

A pattern is a case-sensitive shell pattern (fnmatch: *, ?, [a-z]). It is compared with the name of
a weight in the file, and with the operators that read the weight, such as CONV_2D; in ONNX files
also with the kinds of their nodes, such as Conv.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from odt.core.lowering.batch_norms import norm_constants
from odt.core.lowering.binding import bind_inputs, row_of
from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.graph import Graph, LoweredGraph
from odt.core.model.onnx import PREFIX
from odt.core.model.tensor_names import similar_names
from odt.core.model.training_info import TrainingInfo
from odt.core.options.training_options import RESOLVED_OPTIONS
from odt.core.planning.trainable import trainable_by_operator, trainable_tensors
from odt.core.recipe.computations import trainable_operators, trained_tensors
from odt.core.recipe.option_values import check_option
from odt.core.recipe.sparse_filters import filters, strongest
from odt.dataclass import dataclass
from odt.errors import OptionError


@dataclass(frozen=True, slots=True)
class Selection:
    """The user's selection of weights.

    Attributes:
        patterns: patterns of the weights that train; empty for all.
        freeze: patterns of weights that do not train.
        bias_only: whether to train only biases.
        freeze_norm: whether to freeze batch normalization that the file has as MUL and ADD.
    """

    patterns: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    bias_only: bool = False
    freeze_norm: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is selected, so that the defaults apply."""
        return not (self.patterns or self.freeze or self.bias_only or self.freeze_norm)


def select(
    graphs: LoweredGraphs, info: TrainingInfo, selection: Selection, *, among: bool = False
) -> TrainingInfo:
    """Applies a selection to training info: sets its trainable operators and tensors.

    Args:
        graphs: the lowered graphs of the file.
        info: resolved training info, which may come from a circle+ or a checkpoint.
        selection: the user's selection.
        among: whether to select among the operators of `info`, which the user gave, instead of all.

    Raises:
        OptionError: if a pattern matches no weight of the model, or nothing is left.
    """
    if selection.is_empty:
        return info
    if selection.patterns and not among:
        info = replace(info, trainable_ops=None, trainable_tensors=None)
    graph, lowered = graphs.graph, graphs.at_file_batch
    names = weight_names(graphs)
    check_patterns({"patterns": selection.patterns, "freeze": selection.freeze}, names)
    operators = trainable_operators(graph, info)
    before = set(trained_tensors(graphs, info))
    # A constant of a formula trains only if a pattern matches its name.
    named = {
        i
        for i in trainable_tensors(lowered, operators, range(len(lowered.tensors)))
        for pattern in selection.patterns
        if pattern.strip("*") and matches(_names_of(graph, i), pattern)
    }
    weights = {i for i in before | named if _is_selected(names[i], selection)}
    if selection.bias_only:
        weights &= biases(lowered)
    if selection.freeze_norm:
        frozen = norm_constants(lowered)
        if not frozen:
            raise OptionError(
                "freeze_norm",
                "there must be a MUL by one constant per channel after a convolution or a matrix "
                "product",
                "none",
                "Leave it out.",
            )
        weights -= frozen
    if not weights:
        raise OptionError(
            "patterns, freeze, bias_only, freeze_norm",
            "must leave something to train",
            f"none of the {len(before)} weights",
        )
    if weights == before:
        return info
    users = {k for k, _ in trainable_by_operator(lowered, operators, weights)}
    used = tuple(sorted(users))
    whole = weights == set(trainable_tensors(lowered, used))
    return replace(
        info, trainable_ops=used, trainable_tensors=None if whole else tuple(sorted(weights))
    )


def choose_channels(
    graphs: LoweredGraphs, info: TrainingInfo, fractions: Sequence[tuple[str, float]]
) -> TrainingInfo:
    """Restricts training of some filters to their output channels of largest norm.

    Args:
        graphs: the lowered graphs of the file.
        info: resolved training info.
        fractions: patterns with fractions of the channels that train; later patterns override
            earlier ones.

    Raises:
        OptionError: if a pattern matches no filter that trains.
    """
    if not fractions:
        return info
    lowered, trained = graphs.at_file_batch, set(trained_tensors(graphs, info))
    check_option(RESOLVED_OPTIONS["sparse"], fractions)
    filter_weights = filters(lowered)
    names = {
        i: each for i, each in weight_names(graphs).items() if i in filter_weights and i in trained
    }
    check_patterns({"sparse": [pattern for pattern, _ in fractions]}, names)
    channels: dict[int, tuple[int, ...]] = {}
    for pattern, fraction in fractions:
        for i, each in names.items():
            if matches(each, pattern):
                data = lowered.tensors[i].real
                assert data is not None
                channels[i] = strongest(data, fraction)
    sizes = {i: lowered.tensors[i].spec.shape[0] for i in channels}
    return replace(
        info, sparse=tuple((i, c) for i, c in sorted(channels.items()) if len(c) < sizes[i])
    )


def choose_rates(
    graphs: LoweredGraphs, info: TrainingInfo, factors: Sequence[tuple[str, float]]
) -> TrainingInfo:
    """Sets factors of the learning rate of some weights.

    Args:
        graphs: the lowered graphs of the file.
        info: resolved training info.
        factors: patterns with factors; later patterns override earlier ones.

    Raises:
        OptionError: if a pattern matches no trainable weight, or a factor is not a number above 0.
    """
    if not factors:
        return info
    check_option(RESOLVED_OPTIONS["learning_rate_of"], factors)
    trained = set(trained_tensors(graphs, info))
    names = {i: each for i, each in weight_names(graphs).items() if i in trained}
    check_patterns({"learning_rate_of": [pattern for pattern, _ in factors]}, names)
    factor_of_weight: dict[int, float] = {}
    for pattern, factor in factors:
        factor_of_weight |= {i: factor for i, each in names.items() if matches(each, pattern)}
    return replace(info, rates=tuple(sorted(factor_of_weight.items())))


def weight_names(graphs: LoweredGraphs) -> dict[int, set[str]]:
    """Returns each trainable weight with the names that patterns can match."""
    graph, lowered = graphs.graph, graphs.at_file_batch
    trainable = trainable_by_operator(lowered, only=range(len(lowered.tensors)))
    names = {i: _names_of(graph, i) for _, i in trainable}
    for node in graph.nodes:
        kind = graph.kinds.get(node.origin)
        for i in names.keys() & set(node.inputs):
            names[i].update((node.op,) if kind is None else (node.op, kind, f"{PREFIX}{kind}"))
    return names


def matches(names: Iterable[str], pattern: str) -> bool:
    """Whether a pattern matches one of a weight's names."""
    return any(fnmatchcase(name, pattern) for name in names)


def check_patterns(
    patterns: Mapping[str, Iterable[str]], names: Mapping[int, Iterable[str]]
) -> None:
    """Checks that each pattern matches a weight, so that a typo cannot change what trains.

    Args:
        patterns: argument → its patterns.
        names: weight → its names.

    Raises:
        OptionError: for all patterns that match nothing, with similar names.
    """
    all_names = sorted({name for each in names.values() for name in each})
    wrong = {
        field: [pattern for pattern in each if not matches(all_names, pattern)]
        for field, each in patterns.items()
    }
    every = [pattern for each in wrong.values() for pattern in each]
    if not every:
        return
    near = dict.fromkeys(n for pattern in every for n in similar_names(pattern, all_names))
    raise OptionError(
        ", ".join(field for field, each in wrong.items() if each),
        "must match the name or the operator of a weight",
        f"{', '.join(every)}, which {'matches' if len(every) == 1 else 'match'} none",
        f"Similar names: {', '.join(near) or 'none'}; `Model.summary()` lists all.",
    )


def biases(lowered: LoweredGraph) -> set[int]:
    """Returns the constants that all readers use as a bias: added, one value per channel."""
    constants: set[int] = set()
    other: set[int] = set()
    for node in lowered.nodes:
        row = row_of(node.op)
        for name, i in bind_inputs(row, node).items():
            tensor = lowered.tensors[i]
            last = lowered.tensors[node.outputs[0]].spec.shape[-1:]
            added = node.op == "ADD" and (tensor.spec.size,) == last
            is_bias = tensor.data is not None and (added or (name == "b" and "b?" in row.inputs))
            (constants if is_bias else other).add(i)
    return constants - other


def _is_selected(names: Iterable[str], selection: Selection) -> bool:
    """Whether patterns select a weight with some names."""
    names = tuple(names)
    is_selected = not selection.patterns or any(matches(names, p) for p in selection.patterns)
    return is_selected and not any(matches(names, p) for p in selection.freeze)


def _names_of(graph: Graph, i: int) -> set[str]:
    """Returns the name of a weight as a set, which is empty for an empty name."""
    return {graph.tensors[i].name} - {""}
