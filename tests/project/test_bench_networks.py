"""The benchmarked networks: their sizes, and that odt trains them as PyTorch does."""

import json
from pathlib import Path

import numpy as np
import pytest
from bench.networks import NETWORKS, SHIPPED, random_batch
from bench.scaling import OneBatch
from bench.systems import HERE
from bench.work import WORK, Work
from bench.write_models import write, write_all

from odt.core.formats.reader import read_model
from odt.core.model.training_info import TrainingInfo
from odt.core.training.trainer import Trainer

LOSSES = json.loads((Path(__file__).parent / "bench_losses.json").read_text())

# Parameters and multiplications for a sample. The counts of MobileNetV1, magic_wand and anomaly
# are those of the shipped files, the others' those of the publications without normalizations.
COUNTS = {
    "mlp": (101_770, 101_632),
    "mnist": (34_826, 2_440_960),
    "resnet8": (77_706, 12_501_632),
    "dscnn": (22_604, 2_656_768),
    "mobilenetv3": (1_522_050, 11_057_600),
    "mobilenet": (3_487_816, 300_774_272),
    "wide_mlp": (10_020_874, 10_014_720),
    "anomaly": (265_864, 264_192),
    "large_windows": (181_514, 55_097_856),
    "cnn_1d": (48_966, 4_563_712),
    "magic_wand": (4_300, 62_016),
    "squeezenet": (727_626, 72_002_560),
    "resnet18": (11_176_842, 148_050_944),
    "resnext": (576_522, 79_628_800),
    "resnet_groupnorm": (309_322, 49_120_512),
    "densenet": (133_090, 53_806_256),
    "mobilenetv1": (210_850, 7_489_664),
    "efficientnet": (3_999_350, 71_153_632),
    "mobilefacenet": (994_634, 220_966_656),
    "unet_nearest": (487_297, 667_942_912),
    "unet_transposed": (482_033, 144_965_632),
    "autoencoder": (34_067, 4_046_848),
    "style_transfer": (424_899, 693_633_024),
    "vit": (1_831_114, 121_898_880),
    "transformer": (1_045_508, 27_263_488),
    "bag": (160_340, 320),
    "lstm_unrolled": (24_458, 660_096),
    "lstm_128": (100_106, 1_574_144),
    "lstm_512": (1_186_826, 18_879_488),
    "gru_unrolled": (18_506, 495_232),
    "gru_text": (345_028, 786_688),
    "video": (181_834, 67_240_576),
    "grouped": (383_754, 72_944_128),
    "shufflenet": (1_255_764, 26_437_912),
    "causal_transformer": (2_926_596, 469_763_072),
    "gpt": (1_441_184, 124_256_256),
    "bert": (4_253_442, 58_720_512),
    "recommender": (1_290_402, 10_304),
    "mixer": (569_994, 38_143_232),
    "tcn": (149_254, 37_896_576),
    "wavenet": (54_986, 54_559_360),
    "pointnet": (803_530, 147_655_168),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_train_as_in_pytorch(name: str, tmp_path: Path) -> None:
    """Losses of PyTorch in float64, padding as TFLite does; only the stated weights train."""
    net, batch = NETWORKS[name](), LOSSES["batch"]
    assert (net.parameters, net.multiplications) == COUNTS[name]
    write(net, tmp_path / "net.circle")
    graph = read_model(tmp_path / "net.circle").graph
    assert graph.tensors[graph.outputs[0]].spec.shape == (1, *net.output)
    loss = {"cce": "categorical_crossentropy", "scce": "sparse_categorical_crossentropy",
            "mse": "mean_squared_error"}[net.loss]  # fmt: skip
    info = TrainingInfo(
        optimizer="adam", learning_rate=LOSSES["learning_rate"], loss=loss, batch_size=batch
    )
    x, y = random_batch(net, batch)
    targets = net.output[:-1] if net.loss == "scce" else net.output
    assert (x.shape, y.shape) == ((batch, *net.input), (batch, *targets))
    with Trainer(graph, info) as trainer:
        losses = [trainer.step(OneBatch(x, y), batch) for _ in LOSSES["losses"][name]]
        trained = sum(a.size for a in trainer.parameters.tensors.values())
    assert losses == pytest.approx(LOSSES["losses"][name], rel=2e-4)
    assert trained == net.parameters


def test_shipped_files_are_those_of_the_table(tmp_path: Path) -> None:
    """Files of tests/models are copied and train; others are listed with their reason."""
    works = [w for w in WORK if w.shipped]
    absent = write_all(tmp_path, works, (HERE.parents[1] / "tests/models",))
    assert "shipped_deeplab-8-full" in absent
    for work in works:
        if work.name in absent:
            continue
        task = SHIPPED[work.network]
        graph = read_model(tmp_path / f"{work.network}.tflite").graph
        assert [graph.tensors[i].spec.shape for i in graph.inputs] == [(1, *task.input)]
        assert [graph.tensors[i].spec.shape for i in graph.outputs] == [(1, *task.output)]
        info = TrainingInfo(loss="categorical_crossentropy", batch_size=2)
        with Trainer(graph, info) as trainer:
            assert trainer.step(OneBatch(*random_batch(task, 2)), 2) > 0


def test_litert_gets_a_file_of_the_batch(tmp_path: Path) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    write_all(tmp_path, [Work("lstm_128", 3), Work("style_transfer", 2)], ())
    for name, batch in (("lstm_128", 3), ("style_transfer", 2)):
        net = NETWORKS[name]()
        model = interpreter.Interpreter(model_path=str(tmp_path / f"{name}-{batch}.tflite"))
        model.allocate_tensors()
        model.set_tensor(model.get_input_details()[0]["index"], random_batch(net, batch)[0])
        model.invoke()
        y = model.get_tensor(model.get_output_details()[0]["index"])
        assert y.shape == (batch, *net.output)
        assert np.isfinite(y).all()
