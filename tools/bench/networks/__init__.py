"""The networks that systems train, and the files that others have shipped, by name.

NumPy only: the measuring scripts import this package in the environments of the peers.
"""

from collections.abc import Callable

from bench.networks import dense, images, mobile, plain, residual, sequences
from bench.networks.layers import Network
from bench.networks.task import ShippedFile, Task, random_batch

__all__ = ["NETWORKS", "SHIPPED", "Network", "ShippedFile", "Task", "random_batch", "task_of"]

NETWORKS: dict[str, Callable[[], Network]] = {
    "mlp": dense.mlp,
    "mnist": plain.mnist,
    "resnet8": residual.resnet8,
    "dscnn": mobile.dscnn,
    "mobilenetv3": mobile.mobilenetv3,
    "mobilenet": mobile.mobilenet,
    "wide_mlp": dense.wide_mlp,
    "anomaly": dense.anomaly,
    "large_windows": plain.large_windows,
    "cnn_1d": plain.cnn_1d,
    "magic_wand": plain.magic_wand,
    "squeezenet": plain.squeezenet,
    "resnet18": residual.resnet18,
    "resnext": residual.resnext,
    "resnet_groupnorm": residual.resnet_groupnorm,
    "densenet": residual.densenet,
    "mobilenetv1": mobile.mobilenetv1,
    "efficientnet": mobile.efficientnet,
    "mobilefacenet": mobile.mobilefacenet,
    "unet_nearest": images.unet_nearest,
    "unet_transposed": images.unet_transposed,
    "autoencoder": images.autoencoder,
    "style_transfer": images.style_transfer,
    "vit": sequences.vit,
    "transformer": sequences.transformer,
    "bag": sequences.bag,
    "lstm_unrolled": sequences.lstm_unrolled,
    "lstm_128": sequences.lstm_128,
    "lstm_512": sequences.lstm_512,
    "gru_unrolled": sequences.gru_unrolled,
    "gru_text": sequences.gru_text,
    "video": images.video,
    "grouped": residual.grouped,
    "shufflenet": mobile.shufflenet,
    "causal_transformer": sequences.causal_transformer,
    "gpt": sequences.gpt,
    "bert": sequences.bert,
    "recommender": sequences.recommender,
    "mixer": sequences.mixer,
    "tcn": sequences.tcn,
    "wavenet": sequences.wavenet,
    "pointnet": sequences.pointnet,
}

# Of the peers, only LiteRT and onert can read them.
SHIPPED = {
    "shipped_resnet8": ShippedFile("mlperf-tiny-resnet8-cifar10.tflite", (32, 32, 3), (10,)),
    "shipped_mobilenetv1": ShippedFile(
        "mlperf-tiny-vww-mobilenetv1-0.25-96.tflite", (96, 96, 3), (2,)
    ),
    "shipped_magic_wand": ShippedFile("tflm-magic-wand-float.tflite", (128, 3, 1), (4,)),
    "shipped_keywords": ShippedFile("kws-yes-no-conv60x40.tflite", (2400,), (2,)),
    "shipped_keywords_depthwise": ShippedFile(
        "kws-yes-no-dwconv128x32.tflite", (128, 32, 1), (2,)
    ),
    "shipped_text": ShippedFile(
        "text-classification-average-embedding.tflite", (256,), (2,),
        vocabulary=10_000, float_tokens=True,
    ),
    "shipped_lstm": ShippedFile("tflm-mnist-lstm-float.tflite", (28, 28), (10,)),
    "shipped_policy": ShippedFile("planestrike-policy-dense.tflite", (8, 8), (64,)),
    "shipped_anomaly": ShippedFile("mlperf-tiny-ad-autoencoder.tflite", (640,), (640,), "mse"),
    "shipped_dense": ShippedFile("mnist-dense-512-10.tflite", (28, 28), (10,)),
    "shipped_fruit": ShippedFile(
        "teachable-machine-mobilenetv2-0.35-fruit.tflite", (224, 224, 3), (2,)
    ),
    "shipped_deeplab": ShippedFile(
        "deeplabv3-mobilenetv2-257.tflite", (257, 257, 3), (257, 257, 21), "mse"
    ),
}  # fmt: skip


def task_of(name: str) -> Task:
    return NETWORKS[name]() if name in NETWORKS else SHIPPED[name]
