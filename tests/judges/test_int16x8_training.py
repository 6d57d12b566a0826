"""Files with int16 activations and int8 weights train; LiteRT computes what they learned."""

from pathlib import Path

import numpy as np
import pytest
from support.judges import litert

import odt
from odt.core.formats.reader import read_model

SIDE, CLASSES, SAMPLES = 8, 3, 48


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "adam", "learning_rate": 1e-2},
        {"optimizer": "adam", "learning_rate": 1e-2, "quant_ranges": "follow"},
        {"optimizer": "sgd", "learning_rate": 1e-2, "qas": True},
    ],
)
def test_int16_activations_train(options: dict[str, object], tmp_path: Path) -> None:
    before, after = tmp_path / "before.tflite", tmp_path / "after.tflite"
    rng = np.random.default_rng(0)
    labels = np.arange(SAMPLES, dtype=np.int32) % CLASSES
    x = rng.normal(size=(SAMPLES, SIDE, SIDE, 1)).astype(np.float32)
    x += labels[:, None, None, None] - 1  # a class is a brightness
    real = odt.new_model("cnn", input_shape=(SIDE, SIDE, 1), outputs=CLASSES, seed=1)
    odt.quantize(real, x, scheme="int16x8").model.save(before)
    trainer = odt.Trainer(
        before,
        loss="sparse_categorical_crossentropy",
        trainable=odt.last(-1),
        batch_size=16,
        workers=1,
        **options,  # type: ignore[arg-type]
    )
    first = trainer.evaluate(x, labels)["loss"]
    trainer.fit(x, labels, epochs=4, seed=1)
    assert trainer.evaluate(x, labels)["loss"] < first / 2
    trainer.export(after)
    old, new = read_model(str(before)), read_model(str(after))
    assert [t.spec for t in new.graph.tensors] == [t.spec for t in old.graph.tensors]
    assert len(new.data) == len(old.data)
    (judged,) = litert(after, [x])
    np.testing.assert_allclose(judged, trainer.predict(x), atol=1e-3)
