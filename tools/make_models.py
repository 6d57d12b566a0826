"""Writes a small float model with seeded weights, to train from scratch.

python tools/make_models.py cnn model.circle --input-shape 28,28,1 --classes 10 --seed 1

`odt new` makes such models of the user's own sizes; these have fixed sizes, for tests and examples.
"""

from pathlib import Path

import click

from odt.core.export.new_model import NewModel, Sizes, build_model
from odt.errors import OptionError

# Kind → kind of `odt new`, activation, sizes.
KINDS = {
    "mlp": ("mlp", "softmax", Sizes(hidden=(128,))),
    "cnn": ("cnn", "softmax", Sizes(filters=(16, 32), hidden=(64,))),
    "tiny": ("cnn", "softmax", Sizes(filters=(4,), hidden=())),
    "autoencoder": ("autoencoder", "linear", Sizes(hidden=(64, 16))),
    "regressor": ("mlp", "linear", Sizes(hidden=(32,))),
}


def parse_shape(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    """Parses a shape: 28,28,1 → (28, 28, 1)."""
    parts = text.split(",")
    if not all(p.strip().isdecimal() and int(p) > 0 for p in parts):
        raise click.BadParameter(f"must be numbers above 0 such as 28,28,1, but got {text}")
    return tuple(int(p) for p in parts)


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--seed", default=0, help="Random seed of the weights.", show_default=True)
@click.option(
    "--input-shape",
    default="28,28,1",
    callback=parse_shape,
    help="Shape of a sample.",
    show_default=True,
)
@click.option(
    "--classes", default=10, help="Number of outputs, except for an autoencoder.", show_default=True
)
def main(kind: str, output: Path, seed: int, input_shape: tuple[int, ...], classes: int) -> None:
    """Writes a model of KIND to OUTPUT, a .circle or .tflite file."""
    file_format = output.suffix.lstrip(".")
    if file_format not in ("circle", "tflite"):
        raise click.BadParameter(f"OUTPUT must end in .circle or .tflite, but got {output}")
    name, activation, sizes = KINDS[kind]
    outputs = input_shape if kind == "autoencoder" else (classes,)
    try:
        new = NewModel(name, input_shape, outputs, activation, sizes, seed=seed)
    except OptionError as e:
        raise click.BadParameter(str(e)) from e
    output.write_bytes(build_model(new, file_format))


if __name__ == "__main__":
    main()
