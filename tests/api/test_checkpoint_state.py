"""CheckpointState: the state of a trainer and of a file, as objects."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_builder import ModelBuilder

import odt
from odt.core.checkpoints.checkpoint import Entry, encode
from odt.training.checkpoint_state import resume_from

RNG = np.random.default_rng(3)
X = RNG.normal(size=(32, 6)).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[RNG.integers(0, 3, 32)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 6 → 5 → 3 by SOFTMAX."""
    path = tmp_path_factory.mktemp("model") / "m.tflite"
    builder = ModelBuilder("tflite")
    y = builder.add_dense(builder.add_dense(builder.add_input((1, 6)), 5), 3)
    builder.write(path, builder.add_operator("SOFTMAX", [y], (1, 3), beta=1.0))
    return path


def trainer(model: Path, **options: Any) -> odt.Trainer:
    return odt.Trainer(model, **{"optimizer": odt.Adam(0.01), "batch_size": 8, **options})


def trained(model: Path, **options: Any) -> odt.Trainer:
    t = trainer(model, **options)
    t.fit(X, Y, epochs=2)
    return t


def copied(arrays: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: a.copy() for name, a in arrays.items()}


def same(a: Any, b: Any) -> bool:
    return [*a] == [*b] and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_file_has_what_the_trainer_had(model: Path, tmp_path: Path) -> None:
    with trained(model, trainable=odt.last(2)) as t:
        t.state.properties["device"] = "kitchen µ"
        t.state.properties["round"] = 4
        t.state.properties["share"] = 1.0
        t.state.save(tmp_path / "s.odt", trainable_only=False)
        back, state = odt.CheckpointState.load(tmp_path / "s.odt"), t.state
        assert same(back.parameters, state.parameters)
        assert same(back.optimizer_state, state.optimizer_state)
        assert (back.step, back.trainable) == (8, state.trainable)
        assert len(back.trainable) == 2 < len(back.parameters) == 4
        values = dict(back.properties)
        assert values == {"device": "kitchen µ", "round": 4, "share": 1.0}
        assert [type(v) for v in values.values()] == [str, int, float]


@pytest.mark.parametrize("suffix", [".odt", ".npz"])
def test_what_trains_is_saved_as_a_checkpoint_of_the_trainer(
    suffix: str, model: Path, tmp_path: Path
) -> None:
    with trained(model, trainable=odt.last(2)) as t:
        t.save_checkpoint(tmp_path / "a.odt")
        t.state.save(tmp_path / f"b{suffix}")
        odt.CheckpointState.load(tmp_path / f"b{suffix}").save(tmp_path / "c.odt")
        assert (tmp_path / "c.odt").read_bytes() == (tmp_path / "a.odt").read_bytes()


def test_no_checkpoint_replaces_the_model(model: Path, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(model.read_bytes())
    t = trainer(tmp_path / "m.tflite")
    with pytest.raises(odt.OptionError, match="must be another file than the model"):
        t.save_checkpoint(tmp_path / "m.tflite")
    with pytest.raises(odt.OptionError, match="must be another file than the model"):
        t.fit(X, Y, epochs=1, save_to=tmp_path / "m.tflite")
    assert (tmp_path / "m.tflite").read_bytes() == model.read_bytes()


def test_parameters_of_a_trainer_are_those_that_train(model: Path) -> None:
    with trainer(model) as t:
        state, before = t.state, t.predict(X)
        name = state.trainable[0]
        state.parameters[name] = RNG.normal(size=state.parameters[name].shape)
        assert np.array_equal(t.weights[name], state.parameters[name])
        assert not np.array_equal(t.predict(X), before)
        t.train_on_batch(X[:8], Y[:8])
        assert state.step == 1
        assert np.array_equal(state.parameters[name], t.weights[name])


@pytest.mark.parametrize(
    "values", [np.zeros((2, 2)), np.zeros(6, complex), "text", [[1, 2], [3]], None]
)
def test_values_that_do_not_fit_are_refused(values: Any, model: Path) -> None:
    with trainer(model) as t:
        name, before = t.state.trainable[0], copied(t.state.parameters)
        with pytest.raises(odt.DataError, match=f"{name}: must be "):
            t.state.parameters[name] = values
        with pytest.raises(odt.DataError, match="buffer: must be"):
            t.state.copy_buffer_to_parameters(values)
        with pytest.raises(KeyError):
            t.state.parameters["w"] = values
        assert same(before, t.state.parameters)


@pytest.mark.parametrize("trainable_only", [True, False])
def test_a_buffer_goes_out_and_in(trainable_only: bool, model: Path) -> None:
    with trained(model, trainable=odt.last(2)) as t, trainer(model, trainable=odt.last(2)) as u:
        buffer = t.state.get_contiguous_parameters(trainable_only)
        assert buffer.shape == (t.state.parameters_size(trainable_only),)
        assert buffer.size == 3 * 5 + 3 + (0 if trainable_only else 5 * 6 + 5)
        u.state.copy_buffer_to_parameters(buffer, trainable_only)
        assert same(t.state.parameters, u.state.parameters)


def test_buffers_are_sorted_by_name(model: Path) -> None:
    with trainer(model, trainable=odt.last(2)) as t:
        names = [*t.state.parameters]
        assert names == sorted(odt.load_model(model).parameters)
        first = t.state.get_contiguous_parameters(False)[: t.state.parameters[names[0]].size]
        assert np.array_equal(first, t.state.parameters[names[0]].reshape(-1))


def test_the_default_round_trip_fits_with_frozen_weights(model: Path) -> None:
    with trained(model, trainable=odt.last(2)) as t:
        t.state.copy_buffer_to_parameters(t.state.get_contiguous_parameters())
        with pytest.raises(odt.DataError, match=r"must be \(18,\) float32 for 2 trainable"):
            t.state.copy_buffer_to_parameters(t.state.get_contiguous_parameters(False))


@pytest.mark.parametrize("optimizer", ["adam", "adam8bit", "sgd"])
def test_a_run_goes_on_on_another_device_by_buffers(optimizer: str, model: Path) -> None:
    options = {"optimizer": optimizer, "learning_rate": 0.01, "ema": 0.5}
    with trained(model, **options) as t, trainer(model, **options) as u:
        u.state.copy_buffer_to_parameters(t.state.get_contiguous_parameters())
        u.state.copy_buffer_to_optimizer_state(t.state.get_contiguous_optimizer_state())
        u.state.step = t.state.step
        for each in (t, u):
            each.train_on_batch(X[:8], Y[:8])
        assert same(t.state.parameters, u.state.parameters)
        assert same(t.state.optimizer_state, u.state.optimizer_state)
        assert t.state.step == u.state.step == 9


def test_bytes_of_several_dtypes_are_no_larger_integers(tmp_path: Path) -> None:
    wide = odt.new_model("mlp", input_shape=(40,), outputs=3, hidden=[200], seed=1)
    wide.save(tmp_path / "wide.circle")
    with odt.Trainer(tmp_path / "wide.circle", optimizer="adam8bit") as t:
        buffer = t.state.get_contiguous_optimizer_state()
        assert buffer.dtype == np.uint8
        with pytest.raises(odt.DataError, match=r"buffer: must be \(\d+,\) uint8 for .* uint16\."):
            t.state.copy_buffer_to_optimizer_state(buffer.astype(np.uint16))


def test_a_trainer_starts_from_a_state(model: Path, tmp_path: Path) -> None:
    with trained(model) as t:
        t.state.save(tmp_path / "s.odt")
    state = odt.CheckpointState.load(tmp_path / "s.odt")
    with (
        trainer(model, checkpoint=state) as a,
        trainer(model, checkpoint=tmp_path / "s.odt") as b,
        trainer(model) as c,
    ):
        c.load_checkpoint(state)
        for each in (a, b):
            each.fit(X, Y, epochs=3)
        assert same(a.state.parameters, b.state.parameters)
        assert c.state.step == state.step == 8
        assert same(c.state.parameters, state.parameters)


def test_frozen_weights_of_a_file_are_used(model: Path, tmp_path: Path) -> None:
    frozen = {"trainable": odt.last(2)}
    with trainer(model, **frozen) as t:
        t.state.save(tmp_path / "s.odt", trainable_only=False)
        before = t.predict(X)
    state = odt.CheckpointState.load(tmp_path / "s.odt")
    name = min(set(state.parameters) - set(state.trainable))
    state.parameters[name] = state.parameters[name] + 1
    with trainer(model, checkpoint=state, **frozen) as t:
        assert same(t.state.parameters, state.parameters)
        assert not np.array_equal(t.predict(X), before)
        t.export(tmp_path / "new.tflite")
        after = t.predict(X)
    with trainer(tmp_path / "new.tflite") as t:
        assert np.array_equal(t.predict(X), after)
    with trainer(model, **frozen) as t:
        t.load_checkpoint(state)
        assert np.array_equal(t.predict(X), after)


def test_frozen_weights_of_a_trainer_are_set(model: Path, tmp_path: Path) -> None:
    with trainer(model, trainable=odt.last(2), ema=0.5) as t:
        t.fit(X, Y, epochs=1)
        state, weights = t.state, t.state.get_contiguous_parameters()
        buffer = RNG.normal(size=state.parameters_size(False)).astype(np.float32)
        state.copy_buffer_to_parameters(buffer, trainable_only=False)
        assert np.array_equal(state.get_contiguous_parameters(False), buffer)
        state.copy_buffer_to_parameters(weights)
        t.fit(X, Y, epochs=2)
        assert np.array_equal(state.get_contiguous_parameters(False)[: 5 * 6 + 5], buffer[:35])
        t.export(tmp_path / "new.tflite")
        outputs = t.predict(X)
        with pytest.raises(ValueError, match="read-only"):
            state.parameters["dense_0/w"][0, 0] = 1
    with trainer(tmp_path / "new.tflite") as t:
        assert np.array_equal(t.predict(X), outputs)


def test_frozen_weights_are_not_changed_in_between(model: Path) -> None:
    def change(t: odt.Trainer) -> None:
        t.state.parameters["dense_0/b"] = np.ones(5)

    with trainer(model, trainable=odt.last(2)) as t:
        t.forward_backward(X[:8], Y[:8])
        with pytest.raises(odt.OptionError, match="while no gradients are accumulated"):
            change(t)
        t.apply_gradients()
        ends = odt.LambdaCallback(on_epoch_end=lambda epoch, logs: change(t))
        with pytest.raises(odt.OptionError, match="changed before or after `fit`"):
            t.fit(X, Y, callbacks=[ends])
        change(t)
    with trainer(model, trainable=odt.last(2), cache_frozen="ram") as t:
        t.fit(X, Y)
        with pytest.raises(odt.OptionError, match="without a cache"):
            change(t)


def test_a_nominal_state_waits_for_its_weights(model: Path, tmp_path: Path) -> None:
    with trained(model) as t:
        t.state.save(tmp_path / "n.odt", nominal=True)
        buffer = t.state.get_contiguous_parameters()
        expected = t.predict(X)
    assert (tmp_path / "n.odt").stat().st_size < 3000
    state = odt.CheckpointState.load(tmp_path / "n.odt")
    assert state.is_nominal
    assert state.step == 0
    assert "nominal" in repr(state)
    assert "no value" in repr(state.parameters)
    with pytest.raises(odt.ModelError, match="but the checkpoint is nominal"):
        state.get_contiguous_parameters()
    with pytest.raises(odt.ModelError, match="but the checkpoint is nominal"):
        state.save(tmp_path / "full.odt")
    for given in (state, tmp_path / "n.odt"):
        with trainer(model, checkpoint=given) as t:
            for use in (
                lambda: t.fit(X, Y), lambda: t.evaluate(X, Y), lambda: t.predict(X),
                lambda: t.export(tmp_path / "e.tflite"),
                lambda: t.save_checkpoint(tmp_path / "e.odt"),
            ):  # fmt: skip
                with pytest.raises(odt.ModelError, match="but is nominal"):
                    use()
            t.state.copy_buffer_to_parameters(buffer)
            assert not t.state.is_nominal
            assert np.array_equal(t.predict(X), expected)
            t.train_on_batch(X[:8], Y[:8])
    state.copy_buffer_to_parameters(buffer)
    with trainer(model, checkpoint=state) as t:
        assert np.array_equal(t.predict(X), expected)
        assert not any(a.any() for a in t.state.optimizer_state.values())


def test_a_nominal_state_of_another_model_is_refused(model: Path, tmp_path: Path) -> None:
    with trainer(model, trainable=odt.last(2)) as t:
        t.state.save(tmp_path / "n.odt", nominal=True)
    with (
        trainer(model, checkpoint=tmp_path / "n.odt", trainable=odt.last(-1)) as t,
        pytest.raises(odt.ModelError, match="must be of this model and optimizer"),
    ):
        t.state.copy_buffer_to_parameters(np.zeros(18, np.float32))


def test_a_nominal_state_cannot_claim_any_memory(model: Path, tmp_path: Path) -> None:
    with trainer(model) as t:
        t.state.save(tmp_path / "n.odt", nominal=True)
    whole = resume_from(odt.CheckpointState.load(tmp_path / "n.odt")).checkpoint
    assert whole is not None
    for role, rule in (("m", "must have at most the 3 values"), ("ema", "must have the shape")):
        others = [e for e in whole.entries if (e.tensor, e.role) != ("dense_1/b", role)]
        entry = Entry("dense_1/b", role, (10**12,), "float32")
        claim = replace(whole, entries=(*others, entry))
        (tmp_path / "n.odt").write_bytes(b"".join(encode(claim)))
        with pytest.raises(odt.ModelError, match=rule):
            odt.CheckpointState.load(tmp_path / "n.odt")


def test_the_moving_average_follows_weights_that_are_set(model: Path) -> None:
    with trained(model, ema=0.9) as t:
        buffer = np.full(t.state.parameters_size(), 0.25, np.float32)
        t.state.copy_buffer_to_parameters(buffer)
        averages = [a for n, a in t.state.optimizer_state.items() if n.startswith("ema/")]
        assert averages
        assert all((a == 0.25).all() for a in averages)


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (True, "must be a string, integer or float"),
        ([1], "must be a string, integer or float"),
        (float("nan"), "must be finite"),
        (2**63, "must be an integer of 64 bits"),
        ("\ud800", "must be valid Unicode"),
    ],
)
def test_other_properties_are_refused(value: Any, rule: str, model: Path) -> None:
    with trainer(model) as t:
        with pytest.raises(odt.OptionError, match=rule):
            t.state.properties["p"] = value
        assert not t.state.properties


def test_properties_stay_with_the_trainer(model: Path, tmp_path: Path) -> None:
    with trainer(model) as t:
        t.state.properties["a"] = -(2**63)
        t.fit(X, Y, properties={"b": 0.5}, save_to=tmp_path / "s.odt")
        assert dict(t.state.properties) == {"a": -(2**63), "b": 0.5}
        del t.state.properties["b"]
        t.save_checkpoint(tmp_path / "t.odt")
    assert dict(odt.CheckpointState.load(tmp_path / "s.odt").properties)["b"] == 0.5
    with trainer(model, checkpoint=tmp_path / "t.odt") as t:
        assert dict(t.state.properties) == {"a": -(2**63)}


def test_properties_of_a_refused_fit_are_not_kept(model: Path, tmp_path: Path) -> None:
    with trainer(model) as t:
        with pytest.raises(odt.ModelError, match="Make its folder first"):
            t.fit(X, Y, properties={"a": 1}, save_to=tmp_path / "none" / "s.odt")
        assert not t.state.properties


def test_collections_print(model: Path) -> None:
    with trainer(model, trainable=odt.last(2)) as t:
        t.state.properties["round"] = 1
        assert repr(t.state.properties) == "{'round': 1}"
        lines = repr(t.state.parameters).splitlines()
        assert [line.rsplit(", ", 1)[1] for line in lines] == ["frozen"] * 2 + ["trains"] * 2
        assert "(3, 5) float32" in repr(t.state.parameters)
        assert repr(t.state.optimizer_state).startswith("m/")
        assert "step 0, 2 trainable and 2 frozen parameters" in repr(t.state)
        for collection in (t.state.parameters, t.state.optimizer_state):
            with pytest.raises(TypeError, match="cannot be removed"):
                collection.popitem()


def test_other_suffixes_are_refused(model: Path, tmp_path: Path) -> None:
    with trainer(model) as t, pytest.raises(odt.OptionError, match=r"must end in \.odt, \.npz"):
        t.state.save(tmp_path / "state.ckpt")


def test_other_arguments_are_refused(model: Path) -> None:
    with trainer(model) as t:
        for step in (-1, 2**63):
            with pytest.raises(odt.OptionError, match="`step=`: must be"):
                t.state.step = step
    with pytest.raises(odt.OptionError, match="`checkpoint=`: must be a path or a CheckpointState"):
        trainer(model, checkpoint=5)
    with pytest.raises(
        odt.ModelError, match="must be a checkpoint of odt or onert, but is a model"
    ):
        odt.CheckpointState.load(model)


def test_onerts_format_is_read_with_the_model(model: Path, tmp_path: Path) -> None:
    with trained(model) as t:
        t.save_checkpoint(tmp_path / "s.ckpt")
        state = odt.CheckpointState.load(tmp_path / "s.ckpt", model)
        assert {n: a.tolist() for n, a in state.parameters.items()} == {
            n: a.tolist() for n, a in t.state.parameters.items()
        }
        assert state.step == 8
    with pytest.raises(odt.OptionError, match="`model=`: must be given"):
        odt.CheckpointState.load(tmp_path / "s.ckpt")
