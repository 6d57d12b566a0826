"""An app that its settings describe trains the bits of `odt fed simulate` with these options."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.serverapp.strategy import FedAvg, FedProx
from support.flower_fleet import odt_command
from support.flower_party import MODEL, X, Y, same
from support.onnx_files import classifier
from support.paths import ROOT

import odt
from odt import federated
from odt.errors import OptionError
from odt.federated.flower import (
    client_app,
    client_of,
    make_keys,
    run_in_process,
    server_app,
    trainer_of,
)
from odt.federated.flower.settings import ServerSettings

OPTIONS = {
    "partition": "dirichlet:0.5",
    "rounds": 3,
    "epochs": 2,
    "seed": 9,
    "batch-size": 16,
    "optimizer": "sgd",
    "learning-rate": 0.05,
    "momentum": 0.9,
    "metric": "accuracy",
    "num-of-trainable-ops": 3,
    "clients": 4,
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    for name, a in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", a)
    return {
        "model": str(MODEL),
        "load-input": str(tmp_path / "x.npy"),
        "load-expected": str(tmp_path / "y.npy"),
    }


def simulated(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """What the command trains."""
    out = folder / "simulated.circle"
    words = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "odt", "fed", "simulate", *words, f"--export-circle={out}"]
    subprocess.run(command, check=True, capture_output=True)
    return federated.tensors_of(odt.Trainer(out))


def trained(folder: Path, settings: dict[str, Any], strategy: Any = None) -> dict[str, Any]:
    out = str(folder / "trained.circle")
    server = server_app(strategy or FedAvg(fraction_evaluate=0.0))
    run_in_process(server, client_app(), 4, run_config={**settings, "out": out})
    return federated.tensors_of(odt.Trainer(out))


@pytest.mark.parametrize("payload", ["float32", "int8"])
def test_fedavg_is_odt_fed_simulate(payload: str, files: dict[str, Any], tmp_path: Path) -> None:
    options = {**files, **OPTIONS, "payload": payload}
    assert same(trained(tmp_path, options), simulated(tmp_path, options))


def test_fedprox_is_odt_fed_simulate(files: dict[str, Any], tmp_path: Path) -> None:
    options = {**files, **OPTIONS, "decay": "none"}
    strategy = FedProx(fraction_evaluate=0.0, proximal_mu=0.5)
    wanted = simulated(tmp_path, {**options, "strategy": "fedprox:mu=0.5"})
    assert same(trained(tmp_path, options, strategy), wanted)
    assert not same(trained(tmp_path, options), wanted)


def test_an_onnx_model_is_trained_as_by_odt_fed_simulate(
    files: dict[str, Any], tmp_path: Path
) -> None:
    """The server writes the ONNX file with new weights."""
    files["model"] = str(classifier("logits").write(tmp_path / "m.onnx"))
    rng = np.random.default_rng(3)
    np.save(files["load-input"], rng.standard_normal((80, 6)).astype(np.float32))
    np.save(files["load-expected"], np.eye(3, dtype=np.float32)[rng.integers(0, 3, 80)])
    options = {**files, "rounds": 2, "clients": 4, "loss": "categorical_crossentropy"}
    out = tmp_path / "trained.onnx"
    server = server_app(FedAvg(fraction_evaluate=0.0))
    run_in_process(server, client_app(), 4, run_config={**options, "out": str(out)})
    words = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "odt", "fed", "simulate", *words]
    simulated_file = tmp_path / "simulated.onnx"
    subprocess.run([*command, f"--export-onnx={simulated_file}"], check=True, capture_output=True)
    assert out.read_bytes() == simulated_file.read_bytes()
    assert out.read_bytes() != Path(files["model"]).read_bytes()


def context(run: dict[str, Any], **node: Any) -> Context:
    return Context(1, 1, {n.replace("_", "-"): v for n, v in node.items()}, RecordDict(), run)


def test_a_node_with_files_of_its_own_trains_on_all_of_them(files: dict[str, Any]) -> None:
    run = {"model": files.pop("model"), "rounds": 2}
    own = Context(1, 1, {**files, "partition-id": 2}, RecordDict(), run)
    client = client_of(own)
    assert (len(client.samples), client.partition) == (len(X), 2)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("learning_rate", 0.1, "got learning_rate. Did you mean learning-rate?"),
        ("decay", "linear", "must be one of `cosine`, `none`, but got linear"),
        ("partition", "random", "must be `iid`, `dirichlet:ALPHA`"),
        ("model", "", "model=`: must be given, but got none"),
        ("epochs", 0, "must be a whole number of at least 1, but got 0"),
    ],
)
def test_wrong_settings_are_one_line(
    setting: str, value: Any, words: str, files: dict[str, Any]
) -> None:
    with pytest.raises(OptionError) as caught:
        client_of(context({**files, setting: value}, partition_id=0, num_partitions=4))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("timeout", "soon", "must be a number above 0, but got soon"),
        ("norm-bound", -1.0, "must be a number above 0, but got -1.0"),
        ("rounds", 1.5, "must be a whole number of at least 0, but got 1.5"),
        ("payload", "int4", "must be one of float32, float16, int8, but got int4"),
        ("validation-input", "x.npy", "validation-expected=`: must be given, but got none"),
    ],
)
def test_wrong_settings_of_the_server_are_one_line(setting: str, value: Any, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        ServerSettings.from_context(context({setting: value}))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"partition-id": -1, "num-partitions": 4}, "partition-id=`: must be a whole number of"),
        ({"partition-id": 4, "num-partitions": 4}, "less than num-partitions, 4, but got 4"),
        ({"partition-id": 0}, "node-config: num-partitions=`: must be given, but got none"),
        ({"load-input": "x.npy"}, "node-config: load-expected=`: must be given, but got none"),
        ({}, "tool.flwr.app.config: load-expected=`: must be given, but got none"),
    ],
)
def test_wrong_settings_of_a_node_are_one_line(
    node: dict[str, Any], words: str, files: dict[str, Any]
) -> None:
    config = {**OPTIONS, **files}
    if "num-partitions" not in node and "partition-id" not in node:
        del config["load-expected"]
    with pytest.raises(OptionError) as caught:
        client_of(Context(1, 1, node, RecordDict(), config))
    assert words in str(caught.value)


def test_the_trained_model_says_how_its_inputs_are_prepared(tmp_path: Path) -> None:
    data, model = tmp_path / "data", tmp_path / "model.tflite"
    clothes = ("fashion_mnist", "--data-dir", ROOT / "examples" / "fashion-mnist")
    few = ("--split", "train", "test", "--length", 40, 20)
    odt_command("gen-datafile", *clothes, "--out-dir", data, *few)
    odt_command("new", "mlp", "--like", data, "--hidden", 4, "--seed", 1, "-o", model)
    words = ("--model", model, "--data", data, "--rounds", 1, "--clients", 4)
    odt_command("fed", "init", tmp_path / "app", *words)
    odt_command("fed", "simulate", *words, "--export-tflite", tmp_path / "simulated.tflite")
    subprocess.run([sys.executable, tmp_path / "app" / "run.py"], check=True, capture_output=True)
    trained = (tmp_path / "app" / "trained.tflite").read_bytes()
    assert trained == (tmp_path / "simulated.tflite").read_bytes()


def test_what_trains_is_chosen_as_on_the_command_line(files: dict[str, Any]) -> None:
    everything = federated.tensors_of(trainer_of(context(files)))
    biases = federated.tensors_of(trainer_of(context({**files, "bias-only": True})))
    frozen = federated.tensors_of(
        trainer_of(context({**files, "freeze": ", ".join(list(everything)[:2])}))
    )
    assert len(biases) == len(everything) / 2
    assert list(frozen) == list(everything)[2:]


def test_settings_import_nothing(
    files: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come from a file, and on a device from the server."""
    monkeypatch.chdir(tmp_path)
    Path("marker_module.py").write_text("open('MARKER', 'w').close()\n")
    config = {**OPTIONS, **files, "loss": "marker_module:loss"}
    context = Context(1, 1, {"partition-id": 0, "num-partitions": 4}, RecordDict(), config)
    for function in (trainer_of, client_of):
        with pytest.raises(OptionError, match="is a custom loss of a Python module"):
            function(context)
    assert not Path("MARKER").exists()


def test_keys_are_removed_if_a_later_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def fail_late(path: Path, flags: int, mode: int) -> int:
        opened.append(path.name)
        if path.name == "node-0.pub":
            raise OSError(errno.ENOSPC, "No space left on device")
        return os_open(path, flags, mode)

    os_open = os.open
    (tmp_path / "empty").mkdir()
    for folder in ("new", "empty"):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", fail_late)
            with pytest.raises(odt.OdtError, match=r"node-0\.pub: .*no space left"):
                make_keys(tmp_path / folder, nodes=2)
    assert opened[:5] == ["ca.key", "ca.crt", "server.key", "server.crt", "node-0.key"]
    assert [*tmp_path.rglob("*")] == [tmp_path / "empty"]


def test_make_keys_says_how_it_is_called(tmp_path: Path) -> None:
    script = tmp_path / "make_keys.py"
    template = ROOT / "src/odt/federated/flower/app/make_keys.py.in"
    script.write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    wrong: list[list[str]] = [[], ["keys"], ["keys", "many"], ["keys", "-1"], ["keys", "0"]]
    wrong += [["keys", "1", "h\xf6st"], ["keys", "1", ""], ["keys", "1", "a\nb"], ["full", "1"]]
    wrong += [["keys", "1", "h" * 99], ["full/file/below", "1"], ["keys", "9" * 12]]
    for words in wrong:
        command = [sys.executable, str(script), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1, done.stderr
        assert not (tmp_path / "keys").exists()
    command = [sys.executable, str(script), "keys", "1", "server.example.com", "192.0.2.1", "::1"]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert len(list((tmp_path / "keys").iterdir())) == 6
