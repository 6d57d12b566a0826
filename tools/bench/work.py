"""The benchmarked networks and their goals: the rows of the report."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """A network, a batch size, and whether all of it or its last layer is trained.

    Attributes:
        step: goal for the time of a step, as a fraction of the best peer's.
        memory: goal for the peak memory in MB; None for the smallest of the peers.
    """

    network: str
    batch: int
    mode: str
    step: float = 1.0
    memory: float | None = None

    @property
    def name(self) -> str:
        return f"{self.network}-{self.batch}-{self.mode}"


WORK = (
    Work("mlp", 64, "full", 0.8, 12),
    Work("mnist", 32, "full", 0.7, 30),
    Work("mnist", 64, "full", 0.7, 30),
    Work("mnist", 128, "full", 0.7, 30),
    Work("resnet8", 64, "full", 0.9, 35),
    Work("dscnn", 32, "full"),
    Work("mobilenetv3", 16, "full"),
    Work("mobilenet", 1, "full", 1.0, 150),
    Work("mobilenet", 8, "full", 0.6, 150),
    Work("mobilenet", 32, "full", 0.6, 150),
    Work("mobilenet", 8, "last", 0.8, 80),
    Work("mobilenet", 32, "last", 0.8, 80),
)
QUICK = ("mlp-64-full", "mnist-32-full", "resnet8-64-full", "mobilenet-8-full")


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
