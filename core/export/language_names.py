"""Names and rows of a converted language model's weights in the files of other programs."""

import re
from collections.abc import Callable

from odt.core.export.language_model import ARCHITECTURE, ARCHITECTURES, halves, neighbors
from odt.core.export.read_back import stored_entry
from odt.core.formats.gguf.reader import ENTRY, Metadata, entry_text, parse_gguf
from odt.core.model.model import Model
from odt.dataclass import dataclass
from odt.kernels.rows.opdef import Array

HEADS = "attention.head_count"
LOGITS = "output.weight"  # weight of the layer that computes the logits, unless it is the table's
BLOCK = re.compile(r"blk\.(\d+)\.(\w+)")
ROTATED = re.compile(r"blk\.\d+\.attn_[qk]\.weight")  # with rows of heads that ROPE rotates


@dataclass(frozen=True, slots=True)
class Language:
    """The language model from which a Circle model was converted.

    Attributes:
        architecture: name of its architecture.
        head: rows of a head of queries or keys.
    """

    architecture: str
    head: int

    def rows_of_gguf(self, name: str, rows: Array) -> Array:
        """Returns rows of a weight, such as those of B, in the order of the GGUF file."""
        return self._ordered(name, rows, neighbors)

    def rows_of_circle(self, name: str, rows: Array) -> Array:
        """Returns rows of a weight in the order of the Circle file."""
        return self._ordered(name, rows, halves)

    def _ordered(self, name: str, rows: Array, order: Callable[[Array, int], Array]) -> Array:
        turns = ARCHITECTURES[self.architecture].rotates_neighbors and ROTATED.fullmatch(name)
        return order(rows, self.head).reshape(rows.shape) if turns else rows


def language_of(model: Model) -> Language | None:
    """Returns the language model from which a model was converted; None for other models."""
    entry = stored_entry(model, ENTRY)
    if entry is None:
        return None
    metadata: Metadata = parse_gguf(memoryview(entry), model.path).metadata
    name = entry_text(metadata, ARCHITECTURE, "")
    if name not in ARCHITECTURES:
        return None
    keys = ("embedding_length", HEADS, "attention.key_length")
    width, heads, head = (metadata.get(f"{name}.{key}") for key in keys)
    if head is None and isinstance(width, int) and isinstance(heads, int) and heads > 0:
        head = width // heads
    return Language(name, head) if isinstance(head, int) and head > 1 else None


def module_of(name: str, language: Language | None) -> str:
    """Returns the name of the module of a weight, in transformers if it is a language model's."""
    module = name.removesuffix(".weight")
    if language is None:
        return module
    modules = ARCHITECTURES[language.architecture].modules
    block = BLOCK.fullmatch(module)
    if block is None:
        return modules.get(module, module)
    return f"model.layers.{block[1]}.{modules.get(block[2], block[2])}"
