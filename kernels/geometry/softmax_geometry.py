"""Attributes of cross-entropies, and the number of distributions per sample."""

from collections.abc import Mapping
from typing import Any

from odt.dataclass import dataclass
from odt.kernels.geometry.decoders import Decoder
from odt.kernels.rows.opdef import Array, Options, Specs, TensorSpec

SMALLEST = 1e-20  # lower limit of a probability before its logarithm, as in onert
TINY = 1e-30  # in focal losses: instead of 0 before a logarithm or as a divisor


@dataclass(frozen=True, slots=True)
class CrossEntropyAttrs:
    """Attributes of a cross-entropy.

    Attributes:
        from_logits: whether x is logits and p = softmax(beta · x); otherwise x is p.
        beta: β of the SOFTMAX that is fused with the loss.
        mean_over_positions: whether the loss of a sample with several distributions (rank above 2)
            is their mean, as in Keras, instead of their sum.
        label_smoothing: fraction of each target that is spread evenly over the classes.
    """

    from_logits: bool = True
    beta: float = 1.0
    mean_over_positions: bool = True
    label_smoothing: float = 0.0


@dataclass(frozen=True, slots=True)
class ChunkedAttrs:
    """Attributes of a dense layer and its cross-entropy, in chunks of rows.

    Attributes:
        loss: attributes of the loss.
        rows: rows of a chunk.
        shape: shape of the weights, (V, I).
        decoder: decodes w, which the file stores in another form; None for real numbers.
    """

    loss: CrossEntropyAttrs
    rows: int
    shape: tuple[int, ...]
    decoder: Decoder | None = None


def cross_entropy_attrs(options: Options, statics: Mapping[str, Array]) -> CrossEntropyAttrs:
    return CrossEntropyAttrs(**options)


def positions(attrs: CrossEntropyAttrs, x: TensorSpec) -> int:
    """Returns the divisor of a sample's sum over its distributions."""
    if not attrs.mean_over_positions:
        return 1
    return max(x.size // (x.shape[0] * x.shape[-1]), 1) if x.size else 1


def prepare(attrs: CrossEntropyAttrs, s: Specs) -> Mapping[str, Any]:
    return {"divisor": positions(attrs, s["x"])}
