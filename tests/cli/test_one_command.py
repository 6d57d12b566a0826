"""onert_train's command lines, today's and former ones, are odt's."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.networks import Net
from support.paths import MLP_SM

from odt import __version__
from odt.cli.main import main
from odt.cli.options.onert import translate
from odt.core.export.exporter import add_training_info
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.recipe.resolve import contradiction

FLAGS = frozenset({"--mem-poll", "--shuffle"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with m.circle of three operators, x.bin and t.bin of 96 samples."""
    for name, target in (("model.circle", "m"), ("input.bin", "x"), ("expected.bin", "t")):
        shutil.copy(MLP_SM / name, tmp_path / f"{target}{Path(name).suffix}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(line: str) -> Result:
    return CliRunner().invoke(main, ["train", *line.split()])


DATA = "--load_input:raw x.bin --load_expected:raw t.bin"


@pytest.mark.parametrize(
    ("line", "translated", "spelled"),
    [
        ("--load_input:raw x --load_expected:raw=t", "--load-input x --load-expected t", True),
        ("m --epoch 3 -m --batch_size 4", "m --epochs 3 --mem-poll --batch-size 4", True),
        ("m --num_of_trainable_ops -1 -v 1", "m --num-of-trainable-ops -1 -v 1", False),
        ("m --export_circle=my_file", "m --export-circle my_file", False),
        ("--modelfile m --epochs 1", "m --epochs 1", True),
        ("--epochs 1 --nnpackage m", "m --epochs 1", True),
        ("--path=m", "m", True),
        ("m --export_path o --data_length 8", "m --export-circle o --data-length 8", True),
        ("m --data_length 8", "m --data-length 8", False),
        ("m --data-length 8", "m --data-length 8", False),
        ("m --trainable_ops_idx 0-3", "m --trainable-ops 0-3", True),
        ("m --export-checkpoint c", "m --export-checkpoint c", False),
        ("m --output_sizes [0,40] --metric -1", "m", True),
        ("m --metric 0", "m --metric 0", False),
        ("m --mem_poll true", "m --mem-poll", True),
        ("--mem_poll 0 m", "m", True),
        ("--mem_poll=TRUE m --epochs=2", "--mem-poll m --epochs 2", True),
        ("--shuffle=1 m", "--shuffle=1 m", False),
        ("--mem_poll m --shuffle", "--mem-poll m --shuffle", False),
        ("--export-circle --epoch", "--export-circle --epoch", False),
        ("-v1 --epoch 2", "-v1 --epochs 2", True),
        ("-- --epoch", "-- --epoch", False),
    ],
)
def test_spellings(line: str, translated: str, spelled: bool) -> None:
    assert translate(line.split(), FLAGS) == (translated.split(), spelled)


def test_a_checkpoint_with_an_underscore_is_written_after_each_step() -> None:
    words, spelled = translate(["m", "--export_checkpoint", "c"], FLAGS)
    assert words == ["m", "--export-checkpoint-every", "step", "--export-checkpoint", "c"]
    assert spelled


def test_a_line_of_onert_train_does_what_odt_s_own_does(folder: Path) -> None:
    theirs = train(
        f"m.circle {DATA} --epoch 2 --batch_size 16 --learning_rate 0.01 --loss 1 --optimizer 1 "
        "--loss_reduction_type 2 --metric 0 --validation_split 0.25 --num_of_trainable_ops 2 "
        "--verbose_level 0 --output_sizes [0,40] -m --export_circle theirs.circle"
    )
    assert theirs.exit_code == 0, theirs.output
    ours = train(
        "m.circle --load-input x.bin --load-expected t.bin --epochs 2 --batch-size 16 "
        "--learning-rate 0.01 --loss mean-squared-error --optimizer sgd --reduction sum "
        "--metric categorical-accuracy --validation-split 0.25 --num-of-trainable-ops 2 "
        "--mem-poll --drop-last --no-stratify --no-shuffle --export-circle ours.circle"
    )
    assert Path("theirs.circle").read_bytes() == Path("ours.circle").read_bytes()
    block = theirs.stdout.partition("== memory")[0]
    assert block == ours.stdout.partition("== memory")[0]
    assert "- loss_info            = {loss = mean squared error, reduction = sum}\n" in block
    assert "- num_of_trainable_ops = 2\n" in block


def test_former_lines_train(folder: Path) -> None:
    line = f"--modelfile m.circle {DATA} --epoch 1 --data_length 64 --trainable_ops_idx"
    result = train(f"{line} 1-2 --export_path last.circle")
    assert result.exit_code == 0, result.output
    assert "- num_of_trainable_ops = 2\n" in result.stdout
    first = train(f"{line} 0 --export_path first.circle")
    assert "- num_of_trainable_ops = -2 = operators 0\n" in first.stdout
    before, after = (
        [t.data for t in read_model(name).graph.tensors if t.data is not None]
        for name in ("m.circle", "first.circle")
    )
    assert sum(not np.array_equal(a, b) for a, b in zip(before, after, strict=True)) == 2


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ("--epoch 1 --loss 0", 1, "0 is undefined in today's onert_train and was mean-squared"),
        ("--epoch 1 --optimizer 0", 1, "was sgd in the first. Give a word, or today's 1 sgd, 2"),
        ("--epoch 1 --loss_reduction_type 0", 1, "was sum-over-batch-size in the first"),
        ("--epochs 1 --loss 0", 1, "0 is undefined"),
        ("--epoch 1 --loss 3", 1, "must be one of"),
        ("--epoch 1 --validation_split 1.5", 1, "must be 0 … 1, but got 1.5"),
        ("--epoch 1 --output_sizes [0,1,2]", 1, "a list of output numbers and sizes"),
        ("--epoch 1 --output_sizes 3", 1, "a list of output numbers and sizes"),
        ("--epoch 1 --output_sizes [0,-1]", 1, "a list of output numbers and sizes"),
        ("--epoch 1 --load_input:raw no.bin", 1, "Cannot find: no.bin"),
        ("--epoch 1 --num_of_trainable_ops 4", 255, "must be at most 3"),
        ("--epoch 1 --num_of_trainable_ops -2", 255, "-2"),
        ("--epoch 1 --data_length 97", 255, "must be at most 96"),
        ("--epoch 1 --batch_size 97", 255, "must be at most 96"),
        ("--epoch 1 --no_such 1", 255, "No such option"),
        ("--trainable_ops_idx 0-3", 255, "such as 0-2, but got 0-3"),
        ("--trainable_ops_idx 2-1", 255, "such as 0-2, but got 2-1"),
        ("--trainable_ops_idx 0 --num_of_trainable_ops 1", 255, "but got both"),
        ("--epoch", 255, "requires an argument"),
    ],
)
def test_a_line_in_one_s_spelling_ends_with_one_s_status(
    more: str, status: int, words: str, folder: Path
) -> None:
    result = train(f"m.circle {DATA} {more}")
    assert (result.exit_code, words in result.stderr) == (status, True), result.stderr


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ("--loss 0", 2),
        ("--num_of_trainable_ops 4", 1),
        ("--data-length 97", 1),
        ("--num_of_trainable_ops -2", 2),
        ("--batch_size 97", 0),
        ("--batch_size 97 --drop-last", 1),
        ("--validation_split 1.5", 1),
    ],
)
def test_other_command_lines_get_odts_exit_status(more: str, status: int, folder: Path) -> None:
    result = train(f"m.circle --load-input x.bin --load-expected t.bin {more}")
    assert result.exit_code == status, result.stderr


def test_the_version_needs_no_model() -> None:
    result = train("--version --epoch 1")
    assert result.exit_code == 0
    assert result.output.startswith(f"odt {__version__}, ")


def test_a_missing_model_is_an_argument(folder: Path) -> None:
    assert train(f"no.circle {DATA} --epoch 1").exit_code == 1
    result = train("m.circle --epoch 1")  # onert_train has no random data either
    assert (result.exit_code, "--load-input" in result.stderr) == (255, True)


def test_the_block_shows_the_origin_of_each_value(folder: Path) -> None:
    plus = train(f"m.circle {DATA} --epoch 1 --batch_size 8 --export_circleplus p.circle")
    assert plus.exit_code == 0, plus.output
    out = train(f"p.circle {DATA} --epoch 1 --learning_rate 0.5 -v 1").stdout
    assert "- learning_rate        = 0.5  (command line)\n" in out
    assert "- batch_size           = 8  (circle+)\n" in out
    assert "reduction = sum over batch size}  (circle+, circle+)\n" in out
    assert "- beta_1               = 0.9  (circle+)\n" in out
    out = train(f"p.circle {DATA} --epoch 1 --optimizer sgd --momentum 0.5 -v 1").stdout
    assert "- momentum             = 0.5  (command line)\n" in out
    assert "- nesterov             = False  (default)\n" in out
    out = train(f"m.circle {DATA} --epoch 1 --loss 2 -v 1").stdout
    assert "reduction = sum over batch size}  (command line, default)\n" in out
    assert "- num_of_trainable_ops = -1  (default)\n" in out


def test_verbose_shows_the_kernels_in_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", "numpy")
    line = f"m.circle {DATA} --epoch 1"
    assert "\nNumPy kernels only: " in train(f"{line} -v 1").stdout
    assert "kernels" not in train(line).stdout


def test_an_exported_circle_plus_has_the_training_info_used(folder: Path) -> None:
    line = f"m.circle {DATA} --epoch 1 --batch_size 8 --trainable-ops 0,2 --beta-1 0.5"
    assert train(f"{line} --export_circleplus p.circle --export_circle o.circle").exit_code == 0
    info = stored_training_info(read_model("p.circle"))
    assert info is not None
    assert (info.optimizer, info.batch_size, info.trainable_ops) == ("adam", 8, (0, 2))
    assert info.hyper_parameters == {"beta_1": 0.5, "beta_2": 0.999, "epsilon": 1e-7}
    assert (info.loss, info.from_logits) == ("categorical_crossentropy", False)
    assert stored_training_info(read_model("o.circle")) is None


def test_training_info_beyond_circle_plus_is_refused_before_training(folder: Path) -> None:
    result = train(f"m.circle {DATA} --epoch 1 --optimizer adamw --export_circleplus p.circle")
    assert (result.exit_code, "Epoch" in result.stdout) == (255, False)
    assert not Path("p.circle").exists()


@pytest.mark.parametrize(("from_logits", "warns"), [(False, False), (True, True)])
def test_the_graph_wins_over_from_logits(from_logits: bool, warns: bool, folder: Path) -> None:
    info = TrainingInfo(
        loss="categorical_crossentropy", from_logits=from_logits, batch_size=16, optimizer="sgd"
    )
    add_training_info(read_model("m.circle"), info, "p.circle")
    result = train(f"p.circle {DATA} --epoch 1")
    words = "Warning: p.circle: from_logits is true in the training info, but"
    assert result.stderr.startswith(words) == warns
    assert result.stderr.count("\n") == warns
    plain = train(f"m.circle {DATA} --epoch 1 --optimizer 1 --batch_size 16 --loss 2")
    losses = [re.findall(r"loss: \[0\] (.*)", out) for out in (result.stdout, plain.stdout)]
    assert losses[0] == losses[1] != []


def test_logits_called_probabilities_are_logits() -> None:
    net = Net()
    graph = net.graph(net.dense(net.input(1, 3), 4))
    for said, words in ((True, None), (False, " does not end in SOFTMAX. Its logits are used")):
        warning = contradiction(
            graph, TrainingInfo(loss="categorical_crossentropy", from_logits=said)
        )
        assert (warning is None) == (words is None)
        assert words is None or words in str(warning)
    assert contradiction(graph, TrainingInfo(loss="mean_squared_error", from_logits=False)) is None


@pytest.mark.parametrize("last", ["SOFTMAX", "LOGISTIC"])
def test_probabilities_that_are_moved_before_the_output_are_named(last: str) -> None:
    """The loss takes them as logits, as it does every output that ends in neither."""
    net = Net()
    options = {"beta": 1.0} if last == "SOFTMAX" else {}
    y = net.add(last, (net.dense(net.input(1, 3), 4),), (1, 4), **options)
    y = net.add("REVERSE_V2", (y, net.constant([1])), (1, 4))
    graph = net.graph(net.add("RESHAPE", (y, net.constant([1, 4])), (1, 4), new_shape=[1, 4]))
    warning = str(contradiction(graph, TrainingInfo(loss="categorical_crossentropy")))
    assert f"holds values of {last} (node 1) that later operators move" in warning
    assert contradiction(graph, TrainingInfo(loss="mean_squared_error")) is None
