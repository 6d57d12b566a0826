"""Chooses the layers whose inputs get dropout."""

from collections.abc import Sequence
from dataclasses import replace

from odt.core.lowering.lower import LoweredGraphs
from odt.core.model.training_info import TrainingInfo
from odt.core.options.training_options import RESOLVED_OPTIONS
from odt.core.recipe.computations import trained_tensors
from odt.core.recipe.option_values import check_option
from odt.core.recipe.selection import check_patterns, matches, weight_names
from odt.errors import OptionError

ADAPTER = "/lora_a"  # end of the names of the first matrices of low-rank adapters


def choose_dropout(
    graphs: LoweredGraphs, info: TrainingInfo, rates: Sequence[tuple[str, float]]
) -> TrainingInfo:
    """Sets the layers whose inputs get dropout, among the fully connected layers that train.

    Args:
        graphs: the lowered graphs of the file.
        info: resolved training info.
        rates: patterns of weights, and the probability of a zero; later ones take precedence. An
            empty pattern means the last such layer, or all low-rank adapters.

    Raises:
        OptionError: if a pattern matches no such layer, or a probability is not from 0 to below 1.
    """
    if not rates:
        return info
    check_option(RESOLVED_OPTIONS["dropout"], rates)
    lowered, trained = graphs.at_file_batch, set(trained_tensors(graphs, info))
    dense = [n for n in lowered.nodes if n.op == "FULLY_CONNECTED"]
    layers = list(dict.fromkeys(n.inputs[1] for n in dense if n.inputs[1] in trained))
    all_names = weight_names(graphs)
    names = {i: all_names[i] for i in layers}
    if not layers:
        raise OptionError("dropout", "a FULLY_CONNECTED layer must be trained", "none")
    check_patterns({"dropout": [pattern for pattern, _ in rates if pattern]}, names)
    rate_of_layer: dict[int, float] = {}
    for pattern, rate in rates:
        if pattern:
            matching = [i for i in layers if matches(names[i], pattern)]
        else:
            adapters = [i for i in layers if lowered.tensors[i].name.endswith(ADAPTER)]
            matching = adapters or layers[-1:]
        rate_of_layer |= dict.fromkeys(matching, float(rate))
    return replace(info, dropout=tuple(sorted((i, p) for i, p in rate_of_layer.items() if p)))
