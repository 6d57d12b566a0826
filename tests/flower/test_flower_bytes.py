"""What a client sends, read between SuperNode and SuperLink, and the memory of its process."""

import contextlib
import io
import math
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.accept_data import complete
from support.flower_fleet import fleet, odt_command
from support.flower_party import same

import odt
from odt import federated
from odt.federated.update import Tensors

CLASSES, NODES, ROUNDS, SAMPLES = 5, 2, 2, 12
UP, DOWN = "up", "down"
MB = 2**20
MAX_MEMORY = 60 * MB  # of a client's process, above Flower's own
# The peak of a client's process, which ends with the answer.
MEASURED = """
from pathlib import Path

from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    reply = answer(message, context)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    Path(context.run_config["{setting}"] + ".peak").write_text(str(peak))
    return reply
"""
OWN = """
import numpy
from flwr.app import Message, MetricRecord, RecordDict


def answer(message, context):
    metrics = MetricRecord({"num-examples": 1, "loss": 0.0})
    content = RecordDict({"arrays": message.content["arrays"], "metrics": metrics})
    return Message(content, reply_to=message)
"""
OWN_SERVER = """
import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid, context):
    arrays = ArrayRecord({"a": Array(np.zeros((1280, 5), np.float32))})
    FedAvg(fraction_evaluate=0.0).start(grid=grid, initial_arrays=arrays, num_rounds=1)
"""


class Recorder:
    """A TCP proxy that keeps what passes, by connection and direction."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._begin: dict[tuple[int, str], int] = {}
        self.passed: dict[tuple[int, str], bytearray] = defaultdict(bytearray)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                here = self._server.accept()[0]
                there = socket.create_connection(("127.0.0.1", self._to))
                for ends in ((here, there, UP), (there, here, DOWN)):
                    arguments = (*ends[:2], self.passed[number, ends[2]])
                    threading.Thread(target=self._copy, args=arguments, daemon=True).start()
                number += 1

    def _copy(self, source: socket.socket, target: socket.socket, kept: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                kept += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._server.close()

    def begin(self) -> None:
        """Forgets what has passed."""
        self._begin = {key: len(kept) for key, kept in self.passed.items()}

    def streams(self, way: str) -> list[bytes]:
        return [
            bytes(kept[self._begin.get(key, 0) :])
            for key, kept in self.passed.items()
            if key[1] == way
        ]


def arrays_in(stream: bytes) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays in NumPy's format that a stream has."""
    at = stream.find(b"\x93NUMPY")
    while at >= 0:
        source = io.BytesIO(stream[at:])
        np.lib.format.read_magic(source)
        shape, _, dtype = np.lib.format.read_array_header_1_0(source)
        held = source.read(math.prod(shape) * dtype.itemsize)
        yield np.frombuffer(held, dtype).reshape(shape)
        at = stream.find(b"\x93NUMPY", at + source.tell())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MobileNetV2 0.35 with a new head for 5 classes, and a few images."""
    path = tmp_path_factory.mktemp("bytes")
    source = complete("data", "models", "teachable-machine-mobilenetv2-0.35-fruit.tflite")
    odt.replace_head(source, classes=CLASSES, seed=1).save(path / "model.tflite")
    rng = np.random.default_rng(1)
    shape = odt.load_model(path / "model.tflite").inputs[0].shape[1:]
    np.save(path / "private-x.npy", rng.normal(size=(SAMPLES, *shape)).astype(np.float32))
    labels = rng.integers(0, CLASSES, SAMPLES)
    np.save(path / "private-y.npy", np.eye(CLASSES, dtype=np.float32)[labels])
    return path


def options(folder: Path, payload: str) -> tuple[object, ...]:
    files = ("--load-input", folder / "private-x.npy", "--load-expected", folder / "private-y.npy")
    head = ("--num-of-trainable-ops", 2, "--batch-size", 4, "--learning-rate", 0.1)
    one = ("--rounds", ROUNDS, "--clients", NODES, "--payload", payload, "--workers", 1)
    return ("--model", folder / "model.tflite", *files, *head, *one)


def make_app(app: Path, folder: Path, payload: str) -> Path:
    """An app that trains the head and writes the peak of its memory."""
    odt_command("fed", "init", app, *options(folder, payload))
    client = "from odt.federated.flower import client_app\n\nanswer = client_app()\n"
    (app / "client_app.py").write_text(client + MEASURED.format(setting="out"))
    return app


def own_app(app: Path, folder: Path) -> Path:
    """The least client of Flower."""
    make_app(app, folder, "float32")
    (app / "client_app.py").write_text(OWN + MEASURED.format(setting="out"))
    (app / "server_app.py").write_text(OWN_SERVER)
    return app


def trained(path: Path) -> Tensors:
    return federated.tensors_of(odt.Trainer(path, trainable=odt.last(2)))


def peak(app: Path) -> int:
    return int((app / "trained.tflite.peak").read_text())


def test_tensors_counts_and_metrics_leave_a_client_and_nothing_else(
    folder: Path, tmp_path: Path
) -> None:
    head = trained(folder / "model.tflite")
    everything = odt.Trainer(folder / "model.tflite", trainable=odt.last(-1))
    whole = federated.tensors_of(everything)
    full = sum(a.nbytes for a in whole.values())
    samples = np.load(folder / "private-x.npy")
    with fleet(tmp_path) as flower:
        flower.start_link()
        recorder = Recorder(flower.port)
        flower.start_node(0, NODES, port=recorder.port)
        flower.start_node(1, NODES)
        own = own_app(tmp_path / "own", folder)
        flower.run(own)
        for payload, least in (("float32", 50), ("int8", 150)):
            recorder.begin()
            app = make_app(tmp_path / payload, folder, payload)
            assert f"round {ROUNDS} of {ROUNDS}: {NODES} clients" in flower.run(app)
            bytes_of = {}
            for way in (UP, DOWN):
                streams = recorder.streams(way)
                arrays = [a for stream in streams for a in arrays_in(stream)]
                tensors = sum(a.nbytes for a in arrays)
                total = sum(map(len, streams))
                bytes_of[way] = tensors / ROUNDS
                print(
                    f"{payload} {way}: {tensors / ROUNDS:.0f} bytes of tensors a round, "
                    f"{(total - tensors) / ROUNDS:.0f} of framing; the full model {full}"
                )
                shapes = {a.shape for a in arrays}
                assert {a.shape for a in head.values()} <= shapes
                assert {a.dtype.name for a in arrays} == {
                    ("float32", UP): {"float32"},
                    ("float32", DOWN): {"float32"},
                    ("int8", UP): {"int8", "float32"},  # float32: the scales
                    ("int8", DOWN): {"float16"},
                }[payload, way]
            sent = b"".join(recorder.streams(UP))
            for sample in samples:
                piece = sample.tobytes()
                for at in range(0, len(piece) - 32, 997):
                    assert piece[at : at + 32] not in sent
            assert b"private" not in sent
            assert full / bytes_of[UP] >= least
            assert 2 * full / sum(bytes_of.values()) >= least
            # The processes of a round end with it; error feedback stays with the SuperNode.
            out = tmp_path / f"{payload}.tflite"
            odt_command("fed", "simulate", *options(folder, payload), "--export-tflite", out)
            assert same(trained(app / "trained.tflite"), trained(out))
            more = peak(app) - peak(own)
            print(
                f"{payload}: memory {peak(app) / MB:.0f} MB, Flower's own {peak(own) / MB:.0f} MB"
            )
            assert more <= MAX_MEMORY
        recorder.close()
