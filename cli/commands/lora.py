"""Make low-rank adapters (LoRA) for a model, merge trained ones, or write them for others."""

import shlex

import click

import odt
from odt.cli.options.exports import weights_option
from odt.cli.options.sections import typed_options
from odt.cli.options.shared import signature_option
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.training_log import warnings_as_lines
from odt.errors import OdtError
from odt.text import quantity

MODES = ("--rank", "--merge", "--adapters")
NEW = ("--target", "--alpha", "--seed")  # options of new adapters


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
    metavar="GLOB",
    help="Weights that get an adapter, by name or operator: FULLY_CONNECTED, CONV_2D (1×1) or "
    "BATCH_MATMUL.  [default: all, but for the layer of a language model that computes the logits]",
)
@click.option(
    "--alpha",
    type=float,
    metavar="ALPHA",
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
@weights_option
@click.option(
    "--adapters",
    type=click.Path(),
    metavar="FILE",
    help="Write the adapters in FILE in the form of another program.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    required=True,
    metavar="FILE",
    help="File of the adapters: .npz; PEFT's adapter_model.safetensors, with "
    "adapter_config.json beside it; or .gguf for llama.cpp. With --merge, file of the merged model "
    "(.tflite, .circle or .onnx).",
)
def command(
    model: str,
    signature: str | None,
    rank: int | None,
    target: str | None,
    alpha: float | None,
    seed: int,
    merge: str | None,
    export_weights: str | None,
    adapters: str | None,
    output: str,
) -> None:
    """Make low-rank adapters (LoRA) for MODEL: a small file to train instead of MODEL's weights.

    A layer with weight W and an adapter computes W x + (ALPHA / R) B A x, where only the small
    matrices A and B train. B is 0 at first. `odt train MODEL --adapters FILE` trains the adapters.
    Its exports are MODEL with the adapters merged into its weights.
    """
    given = [name for name, value in zip(MODES, (rank, merge, adapters), strict=True) if value]
    if len(given) != 1:
        actual = " and ".join(given) or "none"
        raise OdtError(f"{', '.join(MODES)}: one of them must be given, but got {actual}.")
    if export_weights is not None and merge is None:
        raise OdtError("--export-weights: must come with --merge, but got it alone")
    unused = [name for name in NEW if name in typed_options()]
    if rank is None and unused:
        raise OdtError(f"{', '.join(unused)}: must be left out with {given[0]}.")
    read = {"MODEL": model, "--merge": merge, "--adapters": adapters}
    check_outputs({"--output": output}, read)
    adapter_endings = (".npz", ".safetensors", ".gguf")
    extension_of("--output", output, (*FORMATS, ".onnx") if merge is not None else adapter_endings)
    if merge is not None:
        merged = odt.load_model(model, merge, signature=signature)
        with warnings_as_lines():
            merged.save(output, float_weights=export_weights == "float")
        click.echo(f"{output}: {model} with {merge} merged into its weights")
        return
    from odt.models.model import lowered_of  # these import NumPy, which --help does not
    from odt.training.exports import check_adapters_path

    if adapters is not None:
        loaded = odt.load_model(model, adapters, signature=signature)
        check_adapters_path(output, loaded)
        loaded.save_adapters(output)
        click.echo(f"{output}: the adapters in {adapters}")
        return
    assert rank is not None, "one of the three is given"
    base = odt.load_model(model, signature=signature)
    check_adapters_path(output, base)
    adapted = odt.lora(base, rank, target=target, alpha=alpha, seed=seed)
    adapted.save_adapters(output)
    sizes = {name: a.size for name, a in adapted.parameters.items()}
    adapter_sizes = [n for name, n in sizes.items() if name.endswith(("/lora_a", "/lora_b"))]
    count = sum(adapter_sizes)
    blocks = sum(t.spec.size for t in lowered_of(adapted).graph.tensors if t.is_in_blocks)
    weights = len(adapter_sizes) // 2
    fraction = count / (sum(sizes.values()) - count + blocks)
    click.echo(
        f"{output}: adapters of rank {rank} for {quantity(weights, 'weight')}, {count:,} "
        f"parameters, {fraction:.1%} of the model's"
    )
    option = [] if signature is None else ["--signature", signature]
    data = ["--load-input", "X", "--load-expected", "Y"]
    words = [model, *option, "--adapters", output, *data, "--export-adapters", output]
    click.echo(f"Train them: {shlex.join(['odt', 'train', *words])}")
