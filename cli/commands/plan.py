"""Show the memory that training needs, and for what; nothing is allocated."""

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from odt.cli.options.cache import cache_options
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    GRADIENT_FIELDS,
    LOSS_FIELDS,
    budget_option,
    ema_option,
    gradient_options,
    hyper_parameter_options,
    model_argument,
    schedule_options,
    selection_options,
    sparse_option,
    training_options,
)
from odt.cli.output import report
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.plan_picture import draw
from odt.core.lowering.lowered_model import lower_model
from odt.core.model.graph import MOST_NAME
from odt.core.model.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.planning.budget.fit_budget import fit_budget
from odt.core.planning.budget.forecast import Forecast, peak
from odt.core.planning.budget.savings import Saving, savings
from odt.core.planning.computation import Plans
from odt.core.planning.lifetimes import BEFORE, Lifetime
from odt.core.planning.memory import MemoryPlan
from odt.core.planning.plan import Call, Plan
from odt.core.recipe.computations import training_and_validation
from odt.core.recipe.prepare import Request, prepare
from odt.core.recipe.selection import Selection
from odt.core.runtime.arena import make_arena
from odt.core.runtime.program import Program
from odt.core.training.frozen_cache import cache_policy, cache_size, split_frozen
from odt.errors import OdtError, one_line
from odt.kernels.opdef import Array
from odt.kernels.registry import OPTIMIZERS
from odt.text import size, table

SHOWN = 12  # values alive at the peak


@click.command(cls=Command)
@model_argument
@training_options
@selection_options
@sparse_option
@hyper_parameter_options
@gradient_options
@ema_option
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
    data_length: int | None,
    calls: bool,
    png: str | None,
    **options: Any,
) -> None:
    """Show how MODEL would train: the micro-batches, and the memory by purpose.

    Options and defaults are those of `odt train`.
    """
    policy = cache_policy(cache_frozen, cache_dtype, data_length or 0)
    if bool(cache_frozen) != bool(data_length):
        raise OdtError(
            "--cache-frozen: must be given with --data-length, the number of samples, but got "
            "one alone"
        )
    source = read_model(model)
    check_outputs({"--png": png}, {"MODEL": source.path})
    fields = (*LOSS_FIELDS, "optimizer", "learning_rate", "batch_size", *GRADIENT_FIELDS)
    given = {name: options.pop(name) for name in fields}
    selection = Selection(trainable, freeze, bias_only, freeze_norm)
    request = Request(
        **given,
        hyper_parameters=options,
        last=num_of_trainable_ops,
        selection=selection,
        sparse=sparse,
    )
    recipe = prepare(lower_model(source), request)
    info, reserve, note = recipe.info, 0, ""
    plans, work = Plans(recipe.graphs), training_and_validation(recipe.graphs, info)
    if policy:
        work = split_frozen(plans, work)
        size = cache_size(plans, work[0], info.batch_size, policy)
        reserve = size.resident
        note = report.cached(policy, size.kept) + "; mapped part of it" * policy.on_disk
    found = fit_budget(
        plans, work, info, memory_budget, micro_batch, workers, reserves={"a cache": reserve}
    )
    slots = slots_of(info, found.plan)
    click.echo("\n".join(describe_schedule(found)))
    click.echo("\n".join(describe_memory(found, info.optimizer, slots, note)))
    click.echo("\n".join(describe_savings(savings(found, work[0]))))
    click.echo("\n".join(describe_peak(found.plan)))
    if calls:
        click.echo("\n".join(describe_calls(found.plan, found.memory)))
    if png:
        draw(found, png)


def slots_of(info: TrainingInfo, plan: Plan) -> tuple[str, ...]:
    """Names of the optimizer's state arrays, with their sizes if these differ."""
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

    def deliver(parameter: str, gradient: Array, owned: bool) -> None:
        """Never called: the program is not run."""

    program = Program(plan, memory, make_arena(memory.nbytes), {}, deliver)
    return ["", "plan", str(plan), "", "memory plan", str(memory), "", "calls", str(program)]


def describe_schedule(found: Forecast) -> list[str]:
    """Describes how a batch is split into micro-batches."""
    s = found.schedule
    runs = -(-s.batch // s.micro_batch)
    parts = f"{runs} micro-batches of {s.micro_batch}" if runs > 1 else "one micro-batch"
    workers = f"{s.workers} worker{'s'[: s.workers - 1]}"
    lines = [f"batch of {s.batch}: {parts}, on {workers}"]
    if s.why:
        lines.append(f"not split: {s.why}")
    return lines


def describe_memory(
    found: Forecast, optimizer: str, slots: tuple[str, ...], cache: str = ""
) -> list[str]:
    """Describes the memory by purpose.

    Args:
        found: the way to train.
        optimizer: its name.
        slots: its state.
        cache: what is kept of the frozen part; empty where nothing is.
    """
    separate = found.memory.separate * found.schedule.workers
    rows = [
        ("parameters", found.parameters, ""),
        ("optimizer", found.slots, f"{optimizer}: {', '.join(slots) or 'no state'}"),
        (
            "gradients",
            found.gradients,
            "accumulated until the batch is done"
            if found.gradients
            else "in the arena: immediate update",
        ),
        ("arenas", found.arena, f"{separate:,} bytes without reuse"),
        ("constants", found.constants, "weights that are not trained, in the mapped model file"),
        ("data", found.data, "pages of the mapped data files; more without a budget"),
        ("other", found.overhead, "Python objects and libraries, estimated"),
        ("peak", found.peak, f"{size(found.peak)}, without Python and its modules"),
    ]
    if cache:
        rows[-1:-1] = [
            ("frozen", found.frozen, "arenas of the frozen layers, in the first epoch only"),
            ("cache", found.cache, cache),
        ]
        rows.append(("later", found.later, "peak of later epochs"))
    cells = [(name, f"{nbytes:,} bytes", note) for name, nbytes, note in rows]
    return table(cells, right=(1,))


def describe_savings(found: Sequence[Saving]) -> list[str]:
    """Describes the bytes that each technique saves."""
    rows = [(saving.name, f"{saving.nbytes:,} bytes", saving.note) for saving in found]
    return ["", "memory saved by", *table(rows, right=(1,))] if rows else []


def describe_peak(plan: Plan) -> list[str]:
    """Describes the values alive at the peak of a worker's arena."""
    found = peak(plan)
    sizes = {name: plan.values[name].spec.nbytes for name, _ in found.alive}
    total = sum(sizes.values())
    rows = [("VALUE", "BYTES", "SHAPE", "FROM", "TO")]
    for name, life in found.alive[:SHOWN]:
        rows.append(
            (_name(plan, name), f"{sizes[name]:,}", str(plan.values[name].spec), *_ends(plan, life))
        )
    rest = found.alive[SHOWN:]
    if rest:
        rows.append((f"{len(rest)} more", f"{sum(sizes[n] for n, _ in rest):,}", "", "", ""))
    return [
        "",
        f"peak of the arena in the {found.phase} phase at {found.entry}: {total:,} bytes a worker",
        *table(rows, right=(1,)),
    ]


def _name(plan: Plan, name: str) -> str:
    """Names a value by its tensor, if it has one."""
    stem = name.removeprefix("d.")
    tensor = plan.values[stem].tensor if stem in plan.values else None
    if tensor is None:
        return name
    first = plan.graph.tensors[tensor].name.partition(";")[0]  # of what was merged, one
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
