"""Exports of trained weights: model files and adapters.

What writes files is loaded by the first export: many runs on a device only save checkpoints.
"""

import os
from dataclasses import replace

from odt.core.formats.flatbuffer.training_info_buffer import encode_training_info
from odt.core.integers.stored_values import stored_values
from odt.core.model.model import FLATBUFFERS, FORMATS, ONNX
from odt.core.model.record import Record
from odt.core.recipe.option_values import check_word
from odt.core.recipe.resolve import values_used
from odt.errors import OptionError, warn
from odt.kernels.loss_text import is_plugin
from odt.models.model import Model, Path, file_of, format_of
from odt.training.session import Session


def export(
    session: Session,
    path: Path,
    file_format: str | None = None,
    *,
    float_weights: bool = False,
    training_info: bool = False,
    record: Record | None = None,
) -> None:
    """Writes the model file with the trained weights, as `Trainer.export`.

    Args:
        session: model, options and memory.
        path: path of the new file.
        file_format: "tflite", "circle" or "onnx"; None for that of the suffix or of the model.
        float_weights: whether to store float16, integer and sparse weights as float32; activations
            of integers become float32 too.
        training_info: whether to add training info.
        record: preprocessing record to store; None for none.
    """
    from odt.core.export.exporter import export_model
    from odt.core.export.record_metadata import differing_normalization

    _check_merge(session, float_weights)
    trainer = session.build()
    model, adapted = session.recipe.model, session.recipe.lowered.adapted
    if file_format is None:
        file_format = format_of(path, session.model.format)
    else:
        is_onnx = session.model.format == ONNX
        check_word("file_format", file_format, FORMATS if is_onnx else FLATBUFFERS)
    info = None
    if training_info:
        info = values_used(session.recipe.lowered.part.graph, trainer.info)
    if record is not None:
        if normalizations := differing_normalization(model, record):
            old, new = normalizations
            warn(
                f"Warning: {os.fspath(path)}: its TFLite metadata stays as it is and says {old}, "
                f"but the training data have {new}."
            )
        loss = trainer.info.loss
        if loss is not None and not is_plugin(loss):
            record = replace(record, loss=loss)
    export_model(
        model,
        session.exported(),
        path,
        file_format,
        info,
        float_weights=float_weights,
        record=record,
        merged=() if adapted is None else adapted.tensors,
    )


def check_export(
    session: Session,
    file_format: str | None = None,
    *,
    float_weights: bool = False,
    training_info: bool = False,
) -> None:
    """Checks that `export` will be able to write the weights.

    Args:
        session: model, options and memory.
        file_format: as in `export`.
        float_weights: as in `export`.
        training_info: as in `export`.

    Raises:
        OptionError: if the circle+ format cannot represent the training info.
        UnsupportedError: if the weights cannot be stored in their type.
        ModelError: if the format cannot hold the model.
    """
    from odt.core.export.exporter import check_conversion, check_format, check_shared_ranges

    _check_merge(session, float_weights)
    trainer = session.build()
    recipe = session.recipe
    # Each call raises an error if it cannot do its part of an export; its result is not needed.
    check_format(recipe.model, file_format, float_weights=float_weights)
    if recipe.model.format == ONNX:
        if file_format in FLATBUFFERS:
            from odt.core.export.onnx_conversion import convert_onnx

            convert_onnx(recipe.model, {}, file_format)
        else:
            from odt.core.export.onnx_file import check_places

            check_places(recipe.model, session.exported())
        return
    if training_info:
        info = values_used(recipe.lowered.part.graph, trainer.info)
        encode_training_info(info, len(recipe.model.graph.nodes))
    if not float_weights:
        stored_values(recipe.lowered.part, recipe.dequantized, session.exported())
        if file_format is not None:
            check_conversion(recipe.model, file_format)
    check_shared_ranges(recipe.model, session.exported())


def keeps_adapters(session: Session, float_weights: bool) -> bool:
    """Whether trained adapters stay in a file of their own, since merging would round them away."""
    adapted = session.recipe.lowered.adapted
    return adapted is not None and bool(adapted.coarse) and not float_weights


def _check_merge(session: Session, float_weights: bool) -> None:
    """Raises UnsupportedError if adapters would be merged into weights of few bits."""
    adapted = session.recipe.lowered.adapted
    if adapted is not None and not float_weights:
        adapted.check_merge()


def check_adapters_path(path: Path, model: Model | Path) -> None:
    """Refuses a new file of adapters that no other program could use, before training.

    Raises:
        DataError: if the name ends in .safetensors and is not that of PEFT, or in .gguf and the
            model was not converted from GGUF.
    """
    from odt.core.export.gguf_adapters import check_language_model
    from odt.core.export.peft_adapters import check_name

    check_name(path)
    check_language_model(path, file_of(model))


def export_adapters(session: Session, path: Path) -> None:
    """Writes the trained low-rank adapters of a model, as `Trainer.export_adapters`.

    Args:
        session: model, options and memory.
        path: path of the new file.
    """
    from odt.core.export.adapter_file import write_adapters

    adapted = session.recipe.lowered.adapted
    if adapted is None:
        rule = "must be a model with adapters"
        raise OptionError("model", rule, session.model.path, "Make them with `odt.lora`.")
    weights = session.build().weights()
    write_adapters(path, adapted.trained_adapters(weights), adapted.graph, session.recipe.model)
