"""Networks of dense layers."""

from bench.networks.layers import Network


def mlp(width: int = 128, depth: int = 1) -> Network:
    """784 → width, `depth` times → 10."""
    net = Network((784,))
    for _ in range(depth):
        net.dense(width, "relu")
    net.dense(10)
    return net


def wide_mlp() -> Network:
    return mlp(2048, 3)


def anomaly() -> Network:
    """MLPerf Tiny's autoencoder, which detects anomalies in sounds of machines."""
    net = Network((640,), "mse")
    for units in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        net.dense(units, "relu")
    net.dense(640)
    return net
