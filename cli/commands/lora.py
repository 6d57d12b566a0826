"""Add low-rank adapters (LoRA) to a model, or merge trained ones."""

import os

import click

import odt
from odt.cli.output.output_paths import FORMATS, check_outputs
from odt.errors import OdtError


@click.command()
@click.argument("model", type=click.Path())
@click.option(
    "--rank",
    type=click.IntRange(1),
    metavar="R",
    help="Rank of the adapters: for a weight of O×I values, an adapter has R·(O + I).",
)
@click.option(
    "--target",
    default="*",
    show_default=True,
    metavar="GLOB",
    help="Weights that get an adapter, by name or operator: FULLY_CONNECTED, CONV_2D (1×1) or "
    "BATCH_MATMUL.",
)
@click.option(
    "--alpha",
    type=float,
    metavar="A",
    help="Scale of the adapters: their product is multiplied by A / R.  [default: R]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of the adapters.",
)
@click.option(
    "--merge",
    type=click.Path(),
    metavar="FILE",
    help="Merge these trained adapters into the weights of MODEL instead.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    required=True,
    metavar="FILE",
    help="File of the adapters (.npz); with --merge of the model (.tflite or .circle).",
)
def command(
    model: str,
    rank: int | None,
    target: str,
    alpha: float | None,
    seed: int,
    merge: str | None,
    output: str,
) -> None:
    """Add low-rank adapters (LoRA) to MODEL: a small file, whose training leaves MODEL as it is.

    For a weight W, a layer computes W x + (A / R) B A x, with small matrices A and B that train. At
    first, B is 0. `odt train MODEL --adapters FILE` trains the adapters and exports merged models,
    which have the operators and the size of MODEL.
    """
    if (rank is None) == (merge is None):
        got = "none" if merge is None else "both"
        raise OdtError(f"--rank, --merge: one of them must be given, but got {got}.")
    check_outputs({"--output": output}, {"MODEL": model, "--merge": merge})
    ending = os.path.splitext(output)[1].lower()
    endings = FORMATS if merge is not None else {".npz": ""}
    if ending not in endings:
        raise OdtError(
            f"--output {output}: must end in {' or '.join(endings)}, but got {ending or 'none'}."
        )
    if merge is not None:
        merged = odt.load_model(model, merge)
        merged.save(output)
        click.echo(f"{output}: {model} with {merge} merged into its weights")
        return
    assert rank is not None
    adapted = odt.lora(model, rank, target=target, alpha=alpha, seed=seed)
    adapted.save_adapters(output)
    sizes = {name: a.size for name, a in adapted.parameters.items()}
    new = {name: n for name, n in sizes.items() if name.endswith(("/lora_a", "/lora_b"))}
    fraction = sum(new.values()) / (sum(sizes.values()) - sum(new.values()))
    click.echo(
        f"{output}: adapters of rank {rank} for {len(new) // 2} weights, {sum(new.values()):,} "
        f"parameters, {fraction:.1%} of the model's"
    )
    click.echo(
        f"Train them: odt train {model} --adapters {output} --load-input X --load-expected Y "
        f"--export-adapters {output}"
    )
