"""Variables that each run multiplies by a mask: weights whose zeros stay."""

from pathlib import Path

import numpy as np
import pytest
from support.judges import litert, odt
from support.model_forms import FORMS, IMAGE, Pruned, write_form

from odt import Trainer, load_model
from odt.core.formats.reader import read_model
from odt.core.lowering.normalize.inline import apply_masks, constant_variables
from odt.core.model.variables import keeps_state

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (8, *IMAGE[1:])).astype(np.float32)
T = np.eye(3, dtype=np.float32)[RNG.integers(0, 3, 8)]


class EarlyRead(Pruned):
    """The layer reads the variable before the mask is applied."""

    dense = False

    def initial(self, name: str) -> int:
        if self.dense:
            return self.add_constant(self.values[name] + 1, name)
        return super().initial(name)

    def stored(self, name: str) -> int:
        y = super().stored(name)
        return y - 3 if name == "conv" else y  # handle, read, mask, product, read


class Dense(EarlyRead):
    dense = True


class Product(Pruned):
    """The layer reads the product, not the variable."""

    def stored(self, name: str) -> int:
        return super().stored(name) - 1


@pytest.mark.parametrize("form", ["pruning wrappers", "pruning wrappers of float16"])
def test_the_weights_train_and_their_zeros_stay(form: str, tmp_path: Path) -> None:
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    write_form(FORMS[form], path)
    with Trainer(load_model(path), loss="cce", learning_rate=0.05, batch_size=4) as trainer:
        trainer.fit(X, T, epochs=3)
        trainer.export(out)
    before, after = ({v.tensor: v for v in read_model(p).variables.values()} for p in (path, out))
    assert len(before) == 3
    for k, old in before.items():
        a, b = old.real, after[k].real
        assert a is not None
        assert b is not None
        np.testing.assert_array_equal(b[a == 0], 0)
        assert (b[a != 0] != a[a != 0]).any()
    np.testing.assert_allclose(odt(out, [X])[0], litert(out, [X])[0], atol=1e-6)


@pytest.mark.parametrize("make", [Product, EarlyRead])
def test_other_ways_to_read_a_variable(make: type[Pruned], tmp_path: Path) -> None:
    write_form(make, tmp_path / "m.tflite")
    model = read_model(tmp_path / "m.tflite")
    assert keeps_state(model.graph)
    assert not keeps_state(apply_masks(model).graph)
    read = constant_variables(apply_masks(model)).values()
    assert {name for name, _ in read} == {"conv", "hidden", "last"}
    theirs = litert(tmp_path / "m.tflite", [X])[0]
    np.testing.assert_allclose(odt(tmp_path / "m.tflite", [X])[0], theirs, atol=1e-6)


def test_a_first_run_that_reads_other_values_keeps_its_state(tmp_path: Path) -> None:
    write_form(Dense, tmp_path / "m.tflite")
    assert keeps_state(apply_masks(read_model(tmp_path / "m.tflite")).graph)
