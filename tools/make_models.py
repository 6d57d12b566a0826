"""Writes a small float model with seeded weights, to train from nothing.

python tools/make_models.py cnn model.circle --input-shape 28,28,1 --classes 10 --seed 1
"""

import math
from collections.abc import Sequence
from pathlib import Path

import click
from model_builder import ModelBuilder

SAME, RELU = 0, 1  # of the schema's Padding and ActivationFunctionType


def mlp(model: ModelBuilder, shape: Sequence[int], classes: int) -> int:
    """Flatten → 128 → classes, SOFTMAX."""
    x = model.add_input((1, *shape))
    x = flatten(model, x, shape)
    x = model.add_dense(x, 128, fused_activation_function=RELU)
    return softmax(model, model.add_dense(x, classes), classes)


def cnn(model: ModelBuilder, shape: Sequence[int], classes: int) -> int:
    """Two convolutions of 3×3, each pooled, then 64 → classes, SOFTMAX."""
    if len(shape) != 3:
        raise click.BadParameter("a CNN takes height, width and channels, such as 28,28,1")
    x = model.add_input((1, *shape))
    height, width, channels = shape
    for filters in (16, 32):
        x = convolution(model, x, (height, width, channels), filters)
        x = max_pool(model, x, (height, width, filters))
        height, width, channels = (height + 1) // 2, (width + 1) // 2, filters
    x = flatten(model, x, (height, width, channels))
    x = model.add_dense(x, 64, fused_activation_function=RELU)
    return softmax(model, model.add_dense(x, classes), classes)


def tiny(model: ModelBuilder, shape: Sequence[int], classes: int) -> int:
    """One convolution of 3×3, pooled, then classes, SOFTMAX; printed in docs/architecture.md."""
    x = model.add_input((1, *shape))
    height, width, channels = shape
    x = convolution(model, x, (height, width, channels), 4)
    x = max_pool(model, x, (height, width, 4))
    x = flatten(model, x, ((height + 1) // 2, (width + 1) // 2, 4))
    return softmax(model, model.add_dense(x, classes), classes)


def autoencoder(model: ModelBuilder, shape: Sequence[int], classes: int) -> int:
    """Flatten → 64 → 16 → 64 → as many as came in; its target is its input."""
    size = math.prod(shape)
    x = flatten(model, model.add_input((1, *shape)), shape)
    for units in (64, 16, 64):
        x = model.add_dense(x, units, fused_activation_function=RELU)
    return model.add_dense(x, size)


def regressor(model: ModelBuilder, shape: Sequence[int], classes: int) -> int:
    """Flatten → 32 → as many values as `classes` says."""
    x = flatten(model, model.add_input((1, *shape)), shape)
    return model.add_dense(model.add_dense(x, 32, fused_activation_function=RELU), classes)


def convolution(model: ModelBuilder, x: int, shape: Sequence[int], filters: int) -> int:
    height, width, channels = shape
    name = f"conv_{len(model.graph.operators)}"
    w = model.add_weight((filters, 3, 3, channels), 9 * channels, f"{name}/w")
    b = model.add_constant([0.0] * filters, f"{name}/b")
    return model.add_operator(
        "CONV_2D",
        (x, w, b),
        (1, height, width, filters),
        padding=SAME,
        stride_w=1,
        stride_h=1,
        fused_activation_function=RELU,
    )


def max_pool(model: ModelBuilder, x: int, shape: Sequence[int]) -> int:
    height, width, channels = shape
    return model.add_operator(
        "MAX_POOL_2D",
        [x],
        (1, (height + 1) // 2, (width + 1) // 2, channels),
        padding=SAME,
        stride_w=2,
        stride_h=2,
        filter_width=2,
        filter_height=2,
    )


def flatten(model: ModelBuilder, x: int, shape: Sequence[int]) -> int:
    size = math.prod(shape)
    if len(shape) == 1:
        return x
    target = model.add_constant([-1, size], "flatten/shape")
    return model.add_operator("RESHAPE", (x, target), (1, size), new_shape=[-1, size])


def softmax(model: ModelBuilder, x: int, classes: int) -> int:
    return model.add_operator("SOFTMAX", [x], (1, classes), beta=1.0)


KINDS = {
    "mlp": mlp,
    "cnn": cnn,
    "tiny": tiny,
    "autoencoder": autoencoder,
    "regressor": regressor,
}


def parse_shape(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    """28,28,1 → (28, 28, 1)."""
    parts = text.split(",")
    if not all(p.strip().isdecimal() and int(p) > 0 for p in parts):
        raise click.BadParameter(f"must be numbers above 0 such as 28,28,1, but got {text}")
    return tuple(int(p) for p in parts)


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--seed", default=0, help="Of the weights.", show_default=True)
@click.option(
    "--input-shape",
    default="28,28,1",
    callback=parse_shape,
    help="Of one sample.",
    show_default=True,
)
@click.option("--classes", default=10, help="Outputs, but of an autoencoder.", show_default=True)
def main(kind: str, output: Path, seed: int, input_shape: tuple[int, ...], classes: int) -> None:
    """Writes a model of KIND to OUTPUT, a .circle or .tflite file."""
    file_format = output.suffix.lstrip(".")
    if file_format not in ("circle", "tflite"):
        raise click.BadParameter(f"OUTPUT must end in .circle or .tflite, but got {output}")
    model = ModelBuilder(file_format, seed)
    y = KINDS[kind](model, input_shape, classes)
    model.add_signature("serving_default", {"x": model.graph.inputs[0]}, {"y": y})
    model.write(output, y)


if __name__ == "__main__":
    main()
