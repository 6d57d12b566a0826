"""Parts of models, which are trained alone: cut out, and put back."""

from collections.abc import Iterable, Sequence

from odt.arguments import checked_arguments
from odt.core.export.cut import cut as cut_out
from odt.core.export.cut import join as joined
from odt.habits import known_arguments
from odt.models.model import Model, Path, file_of


@known_arguments()
@checked_arguments
def cut(
    model: Model | Path,
    after: str | int | Sequence[str | int] = (),
    before: str | int | Sequence[str | int] = (),
) -> Model:
    """Cuts a part out of a model, to train it alone.

    Training info, preprocessing record and TFLite Model Metadata, which describe the whole model,
    are left out. Signatures keep the names of inputs and outputs that stay.

    Args:
        model: a model or the path of its file.
        after: name or number of a tensor that becomes an input, or several. Operators and inputs
            that serve only to compute these tensors are left out.
        before: name or number of a tensor that becomes an output, or several. Default: the model's
            outputs.

    Returns:
        The part.

    Raises:
        ModelError: if the model cannot be read.
        OptionError: if a name fits no tensor or several, a tensor is a constant, the outputs do not
            depend on a new input or only through other new inputs, or no operator is left.
        UnsupportedError: if the part contains control flow, or variables that operators assign or
            that have no initial value; or if the model is an ONNX file.
    """
    after, before = (
        [n] if isinstance(n, str) or not isinstance(n, Iterable) else n for n in (after, before)
    )
    return Model(cut_out(file_of(model), after, before).model)


@checked_arguments
def join(model: Model | Path, parts: Sequence[Model | Path], path: Path) -> int:
    """Writes a model with the weights of trained parts; everything else in it stays.

    If a changed weight shares its bytes with an unchanged constant, the weight gets bytes of its
    own.

    Args:
        model: the model that the parts were cut from, or the path of its file.
        parts: parts that `cut` made and that were trained, or the paths of their files.
        path: path of the file to write, in the model's format.

    Returns:
        Number of weights that differ from those of the model.

    Raises:
        ModelError: if a model cannot be read, a part was not cut from this one, two parts
            changed one tensor to different values, or the file cannot be written.
        UnsupportedError: if the model is an ONNX file.
    """
    return joined(file_of(model), [file_of(part) for part in parts], path)
