"""Transformers, recurrent networks and a bag of words."""

from bench.networks.layers import Network


def _encoder(net: Network, depth: int, heads: int, hidden: int) -> None:
    """Adds encoder layers that normalize first, and the mean of the tokens."""
    last = net.last
    width = net.shape_of(last)[1]
    for _ in range(depth):
        net.norm()
        last = net.add(last, net.attention(heads, gain=0.25))
        net.norm()
        net.dense(hidden, "gelu")
        last = net.add(last, net.dense(width, gain=0.25))
    net.norm()
    net.mean()


def vit() -> Network:
    """ViT-Tiny with four layers: 64 patches of 8×8 pixels."""
    net = Network((64, 64, 3))
    net.conv(192, 8, 8, "", same=False)
    net.tokens()
    net.offset()
    _encoder(net, 4, 3, 768)
    net.dense(10)
    return net


def transformer() -> Network:
    """Classifies texts of 64 tokens by two layers of width 128."""
    net = Network((64,), vocabulary=5000)
    net.embedding(128)
    net.offset()
    _encoder(net, 2, 4, 512)
    net.dense(4)
    return net


def bag() -> Network:
    """Classifies texts of 256 tokens by the mean of their embeddings."""
    net = Network((256,), vocabulary=10_000)
    net.embedding(16)
    net.mean()
    net.dense(16, "relu")
    net.dense(4)
    return net


def lstm_unrolled() -> Network:
    """Reads the rows of an MNIST image; a node for each operation of each step."""
    net = Network((28, 28))
    net.lstm(64, unrolled=True)
    net.dense(10)
    return net


def _lstm(units: int) -> Network:
    net = Network((16, 64))
    net.lstm(units)
    net.dense(10)
    return net


def lstm_128() -> Network:
    return _lstm(128)


def lstm_512() -> Network:
    return _lstm(512)


def gru_unrolled() -> Network:
    """Reads the rows of an MNIST image; a node for each operation of each step."""
    net = Network((28, 28))
    net.gru(64)
    net.dense(10)
    return net


def gru_text() -> Network:
    """Classifies texts of 32 tokens by a GRU."""
    net = Network((32,), vocabulary=5000)
    net.embedding(64)
    net.gru(64)
    net.dense(4)
    return net
