"""Training says what it will not do: train nothing, use all samples, go on with what is done."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.paths import MLP_SM, MODELS

import odt
from odt.cli.main import main
from odt.cli.output.spelling import spell
from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet
from odt.core.export.model_builder import ModelBuilder
from odt.core.formats.reader import read_model
from odt.core.training.inference import Predictor
from odt.training.fit_warnings import incomplete_batch

X, T = MLP_SM / "input.bin", MLP_SM / "expected.bin"
NO_EXPORT = (
    "Warning: nothing will be written. Give --export-tflite, --export-circle, "
    "--export-checkpoint or --run-dir to keep what is trained.\n"
)


def run(*words: object) -> Result:
    line = ["train", MLP_SM / "model.circle", "--load-input", X, "--load-expected", T]
    return CliRunner().invoke(main, [str(word) for word in (*line, "--epochs", 1, *words)])


def train(*words: object) -> Result:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def val_loss(result: Result) -> str:
    return result.stdout.partition("val_loss: [0] ")[2][:6]


def notes(*words: object) -> str:
    """What training says on stderr beside that it writes nothing."""
    return train(*words).stderr.replace(NO_EXPORT, "")


def test_training_without_an_export_warns(tmp_path: Path) -> None:
    assert train().stderr == NO_EXPORT
    assert train("--epochs", 0).stderr == ""
    assert train("--export-checkpoint", tmp_path / "state.odt").stderr == ""
    assert train("--export-circle", tmp_path / "m.circle").stderr == ""


@pytest.mark.parametrize("words", [("--num-of-trainable-ops", 0), ("--trainable-ops", 2)])
def test_training_without_trainable_weights_warns(words: tuple[object, ...]) -> None:
    """A warning, for onert_train takes 0 as well; operator 2 is the SOFTMAX."""
    assert notes(*words).startswith("Warning: nothing trains: the selected operators have")


def test_training_a_model_without_weights_warns(tmp_path: Path) -> None:
    """All operators are selected already, so the warning does not ask for more of them."""
    softmax, values = tmp_path / "softmax.circle", tmp_path / "one_hot.npy"
    odt.cut(MLP_SM / "model.circle", after=6).save(softmax)
    np.save(values, np.eye(10, dtype=np.float32))
    words = "train", softmax, "--load-input", values, "--load-expected", values
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert "no operator that training computes has weights; odt inspect" in result.stderr


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("--property a=1", "--export-checkpoint"),
        ("--export-checkpoint-every 3", "--export-checkpoint"),
        ("--export-checkpoint-every epoch", "--export-checkpoint"),
        ("--export-weights as-stored", "--export-circle or another export"),
        ("--keep-best --validation-split 0.2", "--export-circle or another export"),
        ("--keep-best --export-circle no.circle", "--validation-split or --validation-input"),
        ("--patience 1", "--validation-split or --validation-input"),
        ("--seed 1 --no-shuffle", "--shuffle or --dropout"),
        ("--validation-input x.npy", "--validation-expected"),
        ("--validation-expected y.npy", "--validation-input"),
    ],
)
def test_an_option_that_does_nothing_alone_is_refused(
    words: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["train", MLP_SM / "model.circle", "--load-input", X, "--load-expected", T]
    result = CliRunner().invoke(main, [*map(str, line), *words.split()])
    assert result.exit_code == 1
    option = words.split(maxsplit=1)[0]
    assert result.stderr == f"Error: {option}: must come with {other}, but got it alone\n"


def test_a_seed_is_used_by_the_rounding_of_integers(tmp_path: Path) -> None:
    x = np.zeros((4, 32, 32, 3), np.int8)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.eye(10, dtype=np.float32)[:4])
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    options = ("--qas", "--optimizer", "sgd", "--no-shuffle", "--seed", "1", "--epochs", "0")
    line = ("train", MODELS / "mlperf-tiny-resnet8-cifar10-int8.tflite", *data, *options)
    result = CliRunner().invoke(main, [*map(str, line)])
    assert result.exit_code == 0, result.output


def test_a_checkpoint_with_all_epochs_completed_gives_a_message(tmp_path: Path) -> None:
    state = tmp_path / "state.odt"
    train("--export-checkpoint", state, "--epochs", 3)
    result = train("--checkpoint", state, "--epochs", 2)
    assert result.stderr.replace(NO_EXPORT, "") == (
        f"{state}: has completed 3 epochs, so none is left. --epochs 2 counts from the first "
        "epoch: give more than 3.\n"
    )
    assert "Epoch 1/" not in result.stdout


def test_the_timing_table_counts_on_after_a_checkpoint(tmp_path: Path) -> None:
    state = tmp_path / "state.odt"
    train("--export-checkpoint", state, "--epochs", 2)
    words = ("--checkpoint", state, "--epoch", 4)  # in ONE's spelling
    table = train(*words).stdout.partition("EXECUTE")[2]
    assert re.findall(r"- Epoch (\d+)", table) == ["3", "4"]


def test_weights_of_classes_do_not_count_as_a_rate_that_is_too_large(tmp_path: Path) -> None:
    """Two classes without a difference: the weight of the rare one raises the loss of both."""
    labels = np.eye(10, dtype=np.float32)[np.where(np.arange(200) % 20, 3, 4)]
    np.save(tmp_path / "x.npy", np.zeros((200, 784), np.float32))
    np.save(tmp_path / "y.npy", labels)
    data = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    start = tmp_path / "start.circle"
    train(*data, "--epochs", 300, "--learning-rate", 0.1, "--export-circle", start)
    words = [start, *data, "--validation-split", 0.2, "--epochs", 2, "--learning-rate", 0.1]
    warned = {
        weight: "above" in CliRunner().invoke(main, ["train", *map(str, words), *weight]).stderr
        for weight in ((), ("--class-weight", "balanced"))
    }
    assert warned == {(): False, ("--class-weight", "balanced"): False}


@pytest.mark.parametrize(("option", "digits"), [("--epochs", "2.500e-05"), ("--epoch", "0.0000")])
def test_small_losses_have_digits_but_in_ones_spelling(
    option: str, digits: str, tmp_path: Path
) -> None:
    """A regression that is 0.005 off: its loss is 0.005² in every step of a rate of nothing."""
    sine = MODELS / "tflm-hello-world-sine-float.tflite"
    np.zeros(32, "<f4").tofile(tmp_path / "x.bin")
    with Predictor(read_model(sine).graph, 1) as predictor:
        data = DataSet(
            open_columns(str(tmp_path / "x.bin"), predictor.runtime.input_specs, "input")
        )
        y = float(next(predictor.run(data, range(1)))[0][0, 0])
    np.full(32, y + 0.005, "<f4").tofile(tmp_path / "t.bin")
    files = ("--load-input", tmp_path / "x.bin", "--load-expected", tmp_path / "t.bin")
    rate = ("--loss", "mean-squared-error", "--learning-rate", 1e-30)
    line = [str(word) for word in ("train", sine, *files, *rate, option, 1)]
    assert f"loss: [0] {digits}\n" in CliRunner().invoke(main, line).stdout


@pytest.mark.parametrize(
    ("samples", "batch", "shuffle", "text"),
    [
        (64, 32, False, None),
        (
            60,
            32,
            False,
            "28 of 60 samples fill no batch of 32 and are never trained. `shuffle=True` leaves "
            "out different samples in each epoch; `batch_size=30` leaves out none.",
        ),
        (
            60,
            32,
            True,
            "28 of 60 samples fill no batch of 32 and are left out, different ones in each epoch. "
            "`batch_size=30` leaves out none.",
        ),
        (
            97,
            32,
            False,
            "1 of 97 samples fill no batch of 32 and are never trained. `shuffle=True` leaves out "
            "different samples in each epoch.",
        ),
        (
            97,
            32,
            True,
            "1 of 97 samples fill no batch of 32 and are left out, different ones in each epoch.",
        ),
    ],
)
def test_samples_that_fill_no_batch_give_a_warning(
    samples: int, batch: int, shuffle: bool, text: str | None
) -> None:
    assert incomplete_batch(samples, batch, shuffle) == text


def test_samples_that_fill_no_step_of_several_batches_give_a_warning() -> None:
    assert incomplete_batch(16, 4, True, 2) is None
    lost = "{} of {} samples fill no step of 2 batches of 4 and are left out, different ones in "
    lost += "each epoch."
    # 5 divides 15, but not a step of two batches of 5.
    assert incomplete_batch(15, 4, True, 2) == lost.format(7, 15)
    assert incomplete_batch(18, 4, True, 2) == (
        lost.format(2, 18) + " `batch_size=3` leaves out none."
    )


def test_too_few_samples_for_a_step_of_several_batches_name_both_options() -> None:
    words = ("--data-length", 60, "--batch-size", 32, "--accumulate", 2)
    assert "--batch-size 32, --accumulate 2: the training data has only 60" in notes(*words)
    refusal = run(*words, "--drop-last").stderr
    assert "--batch-size: times --accumulate 2 must be at most 60" in refusal
    assert "but got 32. Give less of either, or more data." in refusal


def test_an_incomplete_batch_is_warned_of_before_training() -> None:
    words = ("--data-length", 60, "--drop-last")
    for shuffle in (False, True):
        text = spell(incomplete_batch(60, 32, shuffle) or "")
        assert notes(*words, *["--no-shuffle"] * (not shuffle)) == f"{text}\n"


def test_a_last_batch_that_is_not_full_trains() -> None:
    assert notes("--data-length", 60) == ""
    assert "training data has only 20 samples, so each step uses all of them" in notes(
        "--data-length", 20
    )


def test_validation_samples_are_drawn_from_each_class(tmp_path: Path) -> None:
    """Of labels in order, the last samples would all be of one class."""
    order = np.argsort(np.fromfile(T, np.float32).reshape(96, -1).argmax(1), kind="stable")
    for name, path in (("x", X), ("t", T)):
        values = np.fromfile(path, np.float32).reshape(96, -1)[order]
        values.tofile(tmp_path / f"{name}.bin")
    files = ("--load-input", tmp_path / "x.bin", "--load-expected", tmp_path / "t.bin")
    words = "its loss and metrics do not measure what is trained"
    assert words not in notes(*files, "--validation-split", 0.25)
    assert words in notes(*files, "--validation-split", 0.05, "--no-stratify")
    assert words in notes(*files, "--validation_split", 0.05, "--epoch", 1)  # ONE's spelling


@pytest.mark.usefixtures("training_alone")
@pytest.mark.parametrize("more", [(), ("--memory-budget", "3MB")])
def test_validation_data_smaller_than_a_batch_is_measured(more: tuple[object, ...]) -> None:
    """As it is where it fills batches of its own size: nothing trains, so both are one model."""
    words = ("--num-of-trainable-ops", 0, "--data-length", 60, "--validation-split", 0.2, *more)
    small, fitting = train(*words, "--batch-size", 40), train(*words, "--batch-size", 11)
    assert float(val_loss(small)) == pytest.approx(float(val_loss(fitting)), abs=1e-4)
    assert float(val_loss(small)) > 0.1


def test_validation_of_a_batch_and_more_drops_the_rest() -> None:
    """As onert_train does: of samples 79 … 94 only 12 count, and these are the second line's."""
    one = ("--drop-last", "--no-stratify")
    words = ("--num-of-trainable-ops", 0, "--batch-size", 12, *one, "--validation-split")
    of_16, of_12 = train(*words, 0.17), train(*words, 0.14, "--data-length", 92)
    assert val_loss(of_16) == val_loss(of_12) != ""


def test_swapped_files_are_recognized() -> None:
    line = ["train", MLP_SM / "model.circle", "--load-input", T, "--load-expected", X]
    result = CliRunner().invoke(main, [str(word) for word in line])
    assert result.exit_code == 1
    assert "swap the two files" in result.stderr


def test_a_loss_of_independent_outputs_on_softmax_warns() -> None:
    words = (
        "ends in SOFTMAX, whose values add up to 1, but binary-crossentropy treats each value "
        "independently"
    )
    assert words in notes("--loss", "binary-crossentropy")


def test_results_before_the_first_step_are_epoch_0(tmp_path: Path) -> None:
    """As odt eval measures them: the 96 samples are less than the 256 that are read."""
    one = train("--metric", "accuracy", "--validation-split", 0.25)
    evaluated = CliRunner().invoke(
        main,
        ["eval", str(MLP_SM / "model.circle"), "--load-input", str(X), "--load-expected", str(T)],
    )
    (line,) = [row for row in one.stdout.splitlines() if row.startswith("Epoch 0/1 - ")]
    assert " - accuracy: [0] " in line
    assert "val_loss: [0]" in line
    (line,) = [row for row in train().stdout.splitlines() if row.startswith("Epoch 0/1 - ")]
    loss = line.partition("loss: [0] ")[2]
    assert f"loss: [0] {loss}" in evaluated.stdout
    assert "Epoch 0/" not in train("--epoch", 1).stdout  # ONE's spelling
    train("--export-checkpoint", tmp_path / "c.odt")
    assert "Epoch 0/" not in train("--checkpoint", tmp_path / "c.odt", "--epochs", 2).stdout


def test_an_epoch_that_is_worse_than_none_warns() -> None:
    words = "Give a smaller --learning-rate than 1; --find-rate suggests one."
    assert words in notes("--learning-rate", 1, "--optimizer", "adam", "--epochs", 2)
    assert "is above" not in notes("--epochs", 2)


def test_an_export_that_is_worse_or_replaces_its_source_says_so(tmp_path: Path) -> None:
    model = tmp_path / "m.circle"
    model.write_bytes((MLP_SM / "model.circle").read_bytes())
    line = ["train", model, "--load-input", X, "--load-expected", T, "--epochs", 3, "--lr"]

    def said(rate: float, *words: object) -> str:
        result = CliRunner().invoke(main, [str(word) for word in (*line, rate, *words)])
        assert result.exit_code == 0, result.output
        return result.stderr

    replaces = "--export-circle .*m.circle: the trained model will replace MODEL"
    worse = "the loss is higher than before training, as the line of the last epoch says"
    other = tmp_path / "other.circle"
    assert not re.search(f"{replaces}|{worse}", said(0.01, "--export-circle", other))
    assert re.search(f"Warning: {other}: {worse}", said(10, "--export-circle", other))
    assert worse not in said(10, "--export-circle", other, "--epochs", 0)
    text = said(10, "--export-circle", model)
    assert re.search(replaces, text)
    assert re.search(f"Warning: {model}: {worse}", text)
    assert text.index("will replace MODEL") < text.index(worse)


@pytest.mark.parametrize("split", [(), ("--validation-split", 0.25)])
@pytest.mark.parametrize("loss", ["categorical-crossentropy", "sparse-categorical-crossentropy"])
def test_training_samples_of_one_class_warn(
    tmp_path: Path, loss: str, split: tuple[object, ...]
) -> None:
    labels = np.full(96, 7)
    for several in (False, True):
        labels[-20:] = 3 if several else 7
        y = labels if loss.startswith("sparse") else np.eye(10, dtype=np.float32)[labels]
        np.save(tmp_path / "y.npy", y)
        text = notes("--load-expected", tmp_path / "y.npy", "--loss", loss, *split)
        assert ("all training samples are of class 7" in text) is not several


def test_flags_of_one_class_warn(tmp_path: Path) -> None:
    """Flags are real numbers, but a class is a whole one."""
    model = ModelBuilder("tflite", seed=1)
    logit = model.add_dense(model.add_input((1, 4)), 1)
    model.write(tmp_path / "m.tflite", model.add_operator("LOGISTIC", [logit], (1, 1)))
    x, y = np.eye(4, dtype=np.float32), np.ones((4, 1), np.float32)
    with (
        odt.Trainer(tmp_path / "m.tflite", batch_size=4) as trainer,
        pytest.warns(odt.OdtWarning, match="all training samples are of class 1, so"),
    ):
        trainer.fit(x, y)


def test_pixels_for_a_model_of_scaled_inputs_warn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (64, 784)).astype(np.float32)
    np.save(tmp_path / "y.npy", np.eye(10, dtype=np.float32)[rng.integers(0, 10, 64)])

    def warnings(scale: float) -> str:
        np.save(tmp_path / "x.npy", x * np.float32(scale))
        words = ["train", MLP_SM / "model.circle", "--load-input", tmp_path / "x.npy"]
        words += ["--load-expected", tmp_path / "y.npy", "--epochs", 1]
        return CliRunner().invoke(main, [*map(str, words)]).stderr

    assert "the inputs have values up to 255. The model may need them scaled" in warnings(1)
    assert "scaled" not in warnings(1 / 255)
