"""Check whether a model can be trained: operators, memory, FLOP, gradients on one batch.

The exit status is 1 if it cannot.
"""

from collections.abc import Sequence
from typing import Any

import click

from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    data_options,
    interface_options,
    last_operators_option,
    loss_options,
    model_argument,
    open_data,
    schedule_options,
    selection_options,
    sequence_options,
    sparse_option,
)
from odt.cli.output import report
from odt.cli.output.spelling import spell
from odt.core.data.protocol import Data
from odt.core.export.remedies import largest_part, what_trains
from odt.core.lowering.unsupported import UnsupportedNode, unsupported_node
from odt.core.model.graph import Graph
from odt.core.model.runtime_rules import litert_note
from odt.core.recipe.interface import check_signature, read_interface
from odt.core.recipe.lowered_model import LoweredModel, lower_model
from odt.core.recipe.prepare import Request, prepare
from odt.core.recipe.selection import Selection
from odt.core.recipe.sequences import with_sequences
from odt.core.recipe.trainability import Trainability, flops, trainability, training_flops
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.training.random_data import random_data
from odt.core.training.self_test import self_test, verdict
from odt.core.training.trainer import Trainer
from odt.errors import MOST, one_line
from odt.models.summary import describe_held

MARKS = {True: "ok  ", False: "FAIL", None: "?   "}


@click.command(cls=Command)
@model_argument
@interface_options
@data_options
@sequence_options
@loss_options
@last_operators_option
@selection_options
@sparse_option
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of the test batch.",
)
@schedule_options
def command(
    model: str,
    load_input: str | None,
    load_expected: str | None,
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
    seed: int,
    micro_batch: int | None,
    workers: int | None,
    **options: Any,
) -> None:
    """Check before a long run whether MODEL can be trained.

    Prints the weights that train, the constants that do not and why, the operators and weights that
    cannot be trained, the memory that odt train needs with the same options, and the floating-point
    operations (FLOP) of a step. Then tests one batch of at most 8 samples, from data files or
    random, in float64: the loss must be finite, every trainable tensor must have a finite, nonzero
    gradient that agrees with finite differences, and one step must lower the loss. Random values
    that leave units inactive or saturated are drawn again. A comparison that rounding makes
    impossible, or that would take too long, is reported as unknown and is not a failure.
    """
    lowered = lower_model(
        with_sequences(
            read_interface(model, signature, dict(input_shapes)), sequence_length, return_sequences
        )
    )
    check_signature(lowered.file)
    refused = lowered.graphs.unsupported
    if refused:
        click.echo("\n".join(describe_refusals(lowered, refused)))
        raise click.exceptions.Exit(1)
    selection = Selection(trainable, freeze, bias_only, freeze_norm)
    request = Request(**options, last=num_of_trainable_ops, selection=selection, sparse=sparse)
    recipe = prepare(lowered, request)
    with Trainer(recipe.graphs, recipe.info, micro_batch=micro_batch, workers=workers) as trainer:
        plan = trainer.plan
        result = trainability(recipe.graph, trainer.info, plan)
        if lowered.left_out:
            click.echo(describe_left_out(lowered))
        if note := litert_note(lowered.file):
            click.echo(one_line(spell(note), MOST))
        click.echo(report.trained_line(trainer.parameters.trained.values()))
        for line in describe(plan.graph, result):
            click.echo(line)
        if result.blocked and not result.trained:
            for line in describe_no_gradient(lowered, result):
                click.echo(line)
            raise click.exceptions.Exit(1)
        size = trainer.runtime.schedule.micro_batch
        click.echo(
            f"arithmetic: {flops(plan.graph) // size:,} FLOP a sample forward, "
            f"{training_flops(plan) // size:,} forward and backward"
        )
        click.echo(report.memory_block(trainer.memory(), trainer.runtime.schedule))
        data: Data
        if load_input is None and load_expected is None:
            data = random_data(trainer.runtime, seed)
        else:
            data = open_data(load_input, load_expected, trainer.runtime)
    findings = self_test(recipe.graphs, trainer.info, data, seed=seed)
    for finding in findings:
        click.echo(f"{MARKS[finding.passed]} {finding.what}: {spell(finding.detail)}")
    passed = False if result.blocked else verdict(findings)
    if passed is False:
        click.echo("The model cannot be trained.")
        raise click.exceptions.Exit(1)
    click.echo(
        "The model can be trained." if passed else "Unknown whether the model can be trained."
    )


def describe_refusals(lowered: LoweredModel, refused: Sequence[UnsupportedNode]) -> list[str]:
    """Describes the nodes that odt cannot compute, and what could train.

    A node of a loop is described once, not for each iteration.
    """
    first: dict[tuple[object, ...], UnsupportedNode] = {}
    for refusal in refused:
        first.setdefault((refusal.node.origin, refusal.node.op, refusal.reason), refusal)
    lines = [f"blocked: {refusal}" for refusal in first.values()]
    trains = spell(what_trains(lowered, refused))
    none = "none, because no weights precede or follow these operators"
    return [*lines, f"could train: {trains or none}", "The model cannot be trained."]


def describe(graph: Graph, result: Trainability) -> list[str]:
    """Describes the weights that get no gradient, with the reason, and those that train."""
    lines = []
    for block in result.blocked:
        lines.append(
            f"blocked: node {block.node.origin} ({block.node.op}): "
            f"{graph.label(block.tensor)} gets no gradient through it"
        )
    if result.untrained:
        names = one_line(", ".join(graph.label(i) for i in result.untrained), MOST)
        lines.append(f"not trained: {names}")
        if result.trained:
            lines.append(f"all weights train with: --num-of-trainable-ops {result.deepest}")
    if result.trained:
        names = one_line(", ".join(graph.label(i) for i in result.trained), MOST)
        lines += [f"trained: {names}", *map(spell, describe_held(result.held, graph))]
    return lines


def describe_no_gradient(lowered: LoweredModel, result: Trainability) -> list[str]:
    """Describes a model of which no weight can train, and the command that cuts out a part."""
    nodes = [unsupported_node(lowered.graph, block.node) for block in result.blocked]
    ops = ", ".join(dict.fromkeys(block.node.op for block in result.blocked))
    none = (
        f"none, because the outputs depend on the weights through {ops}, which has no gradient. "
        "Another signature may have outputs before it"
    )
    part = spell(largest_part(lowered, nodes))
    return [f"could train: {part or none}", "The model cannot be trained."]
