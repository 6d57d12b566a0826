"""Tells whether a model will train: what is in the way, what it takes, and a test on a batch.

Exit status 1 if it will not.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from odt.cli.options.shared import (
    data_options,
    loss_options,
    model_argument,
    open_data,
    schedule_options,
    selection_options,
    sparse_option,
)
from odt.cli.output import report
from odt.core.data.protocol import Data
from odt.core.lowering.lower import unsupported_nodes
from odt.core.lowering.unsupported import UnsupportedNode
from odt.core.model.dequantize import dequantize_weights
from odt.core.model.graph import Graph
from odt.core.model.reader import read_model
from odt.core.recipe.output_losses import BINARY, CROSS_ENTROPIES
from odt.core.recipe.prepare import Request, prepare
from odt.core.recipe.selection import Selection
from odt.core.recipe.trainability import Trainability, flops, tail, trainability, training_flops
from odt.core.recipe.works import trainable_operators
from odt.core.training.random_data import RandomData
from odt.core.training.self_test import DIFFERENCES, TESTED, self_test
from odt.core.training.trainer import Trainer
from odt.errors import MOST, one_line

MARKS = {True: "ok  ", False: "FAIL", None: "?   "}


@click.command()
@model_argument
@data_options
@loss_options
@click.option(
    "--num-of-trainable-ops",
    type=click.IntRange(-1),
    metavar="N",
    help="Look at training the last N operators; -1 all.",
)
@selection_options
@sparse_option
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Decides the random values of the test on a batch.",
)
@schedule_options
def command(
    model: str,
    load_input: str | None,
    load_expected: str | None,
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
    """Tells whether MODEL will train, before anyone waits for it.

    Memory is that of odt train with the same options. The test on a batch, of 8 samples at most,
    uses data files if they are given, else random values of the model's shapes, in float64: the
    loss must be finite, every trainable tensor must have a gradient that is finite and not zero,
    gradients must agree with finite differences, and one step must lower the loss. Random values
    that leave units off or saturated are drawn again, in other ranges too. What rounding hides, or
    what would take too long, cannot be told, and is not held against the model.
    """
    source = read_model(model)
    refused = unsupported_nodes(dequantize_weights(source).graph)
    if refused:
        click.echo("\n".join(describe_refusals(source.graph, refused)))
        raise click.exceptions.Exit(1)
    selection = Selection(trainable, freeze, bias_only, freeze_norm)
    request = Request(**options, last=num_of_trainable_ops, selection=selection, sparse=sparse)
    recipe = prepare(source, request)
    graph, info = recipe.graph, recipe.info
    with Trainer(graph, info, micro_batch=micro_batch, workers=workers) as trainer:
        plan = trainer.plan
        found = trainability(graph, plan, trainable_operators(graph, info), info.trainable_tensors)
        click.echo(report.trained_line(trainer.parameters.trained.values()))
        for line in describe(plan.graph, found):
            click.echo(line)
        size = trainer.runtime.schedule.micro_batch
        click.echo(
            f"arithmetic: {flops(plan.graph) // size:,} FLOP a sample forward, "
            f"{training_flops(plan) // size:,} forward and backward"
        )
        click.echo(report.memory_block(trainer.memory(), trainer.runtime.schedule))
        data: Data
        if load_input is None and load_expected is None:
            runtime = trainer.runtime
            classes = [name in (*CROSS_ENTROPIES, BINARY) for name, _ in runtime.losses]
            data = RandomData(runtime.input_specs, runtime.target_specs, classes, seed)
        else:
            data = open_data(load_input, load_expected, trainer.runtime)
    tested = replace(trainer.info, batch_size=min(trainer.info.batch_size, TESTED))
    findings = self_test(graph, tested, data, seed=seed)
    for finding in findings:
        click.echo(f"{MARKS[finding.passed]} {finding.what}: {finding.detail}")
    if found.blocked or any(f.passed is False for f in findings):
        click.echo("It will not train as it is.")
        raise click.exceptions.Exit(1)
    told = all(f.passed for f in findings if f.what != DIFFERENCES)
    click.echo("It will train." if told else "Whether it will train cannot be told.")


def describe_refusals(graph: Graph, refused: Sequence[UnsupportedNode]) -> list[str]:
    """All nodes that odt cannot compute, and what would train if they were left out."""
    lines = [f"blocked: {refusal}" for refusal in refused]
    left = tail(graph, refused)
    if left.weights:
        begins = one_line(", ".join(map(graph.label, left.begins)), MOST)
        lines.append(
            f"deepest cut that would train: the last {left.operators} operators, "
            f"as a model that begins at {begins}"
        )
    else:
        lines.append("deepest cut that would train: none, for no weights are behind these")
    return [*lines, "It will not train as it is."]


def describe(graph: Graph, found: Trainability) -> list[str]:
    """What does not train, and why."""
    lines = []
    for block in found.blocked:
        lines.append(
            f"blocked: node {block.node.origin} ({block.node.op}): "
            f"{graph.label(block.tensor)} gets no gradient through it"
        )
    if found.untrained:
        names = one_line(", ".join(graph.label(i) for i in found.untrained), MOST)
        lines.append(f"not trained: {names}")
        lines.append(f"deepest cut that trains whole: --num-of-trainable-ops {found.deepest}")
    return lines
