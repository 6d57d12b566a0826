"""The integer form of a trainer's quantized model, which is kept while its weights stay."""

from collections.abc import Callable, Mapping

from odt.core.data.protocol import Scales
from odt.core.lowering.lower import LoweredGraphs
from odt.core.storage.closing import Closing
from odt.core.training.inference import Evaluator, Predictor
from odt.kernels.rows.opdef import Array


def digest_of(weights: Mapping[int, Array]) -> bytes:
    """Returns a hash of weights, by tensor."""
    import hashlib

    hasher = hashlib.blake2b(digest_size=16)
    for i, a in sorted(weights.items()):
        hasher.update(f"{i} {a.dtype} {a.shape} ".encode())
        hasher.update(a.reshape(-1).view("u1").data)
    return hasher.digest()


class IntegerForm(Closing):
    """Plans that compute what the exported model computes.

    Attributes:
        digest: hash of the weights.
    """

    def __init__(
        self,
        digest: bytes,
        graphs: LoweredGraphs,
        evaluator: Callable[[LoweredGraphs, Scales], Evaluator],
        predictor: Callable[[LoweredGraphs], Predictor],
    ) -> None:
        """Plans nothing yet.

        Args:
            digest: hash of the weights.
            graphs: graphs that compute integers.
            evaluator: plans an evaluation of graphs, for weights or without.
            predictor: plans the computation of outputs.
        """
        self.digest = digest
        self._graphs = graphs
        self._make_evaluator = evaluator
        self._make_predictor = predictor
        self._evaluators: dict[Scales, Evaluator] = {}
        self._predictor: Predictor | None = None

    def evaluator(self, scales: Scales) -> Evaluator:
        """Returns the evaluator of samples with weights of this kind."""
        if scales not in self._evaluators:
            self._evaluators[scales] = self._make_evaluator(self._graphs, scales)
        return self._evaluators[scales]

    @property
    def predictor(self) -> Predictor:
        """The predictor of the model's outputs."""
        if self._predictor is None:
            self._predictor = self._make_predictor(self._graphs)
        return self._predictor

    def close(self) -> None:
        """Ends the worker threads."""
        for plan in (*self._evaluators.values(), self._predictor):
            if plan is not None:
                plan.close()
