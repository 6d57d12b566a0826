"""Options for reading a model file, which are keywords of `odt.load_model`."""

from collections.abc import Mapping, Sequence
from typing import Any

from odt.core.options.option import DATA, File, Form, Switch, Whole, option, rows_of
from odt.dataclass import dataclass

MAX_DETECTIONS = 2**16  # more than the anchors of published detectors


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options for reading a model file. Each field is the row of an option."""

    signature: str | None = option(
        None,
        Form("text", "name of a signature"),
        DATA,
        "Signature of the model to use, of several. The first subgraph if left out.",
        metavar="NAME",
    )
    input_shapes: Mapping[str, Sequence[int]] | None = option(
        None,
        Form("input shape", "a shape such as 1x16000, or NAME=SHAPE", several="mapping"),
        DATA,
        "Shape of an input that the file leaves open, with the axis of the batch. A name is needed "
        "if there are several inputs. Repeatable.",
        spellings=("input-shape",),
    )
    input_values: Mapping[str, Any] | None = option(
        None,
        Form("input value", "NAME=VALUE: a number, or numbers with commas", several="mapping"),
        DATA,
        "Value of an input that is the same for all samples, such as a sampling rate. It is then a "
        "constant, not an input, and chooses the branches that depend on it. Repeatable.",
        metavar="NAME=VALUE",
        spellings=("input-value",),
    )
    sequence_length: int | None = option(
        None,
        Whole(1),
        DATA,
        "Time steps in a sample of a streaming model, which keeps state from one run to the next; "
        "inputs have the shape (samples, N, ...).",
        metavar="N",
    )
    return_sequences: bool = option(
        False,
        Switch(),
        DATA,
        "Return the outputs of all time steps of a streaming model, not only of the last one.",
    )
    max_detections: int | None = option(
        None,
        Whole(1, MAX_DETECTIONS),
        DATA,
        "Largest number of boxes that a detector with TFLite_Detection_PostProcess returns for a "
        "sample. That of the file if left out.",
        metavar="N",
    )
    anchors: str | None = option(
        None,
        Form("text", "mediapipe: and strides"),
        DATA,
        "Anchors of a detector whose file has none, such as BlazeFace: mediapipe:8,16,16,16 are "
        "those of MediaPipe's layers with these strides.",
        metavar="TEXT",
    )
    adapters: Any = option(
        None,
        File(),
        DATA,
        "Low-rank adapters of odt lora, PEFT or GGUF to add to the model.",
        metavar="FILE",
    )


MODEL_OPTIONS = rows_of(ModelOptions)
