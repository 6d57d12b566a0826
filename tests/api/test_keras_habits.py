"""What users of Keras write out of habit works, or the message says what to write."""

from pathlib import Path

import numpy as np
import pytest
from support.paths import MLP_SM

import odt

MODEL = MLP_SM / "model.circle"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(32, 784)).astype(np.float32)
LABELS = RNG.integers(0, 10, 32)
Y = np.eye(10, dtype=np.float32)[LABELS]


def test_acc_is_the_accuracy_that_fits() -> None:
    with odt.Trainer(MODEL, metrics=["acc"], keep_best=True, monitor="val_acc") as trainer:
        history = trainer.fit(X, Y, epochs=1, validation_split=0.5).history
    assert history.keys() >= {"acc", "val_acc"}


def test_a_name_of_an_optimizer_may_have_capitals() -> None:
    with odt.Trainer(MODEL, optimizer="Adam") as trainer:
        assert trainer.recipe.info.optimizer == "adam"


def test_one_callback_needs_no_list() -> None:
    ends: list[int] = []
    callback = odt.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(epoch))
    with odt.Trainer(MODEL) as trainer:
        trainer.fit(X, Y, epochs=2, callbacks=callback)
    assert ends == [0, 1]


def test_labels_for_one_hot_rows_name_the_loss_for_them() -> None:
    remedy = "Integer labels are for the loss `sparse_categorical_crossentropy`"
    with odt.Trainer(MODEL) as trainer, pytest.raises(odt.DataError, match=remedy):
        trainer.fit(X, LABELS)


def test_the_name_of_one_tensor_cuts_a_model(tmp_path: Path) -> None:
    hidden = odt.load_model(MODEL)._file.graph.nodes[0].outputs[0]
    part = odt.cut(MODEL, after=hidden)
    assert [tensor.shape for tensor in part.inputs] == [(1, 128)]
    with pytest.raises(
        odt.OptionError, match=r"`after=`: .* but got no. `Model.summary\(\)` lists"
    ):
        odt.cut(MODEL, after="no")
