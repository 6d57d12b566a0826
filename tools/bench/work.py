"""The benchmarked networks: the rows of the report."""

from dataclasses import dataclass

from bench.networks import SHIPPED, Task, task_of


@dataclass(frozen=True)
class Work:
    """A network, a batch size, and whether all of it or its last layer is trained.

    Attributes:
        network: key of NETWORKS or SHIPPED.
        batch: samples of a step.
        mode: full, or last if only the last layer with weights is trained.
    """

    network: str
    batch: int
    mode: str = "full"

    @property
    def name(self) -> str:
        return f"{self.network}-{self.batch}-{self.mode}"

    @property
    def task(self) -> Task:
        return task_of(self.network)

    @property
    def shipped(self) -> bool:
        return self.network in SHIPPED


WORK = (
    Work("mlp", 64),
    Work("mnist", 32),
    Work("mnist", 64),
    Work("mnist", 128),
    Work("resnet8", 64),
    Work("dscnn", 32),
    Work("mobilenetv3", 16),
    Work("mobilenet", 1),
    Work("mobilenet", 8),
    Work("mobilenet", 32),
    Work("mobilenet", 8, "last"),
    Work("mobilenet", 32, "last"),
    Work("wide_mlp", 8),
    Work("wide_mlp", 32),
    Work("anomaly", 32),
    Work("large_windows", 8),
    Work("cnn_1d", 32),
    Work("magic_wand", 32),
    Work("squeezenet", 8),
    Work("resnet18", 8),
    Work("resnet18", 32),
    Work("resnext", 8),
    Work("resnet_groupnorm", 32),
    Work("densenet", 32),
    Work("dscnn", 8),
    Work("mobilenetv1", 32),
    Work("mobilenetv3", 8),
    Work("mobilenetv3", 32),
    Work("efficientnet", 1),
    Work("efficientnet", 8),
    Work("mobilefacenet", 8),
    Work("unet_nearest", 1),
    Work("unet_nearest", 8),
    Work("unet_transposed", 8),
    Work("autoencoder", 8),
    Work("style_transfer", 1),
    Work("vit", 1),
    Work("vit", 8),
    Work("vit", 32),
    Work("transformer", 8),
    Work("transformer", 32),
    Work("bag", 32),
    Work("lstm_unrolled", 32),
    Work("lstm_128", 8),
    Work("lstm_128", 32),
    Work("lstm_512", 32),
    Work("gru_unrolled", 32),
    Work("gru_text", 32),
    Work("video", 4),
    Work("grouped", 8),
    Work("shufflenet", 16),
    Work("causal_transformer", 8),
    Work("gpt", 4),
    Work("bert", 1),
    Work("bert", 8),
    Work("recommender", 1),
    Work("recommender", 256),
    Work("mixer", 32),
    Work("tcn", 32),
    Work("wavenet", 8),
    Work("pointnet", 16),
    *(Work(name, 8) for name in SHIPPED),
)
QUICK = ("mlp-64-full", "mnist-32-full", "resnet8-64-full", "mobilenet-8-full",
         "unet_nearest-1-full", "vit-8-full", "lstm_512-32-full",
         "shipped_mobilenetv1-8-full")  # fmt: skip
# Rows of the table on the page.
SHOWN = ("mlp-64-full", "mnist-32-full", "resnet8-64-full", "dscnn-32-full", "mobilenet-8-full",
         "mobilenet-32-full", "mobilenet-8-last", "resnet18-32-full", "unet_nearest-8-full",
         "vit-8-full", "lstm_512-32-full", "shipped_mobilenetv1-8-full")  # fmt: skip
