"""Show the memory that training needs, by purpose, without allocating it."""

import importlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import click
import numpy as np

from odt.cli.options.adapters import adapters_option
from odt.cli.options.cache import cache_options
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    GRADIENT_FIELDS,
    LOSS_FIELDS,
    budget_option,
    gradient_options,
    hyper_parameter_options,
    interface_options,
    model_argument,
    regularization_options,
    schedule_options,
    selection_options,
    sequence_options,
    sparse_option,
    training_options,
)
from odt.cli.output import report
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.plan_picture import draw
from odt.core.data.columns import array_columns
from odt.core.data.dataset import DataSet
from odt.core.export.adapter_file import lower_adapted
from odt.core.export.remedies import with_remedy
from odt.core.model.graph import MOST_NAME, ranges
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.budget.forecast import Forecast, peak
from odt.core.planning.budget.savings import Saving, savings
from odt.core.planning.computation import Computation, Plans
from odt.core.planning.lifetimes import BEFORE, Lifetime
from odt.core.planning.memory import MemoryPlan
from odt.core.planning.plan import Call, Plan
from odt.core.quantization.frozen_int8 import check_frozen_int8, frozen_in_int8
from odt.core.recipe.computations import training_and_validation, with_integer_weights
from odt.core.recipe.frozen_integers import frozen_in_integers
from odt.core.recipe.interface import read_interface
from odt.core.recipe.prepare import Recipe, Request, prepare
from odt.core.recipe.sample_specs import SampleSpecs
from odt.core.recipe.selection import Selection
from odt.core.recipe.sequences import sequences_of
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.core.storage.usage import usage
from odt.core.training.frozen_cache import cache_policy, cache_size, split_frozen
from odt.errors import OdtError, OptionError, UnsupportedError, one_line
from odt.kernels.registry import OPTIMIZERS
from odt.text import size, table

SHOWN = 12  # values alive at the peak
# Modules that `odt train` imports besides those of this command; shuffling draws from numpy.random.
TRAINING = ("numpy.random", "odt.cli.options.training_run", "odt.cli.output.training_log")


@click.command(cls=Command)
@model_argument
@interface_options
@sequence_options
@training_options
@selection_options
@sparse_option
@adapters_option
@hyper_parameter_options
@gradient_options
@regularization_options
@schedule_options
@budget_option
@cache_options
@click.option(
    "--data-length",
    type=click.IntRange(1),
    metavar="N",
    help="Number of samples that --cache-frozen caches, for training and validation.",
)
@click.option("--calls", is_flag=True, help="Print the plan, the memory plan and the calls.")
@click.option(
    "--png",
    type=click.Path(),
    metavar="FILE",
    help="Write a chart of the memory over the calls of a step.",
)
def command(
    model: str,
    signature: str | None,
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...],
    sequence_length: int | None,
    return_sequences: bool,
    num_of_trainable_ops: int | None,
    trainable: tuple[str, ...],
    freeze: tuple[str, ...],
    bias_only: bool,
    freeze_norm: bool,
    sparse: tuple[tuple[str, float], ...],
    micro_batch: int | None,
    workers: int | None,
    memory_budget: int | None,
    cache_frozen: str | None,
    cache_dtype: str | None,
    frozen_int8: bool,
    data_length: int | None,
    adapters: str | None,
    calls: bool,
    png: str | None,
    **options: Any,
) -> None:
    """Show the memory that training MODEL would need, by purpose, and its micro-batches.

    Options and defaults are those of `odt train`.
    """
    modules = resident()
    policy = cache_policy(cache_frozen, cache_dtype, data_length or 0)
    if bool(cache_frozen) != bool(data_length):
        raise OdtError(
            "--cache-frozen: must be given with --data-length, the number of samples, but got "
            "one alone"
        )
    source = sequences_of(
        read_interface(model, signature, dict(input_shapes)), sequence_length, return_sequences
    )
    check_outputs({"--png": png}, {"MODEL": source.path})
    fields = (*LOSS_FIELDS, "optimizer", "learning_rate", "batch_size", *GRADIENT_FIELDS)
    given = {name: options.pop(name) for name in fields}
    selection = Selection(trainable, freeze, bias_only, freeze_norm)
    request = Request(
        **given,
        dropout=options.pop("dropout"),
        hyper_parameters=options,
        last=num_of_trainable_ops,
        selection=selection,
        sparse=sparse,
    )
    lowered = lower_adapted(source, adapters)
    try:
        recipe = prepare(lowered, request)
        plans, work = computations_of(recipe, frozen_int8)
    except UnsupportedError as e:
        raise with_remedy(e, lowered) from None
    info, reserve, note = recipe.info, 0, ""
    if policy:
        work = split_frozen(plans, work)
        size = cache_size(plans, work[0], info.batch_size, policy)
        reserve = size.resident
        note = report.cached(policy, size.kept) + "; mapped part of it" * policy.on_disk
    forecast = fit_budget(
        plans, work, info, memory_budget, micro_batch, workers, reserves={"a cache": reserve}
    )
    slots = slots_of(info, forecast.plan)
    if recipe.lowered.left_out:
        click.echo(describe_left_out(recipe.lowered))
    lines = [*describe_schedule(forecast), *describe_ranges(forecast.plan, info.quant_ranges)]
    click.echo("\n".join(lines))
    click.echo("\n".join(describe_memory(forecast, info.optimizer, slots, note, modules)))
    click.echo("\n".join(describe_savings(savings(forecast, work[0]))))
    click.echo("\n".join(describe_peak(forecast.running)))
    if calls:
        click.echo("\n".join(describe_calls(forecast.running, forecast.memory)))
    if png:
        draw(forecast, png)


def computations_of(
    recipe: Recipe, frozen_int8: bool
) -> tuple[Plans, tuple[Computation, Computation]]:
    """Returns the computations of training and validation, and what plans them.

    Args:
        recipe: the prepared training.
        frozen_int8: whether the frozen layers of a float model compute int8.

    Raises:
        UnsupportedError: if odt cannot compute an operator.
    """
    graphs = recipe.graphs
    if frozen_int8:
        check_frozen_int8(recipe.model)
        graphs = frozen_in_int8(recipe, partial(some_samples, graphs.file_batch))
    elif recipe.computes_integers(graphs):
        graphs = frozen_in_integers(recipe)
    plans = Plans(graphs)
    work = training_and_validation(plans.graphs, recipe.info)
    return with_integer_weights(plans, work[0], recipe.info), work


def some_samples(count: int, specs: SampleSpecs) -> DataSet:
    """Samples of which all values are 1."""
    arrays = [np.ones((count, *spec.shape), spec.dtype) for spec in specs.input_specs]
    return DataSet(array_columns(arrays, specs.input_specs, "input", specs.quantizations))


def resident() -> int | None:
    """Returns the resident bytes of Python with what `odt train` imports; None where unknown."""
    for name in TRAINING:
        importlib.import_module(name)
    try:
        return usage().rss * 1024
    except OptionError:  # only Linux tells it
        return None


def slots_of(info: TrainingInfo, plan: Plan) -> tuple[str, ...]:
    """Returns the names of the optimizer's state arrays, with their sizes if the sizes differ."""
    rule = OPTIMIZERS[info.optimizer]
    attrs = rule.attrs(**info.hyper_parameters)
    sizes: dict[str, int] = {}
    for p in plan.trained_specs.values():
        for slot, spec in rule.state(attrs, p).items():
            name = f"{slot} (8-bit)" if spec.dtype == np.uint8 else slot
            sizes[name] = sizes.get(name, 0) + spec.nbytes
    if info.ema:
        sizes["moving average"] = sum(p.nbytes for p in plan.trained_specs.values())
    uneven = rule.slot_specs is not None
    return tuple(f"{name} {size(n)}" if uneven else name for name, n in sizes.items())


def describe_calls(plan: Plan, memory: MemoryPlan) -> list[str]:
    """Describes the plan, its memory plan, and the calls of the program bound to it."""
    # the program is only printed, not run: gradients go nowhere
    program = Program(plan, memory, make_arena(memory.nbytes), {}, lambda *_: ())
    return ["", "plan", str(plan), "", "memory plan", str(memory), "", "calls", str(program)]


def describe_schedule(forecast: Forecast) -> list[str]:
    """Describes how a batch is split into micro-batches."""
    s = forecast.schedule
    runs = -(-s.batch // s.micro_batch)
    parts = f"{runs} micro-batches of {s.micro_batch}" if runs > 1 else "one micro-batch"
    workers = f"{s.workers} worker{'s'[: s.workers - 1]}"
    lines = [f"batch of {s.batch}: {parts}, on {workers}"]
    if s.why:
        lines.append(f"not split: {s.why}")
    return lines


def describe_ranges(plan: Plan, quant_ranges: str) -> list[str]:
    """Describes which ranges of activations move; nothing for a model without any."""
    count = len({i for i, _ in ranges(plan.graph)})
    followed = len(plan.followed(quant_ranges))
    if not count:
        return []
    return [f"activation ranges: {followed} of {count} follow what training sees"]


def describe_memory(
    forecast: Forecast,
    optimizer: str,
    slots: tuple[str, ...],
    cache: str = "",
    modules: int | None = None,
) -> list[str]:
    """Describes the memory by purpose.

    Args:
        forecast: the memory that training will need.
        optimizer: name of the optimizer.
        slots: names of the optimizer's state arrays.
        cache: description of the cache of the frozen layers; empty if there is none.
        modules: resident bytes of Python and its modules, if known.
    """
    rows = [
        ("parameters", forecast.parameters, ""),
        ("optimizer", forecast.slots, f"{optimizer}: {', '.join(slots) or 'no state'}"),
        (
            "gradients",
            forecast.gradients,
            "accumulated until the batch is done"
            if forecast.gradients
            else "in the arena: immediate update",
        ),
        ("arenas", forecast.arena, f"{forecast.separate:,} bytes without reuse"),
        ("constants", forecast.constants, "weights that are not trained, in the mapped model file"),
        ("data", forecast.data, "pages of the mapped data files; more without a budget"),
        ("other", forecast.overhead, "Python objects and libraries, estimated"),
        ("peak", forecast.peak, f"{size(forecast.peak)}, without Python and its modules"),
    ]
    if forecast.packed:
        note = "weights in the layout of the kernels, packed once per step"
        rows.insert(4, ("packed", forecast.packed, note))
    if forecast.dequantized:
        note = "first values of the weights that the file stores in another type"
        rows[-1:-1] = [("dequantized", forecast.dequantized, note)]
    if cache:
        rows[-1:-1] = [
            ("frozen", forecast.frozen, "arenas of the frozen layers, in the first epoch only"),
            ("cache", forecast.cache, cache),
        ]
        rows.append(("later", forecast.later, "peak of later epochs"))
    if modules is not None:
        whole = modules + forecast.peak
        note = f"{size(whole)}, with Python and its modules, {size(modules)} here"
        rows.append(("process", whole, note))
    cells = [(name, f"{nbytes:,} bytes", note) for name, nbytes, note in rows]
    return table(cells, right=(1,))


def describe_savings(savings: Sequence[Saving]) -> list[str]:
    """Describes the bytes that each technique saves."""
    rows = [(saving.name, f"{saving.nbytes:,} bytes", saving.note) for saving in savings]
    return ["", "memory saved by", *table(rows, right=(1,))] if rows else []


def describe_peak(plan: Plan) -> list[str]:
    """Describes the values alive at the peak of a worker's arena."""
    top = peak(plan)
    sizes = {name: plan.values[name].spec.nbytes for name, _ in top.alive}
    total = sum(sizes.values())
    rows = [("VALUE", "BYTES", "SHAPE", "FROM", "TO")]
    for name, life in top.alive[:SHOWN]:
        rows.append(
            (_name(plan, name), f"{sizes[name]:,}", str(plan.values[name].spec), *_ends(plan, life))
        )
    rest = top.alive[SHOWN:]
    if rest:
        rows.append((f"{len(rest)} more", f"{sum(sizes[n] for n, _ in rest):,}", "", "", ""))
    return [
        "",
        f"peak of the arena in the {top.phase} phase at {top.entry}: {total:,} bytes a worker",
        *table(rows, right=(1,)),
    ]


def _name(plan: Plan, name: str) -> str:
    """Names a value by its tensor, if it has one."""
    stem = name.removeprefix("d.")
    tensor = plan.values[stem].tensor if stem in plan.values else None
    if tensor is None:
        return name
    # A converter joins the names of merged tensors with semicolons.
    first = plan.graph.tensors[tensor].name.partition(";")[0]
    label = one_line(first, MOST_NAME) or stem
    return f"gradient of {label}" if stem != name else label


def _ends(plan: Plan, life: Lifetime) -> tuple[str, str]:
    def label(k: int) -> str:
        if k == BEFORE:
            return "the data"
        if k >= len(plan.entries):
            return "the end"
        step = plan.entries[k]
        return step.label if isinstance(step, Call) else "its update"

    return label(life.first), label(life.last)
