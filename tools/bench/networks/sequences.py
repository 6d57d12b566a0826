"""Transformers, a mixer, causal convolutions, recurrent networks, points and a bag of words."""

from bench.networks.layers import Network


def _encoder(
    net: Network, depth: int, heads: int, hidden: int, *, causal: bool = False, mean: bool = True
) -> None:
    """Adds encoder layers that normalize first, and the mean of the tokens unless `mean=False`."""
    last = net.last
    width = net.shape_of(last)[1]
    for _ in range(depth):
        net.norm()
        last = net.add(last, net.attention(heads, gain=0.25, causal=causal))
        net.norm()
        net.dense(hidden, "gelu")
        last = net.add(last, net.dense(width, gain=0.25))
    net.norm()
    if mean:
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


def causal_transformer() -> Network:
    """Classifies texts of 256 tokens by two layers of width 256, which read no later tokens."""
    net = Network((256,), vocabulary=5000)
    net.embedding(256)
    net.offset()
    _encoder(net, 2, 4, 1024, causal=True)
    net.dense(4)
    return net


def gpt() -> Network:
    """Predicts each of 128 tokens by two layers of width 128, which read no later tokens."""
    net = Network((128,), "scce", vocabulary=4000)
    net.embedding(128)
    net.offset()
    _encoder(net, 2, 4, 512, causal=True, mean=False)
    net.dense(4000)
    return net


def bert() -> Network:
    """Classifies texts of 128 tokens by two layers of width 128 with a large vocabulary."""
    net = Network((128,), vocabulary=30_000)
    net.embedding(128)
    net.offset()
    last = net.norm()
    for _ in range(2):
        net.add(last, net.attention(4, gain=0.25))
        last = net.norm()
        net.dense(512, "gelu")
        net.add(last, net.dense(128, gain=0.25))
        last = net.norm()
    net.mean()
    net.dense(2)
    return net


def recommender() -> Network:
    """Classifies eight features, of 10,000 values each in one table, by dense layers."""
    net = Network((8,), vocabulary=80_000)
    net.embedding(16)
    net.flatten()
    for units in (64, 32):
        net.dense(units, "relu")
    net.dense(2)
    return net


def mixer() -> Network:
    """MLP-Mixer with four layers of width 128: 64 patches of 4×4 pixels."""
    net = Network((32, 32, 3))
    net.conv(128, 4, 4, "", same=False)
    last = net.tokens()
    for _ in range(4):
        net.norm()
        net.swap()
        net.dense(64, "gelu")
        net.dense(64, gain=0.25)
        last = net.add(last, net.swap())
        net.norm()
        net.dense(512, "gelu")
        last = net.add(last, net.dense(128, gain=0.25))
    net.norm()
    net.mean()
    net.dense(10)
    return net


def tcn() -> Network:
    """Residual pairs of dilated causal convolutions over 256 time steps of nine sensors."""
    net = Network((256, 1, 9))
    last = net.conv(64, 1, activation="")
    for k in range(6):
        net.causal(64, 3, 2**k, source=last)
        inner = net.causal(64, 3, 2**k)
        last = net.add(last, inner, "relu")
    net.mean()
    net.dense(6)
    return net


def wavenet() -> Network:
    """Ten gated causal convolutions of dilations 1 to 512 over 1,024 samples of a sound."""
    net = Network((1024, 1, 1))
    last = net.conv(32, 1, activation="")
    for k in range(10):
        values = net.causal(32, 2, 2**k, "tanh", source=last)
        gates = net.causal(32, 2, 2**k, "sigmoid", source=last)
        net.mul(values, gates)
        last = net.add(last, net.conv(32, 1, activation=""))
    net.conv(64, 1)
    net.mean()
    net.dense(10)
    return net


def pointnet() -> Network:
    """Classifies 1,024 points by the largest features of all of them."""
    net = Network((1024, 3))
    for units in (64, 64, 128, 1024):
        net.dense(units, "relu")
    net.max()
    for units in (512, 256):
        net.dense(units, "relu")
    net.dense(10)
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
