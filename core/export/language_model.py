"""Circle models from GGUF files of language models.

A model reads the numbers of T tokens, int32 (1, T), and computes logits (1, T, V) of the token
after each. Weights keep their bytes: blocks of 4 and 8 bits are tensors of Circle's GGML types. The
file also keeps the metadata of the GGUF file, with tokenizer and chat template: a GGUF file without
tensors in the metadata entry of that name.

The queries of the heads that share keys and values are rows of one product. Circle's ROPE rotates
the halves of a head; rows of queries and keys that are in the order for rotating neighbors are put
into the order for halves.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.gguf.reader import ENTRY, Gguf, GgufTensor, entry_text
from odt.core.formats.gguf.writer import encode_with
from odt.core.storage.reading import listed, printable
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError, UnsupportedError
from odt.kernels.rows.opdef import Array

INPUT, OUTPUT = "tokens", "logits"
MASKED = np.float32(-1e30)  # added to the scores of later tokens, whose probability is then 0
ARCHITECTURE = "general.architecture"
# Type of a GGUF tensor → type of the Circle tensor, and the operator that makes it float32.
STORED = {
    "F32": ("FLOAT32", ""),
    "F16": ("FLOAT16", "DEQUANTIZE"),
    "Q4_0": ("GGML_Q4_0", ""),
    "Q4_1": ("GGML_Q4_1", ""),
    "Q8_0": ("GGML_Q8_0", ""),
}
HYPER = frozenset(  # hyper-parameters that all architectures may have
    (
        *("block_count", "context_length", "embedding_length", "feed_forward_length"),
        *("attention.head_count", "attention.head_count_kv"),
        *("attention.key_length", "attention.value_length"),
        *("attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.dimension_count"),
        *("vocab_size", "tensor_data_layout"),
    )
)
EXPERTS = ("expert_count", "expert_used_count")  # must be 0


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture of language models in GGUF files.

    Attributes:
        name: name in the metadata, with which its hyper-parameters begin.
        rotates_neighbors: whether rows of queries and keys are in the order for rotary embeddings
            that rotate neighbors, not halves.
        modules: layer, in a block or outside → its module in transformers.
    """

    name: str
    rotates_neighbors: bool
    modules: Mapping[str, str]


LLAMA = Architecture(
    "llama",
    rotates_neighbors=True,
    modules={
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "output": "lm_head",
    },
)
ARCHITECTURES = {row.name: row for row in (LLAMA,)}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Hyper-parameters of a model.

    Attributes:
        blocks: number of blocks.
        width: values of a token between blocks.
        hidden: values of a token inside a feed-forward layer.
        heads, kv_heads: heads of queries, and of keys and values.
        head: values of a head.
        epsilon: ε of RMS_NORM.
        base: base of the frequencies of rotary embeddings.
        context: most tokens that the model can read.
    """

    blocks: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    epsilon: float
    base: float
    context: int


def circle_of_gguf(file: Gguf, context: int) -> Iterator[bytes | memoryview]:
    """Returns the parts of a Circle file.

    Args:
        file: a GGUF file of a language model.
        context: number of tokens T that the model reads.

    Raises:
        ModelError: if the file lacks what its architecture has, or a tensor does not fit.
        UnsupportedError: if odt cannot convert such models, with the reasons.
        OptionError: if the model cannot read that many tokens.
    """
    architecture = _architecture(file)
    sizes = _sizes(file, architecture)
    if not 1 <= context <= sizes.context:
        rule = f"must be 1 to {sizes.context}, the tokens that {file.path} can read"
        raise OptionError("context", rule, context)
    return _Builder(file, architecture, sizes, context).build()


def _architecture(file: Gguf) -> Architecture:
    """Returns the row of the file's architecture.

    Raises:
        UnsupportedError: if there is none, or the file has what the row does not describe.
    """
    metadata = file.metadata
    kind = entry_text(metadata, "general.type", "model")
    if kind != "model":
        raise UnsupportedError(f"{file.path}: must be a model, but got {kind}.")
    name = entry_text(metadata, ARCHITECTURE, "none")
    row = ARCHITECTURES.get(name)
    if row is None:
        raise UnsupportedError(
            f"{file.path}: {ARCHITECTURE} must be {' or '.join(ARCHITECTURES)}, but got {name}."
        )
    reasons = []
    if entry_text(metadata, "split.count", 1) not in ("0", "1"):
        reasons.append("it is split; join its files with llama-gguf-split")
    begin, scaling = f"{row.name}.", f"{row.name}.rope.scaling."
    scaled = entry_text(metadata, f"{scaling}type", "none") != "none"
    if scaled or "rope_freqs.weight" in file.tensors:
        reasons.append("it scales rotary embeddings")
    experts = [key for key in EXPERTS if entry_text(metadata, begin + key, 0) != "0"]
    if experts:
        reasons.append(f"it has experts ({', '.join(experts)})")
    hyper = {key.removeprefix(begin) for key in metadata if key.startswith(begin)}
    unknown = {key for key in hyper - HYPER - {*EXPERTS} if not key.startswith("rope.scaling.")}
    if unknown:
        reasons.append(f"it has the hyper-parameters {listed(sorted(unknown))}")
    types = {tensor.kind.name for tensor in file.tensors.values()} - STORED.keys()
    if types:
        reasons.append(f"it has tensors of {listed(sorted(types))}, not only {', '.join(STORED)}")
    if reasons:
        raise UnsupportedError(
            f"{file.path}: must be a {row.name} model without what odt cannot convert, but "
            f"{'; '.join(reasons)}."
        )
    return row


def _sizes(file: Gguf, architecture: Architecture) -> Sizes:
    """Reads the hyper-parameters."""

    def read(key: str, kind: type[int] | type[float], default: Any = None) -> Any:
        name = f"{architecture.name}.{key}"
        value = file.metadata.get(name, default)
        if type(value) is not kind or not 0 < value < math.inf:
            what = "a positive whole number" if kind is int else "a positive number"
            raise ModelError(f"{file.path}: {name} must be {what}, but got {printable(value)}.")
        return value

    width, heads = read("embedding_length", int), read("attention.head_count", int)
    head = read("attention.key_length", int, max(width // heads, 1))
    if head % 2:
        raise ModelError(
            f"{file.path}: heads must have an even width for rotary embeddings, but got {head}."
        )
    for key in ("attention.value_length", "rope.dimension_count"):
        if read(key, int, head) != head:
            raise ModelError(
                f"{file.path}: {architecture.name}.{key} must be the width of a head, {head}, "
                f"but got {read(key, int, head)}."
            )
    kv_heads = read("attention.head_count_kv", int, heads)
    if heads % kv_heads:
        raise ModelError(
            f"{file.path}: heads of keys must divide those of queries, but got {kv_heads} and "
            f"{heads}."
        )
    return Sizes(
        blocks=read("block_count", int),
        width=width,
        hidden=read("feed_forward_length", int),
        heads=heads,
        kv_heads=kv_heads,
        head=head,
        epsilon=read("attention.layer_norm_rms_epsilon", float),
        base=read("rope.freq_base", float, 10_000.0),
        context=read("context_length", int),
    )


class _Builder:
    """Builds a model.

    Attributes:
        left: names of the file's tensors that no layer has read yet.
        shared: constants that several nodes read, by shape, dtype and bytes.
    """

    def __init__(self, file: Gguf, architecture: Architecture, sizes: Sizes, context: int) -> None:
        self.file, self.architecture, self.sizes, self.context = file, architecture, sizes, context
        self.builder = ModelBuilder("circle")
        self.left = set(file.tensors)
        self.shared: dict[tuple[Any, ...], int] = {}

    def build(self) -> Iterator[bytes | memoryview]:
        """Returns the parts of the file."""
        sizes, context, builder = self.sizes, self.context, self.builder
        if sizes.blocks > len(self.file.tensors):
            raise self.missing(f"blk.{sizes.blocks - 1}.attn_norm.weight")
        tokens = builder.add_input((1, context), "int32", name=INPUT)
        vocabulary = len(self.tensor("token_embd.weight").rows())
        embeddings = self.weight("token_embd.weight", (vocabulary, sizes.width))
        x = self.add("GATHER", (embeddings, tokens), (1, context, sizes.width), axis=0)
        for k in range(sizes.blocks):
            x = self.sum(x, self.attention(x, f"blk.{k}."))
            x = self.sum(x, self.feed_forward(x, f"blk.{k}."))
        x = self.norm(x, "output_norm")
        head = embeddings
        if "output.weight" in self.file.tensors:
            head = self.weight("output.weight", (vocabulary, sizes.width))
        y = self.dense(x, head, vocabulary)
        builder.graph.tensors[y].name = OUTPUT
        if self.left:
            raise UnsupportedError(
                f"{self.file.path}: all tensors must be those of a {self.architecture.name} model, "
                f"but got {listed(sorted(self.left))}."
            )
        parts = encode_with(self.file.entries, len(self.file.metadata), {})
        builder.add_metadata(ENTRY, b"".join(parts))
        builder.add_signature("serving_default", {INPUT: tokens}, {OUTPUT: y})
        return builder.chunks(y)

    def attention(self, x: int, block: str) -> int:
        """Adds causal attention; returns its output (1, T, D)."""
        sizes, context = self.sizes, self.context
        heads, kv_heads, head = sizes.heads, sizes.kv_heads, sizes.head
        x = self.norm(x, f"{block}attn_norm")
        q = self.rotated(self.heads(x, f"{block}attn_q", heads, is_rotated=True))
        k = self.rotated(self.heads(x, f"{block}attn_k", kv_heads, is_rotated=True))
        v = self.heads(x, f"{block}attn_v", kv_heads)
        rows = heads // kv_heads * context  # of the queries that share keys
        q = self.reshape(q, (1, kv_heads, rows, head))
        scores = self.add("BATCH_MATMUL", (q, k), (1, kv_heads, rows, context), adj_y=True)
        scores = self.reshape(scores, (1, heads, context, context))
        mask = self.constant(np.triu(np.full((1, 1, context, context), MASKED), 1))
        scores = self.add("ADD", (scores, mask), (1, heads, context, context))
        p = self.add("SOFTMAX", (scores,), (1, heads, context, context), beta=head**-0.5)
        p = self.reshape(p, (1, kv_heads, rows, context))
        y = self.add("BATCH_MATMUL", (p, v), (1, kv_heads, rows, head))
        y = self.reshape(y, (1, heads, context, head))
        y = self.transpose(y, (1, context, heads, head))
        y = self.reshape(y, (1, context, heads * head))
        return self.layer(y, f"{block}attn_output", heads * head, sizes.width)

    def heads(self, x: int, name: str, heads: int, *, is_rotated: bool = False) -> int:
        """Adds a layer of heads; returns its output as (1, heads, T, head)."""
        sizes, context = self.sizes, self.context
        y = self.layer(x, name, sizes.width, heads * sizes.head, is_rotated=is_rotated)
        y = self.reshape(y, (1, context, heads, sizes.head))
        return self.transpose(y, (1, heads, context, sizes.head))

    def rotated(self, x: int) -> int:
        """Adds rotary embeddings: pair i of position t is rotated by t base^(−2 i / head)."""
        half = self.sizes.head // 2
        frequencies = self.sizes.base ** (-np.arange(half) / half)
        angles = np.outer(np.arange(self.context), frequencies)
        angles = np.concatenate((angles, angles), axis=1)[None, None]
        tables = (self.constant(f(angles).astype(np.float32)) for f in (np.sin, np.cos))
        return self.add("ROPE", (x, *tables), self.shape(x))

    def feed_forward(self, x: int, block: str) -> int:
        """Adds a gated feed-forward layer with SiLU; returns its output (1, T, D)."""
        width, hidden = self.sizes.width, self.sizes.hidden
        x = self.norm(x, f"{block}ffn_norm")
        gate = self.layer(x, f"{block}ffn_gate", width, hidden)
        up = self.layer(x, f"{block}ffn_up", width, hidden)
        logistic = self.add("LOGISTIC", (gate,), self.shape(gate))
        gate = self.add("MUL", (gate, logistic), self.shape(gate))
        y = self.add("MUL", (gate, up), self.shape(gate))
        return self.layer(y, f"{block}ffn_down", hidden, width)

    def norm(self, x: int, name: str) -> int:
        """Adds RMS_NORM."""
        gain = self.weight(f"{name}.weight", (self.sizes.width,))
        return self.add("RMS_NORM", (x, gain), self.shape(x), epsilon=self.sizes.epsilon)

    def layer(self, x: int, name: str, width: int, units: int, *, is_rotated: bool = False) -> int:
        """Adds FULLY_CONNECTED with a weight (units, width) of the file."""
        weight = self.weight(f"{name}.weight", (units, width), is_rotated=is_rotated)
        return self.dense(x, weight, units)

    def dense(self, x: int, weight: int, units: int) -> int:
        """Adds FULLY_CONNECTED without bias."""
        shape = (*self.shape(x)[:-1], units)
        return self.add("FULLY_CONNECTED", (x, weight, -1), shape, keep_num_dims=True)

    def sum(self, x: int, y: int) -> int:
        return self.add("ADD", (x, y), self.shape(x))

    def reshape(self, x: int, shape: tuple[int, ...]) -> int:
        sizes = self.constant(np.array(shape, np.int32))
        return self.add("RESHAPE", (x, sizes), shape, new_shape=shape)

    def transpose(self, x: int, shape: tuple[int, ...]) -> int:
        """Exchanges the axes 1 and 2, which gives a shape."""
        return self.add("TRANSPOSE", (x, self.constant(np.array((0, 2, 1, 3), np.int32))), shape)

    def add(self, op: str, inputs: Sequence[int], shape: Sequence[int], **options: Any) -> int:
        return self.builder.add_operator(op, inputs, shape, **options)

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.builder.graph.tensors[tensor].shape)

    def constant(self, values: Array) -> int:
        """Returns a constant, which is stored once."""
        key = (values.shape, values.dtype, values.tobytes())
        if key not in self.shared:
            self.shared[key] = self.builder.add_constant(values)
        return self.shared[key]

    def tensor(self, name: str) -> GgufTensor:
        """Returns a tensor of the file."""
        if name not in self.file.tensors:
            raise self.missing(name)
        return self.file.tensors[name]

    def missing(self, name: str) -> ModelError:
        kind = self.architecture.name
        return ModelError(f"{self.file.path}: a {kind} model must have {name}, but lacks it.")

    def weight(self, name: str, shape: tuple[int, ...], *, is_rotated: bool = False) -> int:
        """Adds a tensor of the file with its bytes; returns it as float32 or blocks.

        Args:
            name: name in the file.
            shape: shape that it must have.
            is_rotated: whether its rows are those of heads that rotary embeddings rotate.
        """
        tensor = self.tensor(name)
        if tensor.shape != shape:
            raise ModelError(
                f"{self.file.path}: {name} must have shape {shape}, but got {tensor.shape}."
            )
        self.left.discard(name)
        data = tensor.data
        if is_rotated and self.architecture.rotates_neighbors:
            data = halves(tensor.rows(), self.sizes.head)
        kind, convert = STORED[tensor.kind.name]
        stored = self.builder.add_stored(shape, kind, name, data)
        if not convert:
            return stored
        return self.add(convert, (stored,), shape)


def halves(rows: Array, head: int) -> Array:
    """Returns the rows of heads with the first ones of all pairs of neighbors before the second.

    Args:
        rows: bytes of the rows (heads · head, bytes).
        head: rows of a head, even.
    """
    pairs = rows.reshape(-1, head // 2, 2, rows.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(-1)


def neighbors(rows: Array, head: int) -> Array:
    """Returns the rows of heads with the rows of a pair side by side: the reverse of `halves`."""
    pairs = rows.reshape(-1, 2, head // 2, rows.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(-1)
