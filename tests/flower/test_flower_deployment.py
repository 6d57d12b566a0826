"""`flwr run` offline, and a SuperLink with four SuperNodes: the bits of `odt fed simulate`."""

import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from support.flower_fleet import Fleet, fleet, odt_command, wait_for
from support.flower_party import MODEL, X, Y, same

import odt
from odt import federated
from odt.federated.flower import client_of, make_keys

NODES = 4
TRAINING = (
    *("--clients", NODES, "--partition", "dirichlet:0.5", "--seed", 9, "--batch-size", 16),
    *("--optimizer", "sgd", "--learning-rate", 0.05, "--num-of-trainable-ops", 3),
    *("--metric", "accuracy", "--workers", 1, "--epochs", 2),
)
# A client that misbehaves as the settings of its node say, in one round.
BAD_CLIENT = """
import time
from pathlib import Path

import numpy as np
from flwr.app import Array
from flwr.clientapp import ClientApp

from odt.federated.flower import client_app

good = client_app()
app = ClientApp()


@app.train()
def train(message, context):
    number = message.content["config"]["server-round"]
    how = context.node_config.get(f"round-{number}", "")
    if how == "slow":
        time.sleep(75)  # more than the timeout
    if how.startswith("killed:"):
        Path(how.removeprefix("killed:")).touch()
        time.sleep(600)
    reply = good(message, context)
    if how in ("nan", "shapes"):
        arrays = reply.content["arrays"]
        first = next(iter(arrays))
        a = arrays[first].numpy().copy()
        a.flat[0] = np.nan
        arrays[first] = Array(a if how == "nan" else a[1:])
    return reply
"""


@pytest.fixture
def data(tmp_path: Path) -> tuple[Any, ...]:
    """Options that name model and data."""
    for name, a in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", a)
    files = ("--load-input", tmp_path / "x.npy", "--load-expected", tmp_path / "y.npy")
    return ("--model", MODEL, *files, *TRAINING)


def trained(path: Path) -> dict[str, Any]:
    return federated.tensors_of(odt.Trainer(path))


def simulated(data: tuple[Any, ...], rounds: int, folder: Path) -> dict[str, Any]:
    out = folder / "simulated.circle"
    odt_command("fed", "simulate", *data, "--rounds", rounds, "--export-circle", out)
    return trained(out)


def app_of(data: tuple[Any, ...], rounds: int, folder: Path) -> Path:
    app = folder / "app"
    odt_command("fed", "init", app, *data, "--rounds", rounds)
    return app


def test_flwr_run_offline_trains_the_same_bits(data: tuple[Any, ...], tmp_path: Path) -> None:
    app = app_of(data, 2, tmp_path)
    with fleet(tmp_path) as flower:
        federation = f"num-supernodes={NODES} client-resources-num-cpus=1 init-args-num-cpus=2"
        log = flower.flwr("run", app, "--stream", "--federation-config", federation)
    assert "round 2 of 2: 4 clients" in log
    assert same(trained(app / "trained.circle"), simulated(data, 2, tmp_path))


def test_the_app_runs_in_one_process(data: tuple[Any, ...], tmp_path: Path) -> None:
    app = app_of(data, 3, tmp_path)
    subprocess.run([sys.executable, app / "run.py"], check=True, capture_output=True, cwd=tmp_path)
    assert same(trained(app / "trained.circle"), simulated(data, 3, tmp_path))


def test_supernodes_with_tls_and_keys_train_the_same_bits(
    data: tuple[Any, ...], tmp_path: Path
) -> None:
    app = app_of(data, 2, tmp_path)
    make_keys(tmp_path / "keys", nodes=NODES + 1)
    with fleet(tmp_path, tmp_path / "keys") as flower:
        flower.start_link()
        flower.start_node(4, NODES + 1, register=False)
        for k in range(NODES):
            flower.start_node(k, NODES)
        log = flower.run(app)
    assert log.count("configure_train: Sampled 4 nodes (out of 4)") == 2
    assert "round 2 of 2: 4 clients" in log
    assert same(trained(app / "trained.circle"), simulated(data, 2, tmp_path))


def members(app: Path) -> list[federated.Client]:
    project = tomllib.loads((app / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    return [
        client_of(Context(1, k, {"partition-id": k, "num-partitions": NODES}, RecordDict(), config))
        for k in range(NODES)
    ]


def test_rounds_go_on_without_bad_slow_and_killed_clients(
    data: tuple[Any, ...], tmp_path: Path
) -> None:
    app = app_of(data, 3, tmp_path)
    (app / "client_app.py").write_text(BAD_CLIENT)
    settings = (app / "pyproject.toml").read_text()
    (app / "pyproject.toml").write_text(settings.replace("timeout = 3600", "timeout = 60"))
    killed = tmp_path / "killed"
    faults: dict[int, dict[str, str]] = {
        0: {"round-2": "shapes"},
        1: {"round-1": "slow"},
        2: {"round-1": "nan"},
        3: {"round-1": f"killed:{killed}"},
    }
    with fleet(tmp_path) as flower:
        flower.start_link()
        for k, how in faults.items():
            flower.start_node(k, NODES, how)

        def kill() -> None:
            wait_for(killed.exists, 200)
            flower.stop("node-3")

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        log = flower.run(app)
        thread.join()
    print(log)
    everyone = members(app)
    tensors = everyone[0].tensors
    for number, there in ((1, [0]), (2, [1, 2]), (3, [0, 1, 2])):
        updates = [everyone[k].train(tensors, number) for k in there]
        tensors = federated.FedAvg().aggregate(number, tensors, updates)
    assert re.search("client 2: .*: values must be finite, but got nan. It is refused.", log)
    assert re.search(r"client 0: .*: must be \(.*, but got \(.*. It is refused.", log)
    for number, count in ((1, 1), (2, 2), (3, 3)):
        assert f"round {number} of 3: {count} clients" in log
    assert same(trained(app / "trained.circle"), tensors)


def test_a_federation_goes_on_after_its_server_was_killed(
    data: tuple[Any, ...], tmp_path: Path
) -> None:
    app = app_of(data, 4, tmp_path)
    with fleet(tmp_path) as flower:
        flower.start_link()
        for k in range(NODES):
            flower.start_node(k, NODES)
        first = threading.Thread(target=ignore, args=(flower, app))
        first.start()
        wait_for((app / "state").exists, 120)
        flower.stop("link")
        assert not (app / "trained.circle").exists()
        flower.start_link()
        first.join()
        log = flower.run(app)
    assert "resumes after round " in log
    assert "round 4 of 4: 4 clients" in log
    assert same(trained(app / "trained.circle"), simulated(data, 4, tmp_path))


def ignore(flower: Fleet, app: Path) -> None:
    """Runs the app; the server is killed meanwhile."""
    try:
        flower.run(app)
    except AssertionError as e:
        print(e)
