"""Make low-rank adapters (LoRA) for a model, or merge trained ones into it."""

import shlex

import click

import odt
from odt.cli.options.shared import signature_option
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.training_log import warnings_as_lines
from odt.errors import OdtError


@click.command()
@click.argument("model", type=click.Path())
@signature_option
@click.option(
    "--rank",
    type=click.IntRange(1),
    metavar="R",
    help="Rank of the adapters. The adapter of a weight with O×I values has R·(O + I) values.",
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
    help="Scale of the adapters: the product B A is multiplied by ALPHA / R.  [default: R]",
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
    help="Merge the trained adapters in FILE into the weights of MODEL.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    required=True,
    metavar="FILE",
    help="File of the adapters: .npz, or PEFT's adapter_model.safetensors, with "
    "adapter_config.json beside it; with --merge, file of the merged model (.tflite, .circle or "
    ".onnx).",
)
def command(
    model: str,
    signature: str | None,
    rank: int | None,
    target: str,
    alpha: float | None,
    seed: int,
    merge: str | None,
    output: str,
) -> None:
    """Make low-rank adapters (LoRA) for MODEL: a small file to train instead of MODEL's weights.

    A layer with weight W and an adapter computes W x + (ALPHA / R) B A x, where only the small
    matrices A and B train. B is 0 at first. `odt train MODEL --adapters FILE` trains the adapters.
    Its exports are MODEL with the adapters merged into its weights.
    """
    if (rank is None) == (merge is None):
        actual = "none" if merge is None else "both"
        raise OdtError(f"--rank, --merge: one of them must be given, but got {actual}.")
    check_outputs({"--output": output}, {"MODEL": model, "--merge": merge})
    adapter_endings = (".npz", ".safetensors")
    extension_of("--output", output, (*FORMATS, ".onnx") if merge is not None else adapter_endings)
    if merge is not None:
        merged = odt.load_model(model, merge, signature=signature)
        with warnings_as_lines():
            merged.save(output)
        click.echo(f"{output}: {model} with {merge} merged into its weights")
        return
    assert rank is not None, "it is given without --merge"
    from odt.training.exports import check_adapters_path  # imports NumPy, which --help does not

    check_adapters_path(output)
    adapted = odt.lora(
        odt.load_model(model, signature=signature), rank, target=target, alpha=alpha, seed=seed
    )
    adapted.save_adapters(output)
    sizes = {name: a.size for name, a in adapted.parameters.items()}
    adapter_sizes = [n for name, n in sizes.items() if name.endswith(("/lora_a", "/lora_b"))]
    count = sum(adapter_sizes)
    fraction = count / (sum(sizes.values()) - count)
    click.echo(
        f"{output}: adapters of rank {rank} for {len(adapter_sizes) // 2} weights, {count:,} "
        f"parameters, {fraction:.1%} of the model's"
    )
    option = "" if signature is None else f" --signature {shlex.quote(signature)}"
    click.echo(
        f"Train them: odt train {model}{option} --adapters {output} --load-input X "
        f"--load-expected Y --export-adapters {output}"
    )
