"""Language models of GGUF files."""

import os

from odt.arguments import checked_arguments
from odt.core.export.language_model import circle_of_gguf
from odt.core.formats.gguf.reader import MAGIC, read_gguf
from odt.core.formats.reader import read_model
from odt.core.recipe.option_values import check_whole
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import open_input
from odt.errors import ModelError
from odt.models.model import Path

CONTEXT = 256  # tokens that a converted model reads, unless the user gives another number


def is_gguf(path: Path) -> bool:
    """Whether a path is a file that begins like a GGUF file; raises ModelError if unreadable."""
    if not os.path.isfile(path):
        return False
    with open_input(path, error=ModelError) as file:
        return file.read(len(MAGIC)) == MAGIC


@checked_arguments
def convert_gguf(source: Path, output: Path, context: int = CONTEXT) -> None:
    """Converts the GGUF file of a language model to Circle, as `odt convert` does.

    Weights keep their bytes: blocks of 4 and 8 bits stay packed, in Circle's GGML types. The new
    file also holds the metadata of the old one, with its tokenizer. The new model reads the numbers
    of tokens, int32 (1, T), and computes logits (1, T, V) of the token after each of them.

    Args:
        source: path of the GGUF file: of architecture llama, with tensors of F32, F16, Q4_0, Q4_1
            and Q8_0.
        output: path of the Circle file to write.
        context: number of tokens T that the new model reads.

    Raises:
        ModelError: if the file is damaged, or the new one cannot be written.
        UnsupportedError: if odt cannot convert such a model, with the reasons.
        OptionError: if the model cannot read so many tokens.
    """
    check_whole("context", context, 1)
    parts = circle_of_gguf(read_gguf(source), context)
    write_atomically(output, parts, check=lambda path: read_model(path).check_file())
