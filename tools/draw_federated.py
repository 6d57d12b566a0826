"""Draws the plots of docs/federated.md from simulated federations on examples/fashion-mnist.

python tools/draw_federated.py
"""

import tempfile
from pathlib import Path

from click.testing import CliRunner

import odt
from odt import federated
from odt.charts.chart import Chart, svg
from odt.cli.main import main as command

ROOT = Path(__file__).parents[1]
CLIENTS, ROUNDS, SEED = 10, 20, 1
PARTITIONS = ("iid", "dirichlet:0.3", "by-label", "by-label:1")
STRATEGIES = ("fedavg", "fedprox:mu=0.1", "fedadam", "fedyogi", "fedmedian")
Line = list[tuple[float, float]]


def line(data: Path, model: odt.Model, partition: str, strategy: str) -> Line:
    """Validation accuracy by round."""
    x, y = data / "train.input.bin", data / "train.output.bin"
    validation = data / "test.input.bin", data / "test.output.bin"
    with federated.new_trainer(model, metrics=["accuracy"]) as trainer:
        history = federated.simulate(
            trainer, x, y, clients=CLIENTS, partition=partition, strategy=strategy,
            rounds=ROUNDS, seed=SEED, validation_data=validation,
        )  # fmt: skip
    accuracy = history.of("val_accuracy")
    print(f"{partition} {strategy}: {accuracy[-1]:.4f}")
    return [(float(k), a) for k, a in enumerate(accuracy)]


def draw(name: str, title: str, lines: dict[str, Line]) -> None:
    """Writes a plot to docs."""
    (ROOT / "docs" / name).write_text(svg([Chart(title, lines, "round")]), encoding="utf-8")


def main() -> None:
    """Makes the data and the model, and draws both plots."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        source = ["fashion_mnist", "--data-dir", str(ROOT / "examples/fashion-mnist")]
        done = CliRunner().invoke(command, ["gen-datafile", *source, "--out-dir", folder])
        assert done.exit_code == 0, done.output
        model = odt.new_model("mlp", like=data, hidden=(64,), seed=SEED)
        draw(
            "federated-partitions.svg",
            "accuracy of fedavg",
            {p: line(data, model, p, "fedavg") for p in PARTITIONS},
        )
        draw(
            "federated-strategies.svg",
            "accuracy with dirichlet:0.3",
            {s: line(data, model, "dirichlet:0.3", s) for s in STRATEGIES},
        )


if __name__ == "__main__":
    main()
