"""The benchmarked networks and their goals: the rows of the report."""

from dataclasses import dataclass

from bench.networks import SHIPPED, Task, task_of


@dataclass(frozen=True)
class Work:
    """A network, a batch size, and whether all of it or its last layer is trained.

    Attributes:
        network: key of NETWORKS or SHIPPED.
        memory: goal for the peak memory in MB; None for half of the smallest of the peers.
        step: goal for the time of a step, as a fraction of the best float32 peer's.
        forward: goal for the time of a step, in units of three LiteRT forward passes; None for
            no goal.
    """

    network: str
    batch: int
    memory: float | None = None
    step: float = 0.8
    forward: float | None = None
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
    Work("mlp", 64, 12),
    Work("mnist", 32, 30, 0.7, 1.0),
    Work("mnist", 64, 30, 0.7, 1.0),
    Work("mnist", 128, 30, 0.7, 1.0),
    Work("resnet8", 64, 35, 0.8, 1.0),
    Work("dscnn", 32, None, 0.8, 1.0),
    Work("mobilenetv3", 16),
    Work("mobilenet", 1, 150, 0.8, 1.8),
    Work("mobilenet", 8, 150, 0.6, 1.2),
    Work("mobilenet", 32, 150, 0.6, 1.2),
    Work("mobilenet", 8, 80, mode="last"),
    Work("mobilenet", 32, 80, mode="last"),
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
    *(Work(name, 8, forward=3.0) for name in SHIPPED),
)
QUICK = ("mlp-64-full", "mnist-32-full", "resnet8-64-full", "mobilenet-8-full",
         "unet_nearest-1-full", "vit-8-full", "lstm_512-32-full",
         "shipped_mobilenetv1-8-full")  # fmt: skip


@dataclass(frozen=True)
class Way:
    """A configuration of odt, such as a memory budget, and the rows on which it is measured.

    Attributes:
        step: goal for the time of a step, as a fraction of that of `against`.
        against: system to compare with; "" is the best peer.
        memory: goal for the peak memory in MB, if there is one.
    """

    step: float
    against: str = ""
    memory: float | None = None


WAYS = {
    "odt, within 100 MB": Way(1.5, "odt", 100),
    "odt, frozen part cached": Way(0.05),
}
