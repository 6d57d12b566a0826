"""onert's checkpoints: their bytes, continuing from them, and damaged ones."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.networks import ArrayData, InOrder, Net
from support.paths import MLP_SM

from odt.cli.main import main
from odt.core.checkpoints.onert_checkpoint import FOOTER, HEADER, decode, encode
from odt.core.formats.reader import read_model
from odt.core.model.graph import Graph
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer
from odt.errors import ModelError

# One SGD step of a 2 → 2 FULLY_CONNECTED with zero weights, X = [1, 2], Y = [3, 5], rate 0.1, mean
# squared error, as onert 1.30.0 wrote it.
RECORDED = bytes.fromhex(
    "ad010100 34000000 00000000 34000000 02000000 1c000000 2c000000"
    "9a99993e 9a99193f 0000003f 0000803f 9a99993e 0000003f 01000000 00000000"
)


def two_by_two() -> Graph:
    net = Net()
    inputs = (net.input(1, 2), net.constant(np.zeros((2, 2))), net.constant(np.zeros(2)))
    return net.graph(net.add("FULLY_CONNECTED", inputs, (1, 2)))


def trainer(optimizer: str = "sgd", graph: Graph | None = None, **more: object) -> Trainer:
    info = TrainingInfo(
        optimizer=optimizer,
        learning_rate=0.1,
        loss="mean_squared_error",
        batch_size=1,
        **more,  # type: ignore[arg-type]  # the test says what it means
    )
    return Trainer(graph or two_by_two(), info)


def train(t: Trainer, steps: int = 1) -> None:
    data = ArrayData([np.array([[1, 2]], np.float32)], [np.array([[3, 5]], np.float32)])
    list(t.train(data, InOrder(1), epochs=steps))


def written(t: Trainer) -> bytes:
    return b"".join(encode(t.graph, t.parameters))


def test_one_step_gives_the_sixty_bytes_of_onert() -> None:
    with trainer() as t:
        train(t)
        assert written(t) == RECORDED


def test_adam_adds_two_sections_of_moments() -> None:
    with trainer("adam") as t:
        train(t)
        data = written(t)
        assert len(data) == 124
        assert HEADER.unpack_from(data) == (429, 1, 0, 0x34, 0x54, 0x74, 2)
        moments = np.frombuffer(data[0x34 + 8 : 0x54], "<f4")
        w, b = t.graph.nodes[0].inputs[1:]
        m = t.parameters.slots["m"]
        np.testing.assert_array_equal(moments, [*m[w].ravel(), *m[b]])


def test_frozen_tensors_have_no_moments() -> None:
    with trainer("adam", trainable_ops=()) as t:
        data = written(t)
        assert HEADER.unpack_from(data)[3:6] == (0x34, 0x3C, 0x44)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_checkpoint_continues_bit_for_bit(optimizer: str) -> None:
    with trainer(optimizer) as whole, trainer(optimizer) as first, trainer(optimizer) as second:
        train(whole, 6)
        train(first, 5)
        decode(written(first), "c", second.graph, second.parameters)
        train(second, 1)
        assert written(second) == written(whole)


def test_tensors_in_another_order_are_identified_by_size() -> None:
    blobs = [RECORDED[28:44], RECORDED[44:52]]
    swapped = (
        RECORDED[:20] + bytes([28, 0, 0, 0, 36, 0, 0, 0]) + blobs[1] + blobs[0] + RECORDED[52:]
    )
    with trainer() as t:
        decode(swapped, "c", t.graph, t.parameters)
        assert written(t) == RECORDED


def with_field(at: int, value: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + value.to_bytes(4, "little") + data[at + 4 :]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: b"", "must have 28 bytes or more"),
        (lambda data: b"\xae" + data[1:], "magic number must be 429, but got 430"),
        (lambda data: data[:2] + b"\x02" + data[3:], "schema must be 1, but got 2"),
        (with_field(4, 1000), "must be in order"),
        (with_field(4, 0x30), "without second moments"),
        (with_field(8, 0x38), "must be in order"),
        (with_field(12, 0), "footer must begin at 52"),
        (with_field(16, 3), "2 constants, but got 3"),
        (with_field(16, 2**32 - 1), "must be in order"),
        (with_field(20, 0), "must rise"),
        (with_field(24, 2**31), "must rise"),
        (with_field(24, 32), "must be the model's, of [16, 8] bytes"),
        (lambda data: data[:-1], "footer must begin at 51"),
    ],
)
def test_a_damaged_checkpoint_changes_nothing(damage: Callable[[bytes], bytes], words: str) -> None:
    with trainer() as t:
        before = written(t)
        with pytest.raises(ModelError) as e:
            decode(damage(RECORDED), "c", t.graph, t.parameters)
        assert words in str(e.value)
        assert "\n" not in str(e.value)
        assert written(t) == before


def test_an_optimizer_s_checkpoint_is_not_another_s() -> None:
    with trainer("adam") as t, pytest.raises(ModelError, match="adam, but got the state of sgd"):
        decode(RECORDED, "c", t.graph, t.parameters)


def test_every_truncation_is_refused() -> None:
    with trainer("adam") as t:
        train(t)
        whole = written(t)
        for size in range(len(whole)):
            with pytest.raises(ModelError):
                decode(whole[:size], "c", t.graph, t.parameters)


def test_the_footer_holds_the_step() -> None:
    with trainer() as t:
        train(t, 3)
        assert FOOTER.unpack(written(t)[-8:]) == (3, 0)


def test_a_checkpoint_with_other_frozen_weights_is_refused() -> None:
    with trainer() as all_of_it, trainer(trainable_ops=()) as none:
        decode(written(all_of_it), "c", none.graph, none.parameters)  # nothing was trained yet
        train(all_of_it)
        with pytest.raises(
            ModelError, match="must have the model's values, because it does not train"
        ):
            decode(written(all_of_it), "c", none.graph, none.parameters)


def test_weights_that_train_no_more_come_from_the_checkpoint_too(tmp_path: Path) -> None:
    """All of it trained in one run; the next trains the last operators on top of that."""
    folder = MLP_SM
    files = ("--load-input", folder / "input.bin", "--load-expected", folder / "expected.bin")
    model, first, second = (folder / "model.circle", tmp_path / "a.circle", tmp_path / "b.circle")
    state = tmp_path / "state.ckpt"
    train = ["train", model, *files, "--optimizer", "sgd", "--epochs", 1]

    def odt(*arguments: object) -> None:
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output

    odt(*train, "--export-checkpoint", state, "--export-circle", first)
    last = ("--num-of-trainable-ops", 2)
    odt(*train, *last, "--checkpoint", state, "--export-circle", second)

    def weights(path: Path) -> list[bytes]:
        tensors = read_model(str(path)).graph.tensors
        return [
            t.data.tobytes() for t in tensors if t.data is not None and t.spec.dtype.kind == "f"
        ]

    before, after, start = map(weights, (first, second, model))
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 2
    assert all(a != b for a, b in zip(start, after, strict=True))
    assert len(start) == 4
