"""Large weights are packed in parts: the bits of weights that are packed whole, less memory."""

import numpy as np
import pytest
from support.networks import ArrayData, Net
from support.tied_network import info

from odt.core.training.trainer import TRAINING, Trainer
from odt.kernels.native import convolution
from odt.kernels.native.library import is_available

RELU = 1
SAMPLES = 20

pytestmark = pytest.mark.skipif(not is_available(), reason="no compiled kernels")


def trained() -> tuple[int, list[float], list[bytes]]:
    """Bytes of the arena, losses and weights."""
    net, rng = Net(np.float32), np.random.default_rng(5)
    x = net.input(1, 9, 9, 24)
    w = net.weight(72, 3, 3, 24), net.weight(72)
    options = {"stride_h": 2, "stride_w": 2, "fused_activation_function": RELU}
    x = net.add("CONV_2D", (x, *w), (1, 5, 5, 72), **options)
    w = net.weight(7, 3, 3, 72), net.weight(7)  # fewer units than lanes
    x = net.add("CONV_2D", (x, *w), (1, 5, 5, 7), fused_activation_function=RELU)
    x = net.add("RESHAPE", (x, net.constant([1, 175], np.int32)), (1, 175))
    x = net.dense(net.dense(x, 53, fused_activation_function=RELU), 40)
    inputs, targets = rng.normal(size=(SAMPLES, 9, 9, 24)), rng.normal(size=(SAMPLES, 40))
    data = ArrayData([inputs.astype(np.float32)], [targets.astype(np.float32)])
    with Trainer(net.graph(x), info(SAMPLES), micro_batch=SAMPLES, workers=1) as t:
        losses = [t.step(data, samples) for samples in (SAMPLES, 3, SAMPLES)]
        weights = [a.tobytes() for a in t.parameters.tensors.values()]
        return t.runtime.engine_of(TRAINING).memory.nbytes, losses, weights


def test_weights_packed_in_parts_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, *expected = trained()
    monkeypatch.setattr(convolution, "PANEL", 1)
    monkeypatch.setattr(convolution, "UNITS", 16)
    parts, *found = trained()
    assert parts < whole
    assert found == expected
