"""Gives a model a new last layer: for other classes than those it was trained for.

python tools/replace_head.py backbone.tflite new.tflite --classes 4 --after 68 --seed 1
"""

from pathlib import Path

import click
from circle_schema.v0_10 import circle as schema
from model_builder import FORMATS, ModelBuilder, _Buffer

from odt.core.inspection import inspect_graph
from odt.core.reader import read_model


def load(path: Path, file_format: str, seed: int) -> ModelBuilder:
    """A builder that goes on where a model ends; its signatures and metadata go."""
    model = ModelBuilder(file_format, seed)
    version = model.model.version
    model.model = schema.Model.ModelT.InitFromPackedBuf(path.read_bytes())
    model.model.version = version
    for buffer in model.model.buffers:
        buffer.__class__ = _Buffer  # keeps data on multiples of 16
    model.model.signatureDefs, model.model.metadata = None, None
    model.model.metadataBuffer = None
    (model.graph,) = model.model.subgraphs
    return model


def cut_after(model: ModelBuilder, position: int) -> int:
    """Drops the operators behind one; gives that one's output."""
    operators = model.graph.operators
    if not 0 <= position < len(operators):
        raise click.BadParameter(f"--after must be below {len(operators)}, but got {position}")
    del operators[position + 1 :]
    return int(operators[position].outputs[0])


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--classes", required=True, type=click.IntRange(2), help="Of the new output.")
@click.option(
    "--after",
    type=int,
    help="Keep operators up to this one (odt inspect counts them); else all before the last "
    "that has weights.",
)
@click.option("--seed", default=0, show_default=True, help="Of the new weights.")
def main(source: Path, output: Path, classes: int, after: int | None, seed: int) -> None:
    """Writes SOURCE with a new FULLY_CONNECTED and SOFTMAX at its end to OUTPUT."""
    file_format = output.suffix.lstrip(".")
    if file_format not in FORMATS:
        raise click.BadParameter(f"OUTPUT must end in .circle or .tflite, but got {output}")
    if after is None:
        trained = inspect_graph(read_model(str(source)).graph).trained
        after = max(k for k, tensors in trained.items() if tensors) - 1
    model = load(source, file_format, seed)
    features = cut_after(model, after)
    logits = model.add_dense(features, classes)
    model.write(output, model.add_operator("SOFTMAX", [logits], (1, classes), beta=1.0))


if __name__ == "__main__":
    main()
