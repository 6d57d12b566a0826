"""Python functions, TensorFlow Datasets and Hugging Face."""

from odt.datasets.source import Source
from odt.datasets.source_format import Opening, SourceFormat
from odt.datasets.streams import open_callable, open_hugging_face, open_tfds


def open_function(opening: Opening) -> Source:
    """Opens module:function."""
    return open_callable(opening.text, opening.arrays.classes)


def open_tensorflow(opening: Opening) -> Source:
    """Opens tfds:NAME."""
    return open_tfds(opening.text.removeprefix("tfds:"), _folder(opening))


def open_hub(opening: Opening) -> Source:
    """Opens hf:NAME."""
    return open_hugging_face(opening.text.removeprefix("hf:"), _folder(opening))


def _folder(opening: Opening) -> str | None:
    return None if opening.data_dir is None else str(opening.data_dir)


FORMATS = (
    SourceFormat("callable", open_function, contents="`module:function`", is_path=False, place=10),
    SourceFormat("tfds", open_tensorflow, contents="`tfds:NAME`", is_path=False, place=11),
    SourceFormat("huggingface", open_hub, contents="`hf:NAME`", is_path=False, place=12),
)
