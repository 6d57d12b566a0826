"""Convolutional networks without branches, and SqueezeNet."""

from bench.networks.layers import Network


def mnist() -> Network:
    """Two convolutions of 3×3, each pooled, and a dense layer."""
    net = Network((28, 28, 1))
    for units in (32, 64):
        net.conv(units, 3, same=False)
        net.pool("max_pool", 2)
    net.flatten()
    net.dense(10)
    return net


def large_windows() -> Network:
    """Convolutions of 7×7 and 5×5 for 48×48 images."""
    net = Network((48, 48, 3))
    for units, size in ((32, 7), (64, 5), (64, 5)):
        net.conv(units, size)
        net.pool("max_pool", 2)
    net.flatten()
    net.dense(10)
    return net


def cnn_1d() -> Network:
    """Convolutions over 128 time steps of nine sensors, as images of one row."""
    net = Network((1, 128, 9))
    net.conv(64, (1, 5))
    net.conv(64, (1, 5))
    net.pool("max_pool", (1, 2))
    net.conv(128, (1, 3))
    net.pool("max_pool", (1, 2))
    net.mean()
    net.dense(6)
    return net


def magic_wand() -> Network:
    """TensorFlow Lite Micro's network for gestures; eight depthwise filters on one channel."""
    net = Network((128, 3, 1))
    net.depthwise((4, 3), 1, "relu", multiplier=8)
    net.pool("max_pool", 3)
    net.conv(16, (4, 1))
    net.pool("max_pool", (3, 1))
    net.flatten()
    net.dense(16, "relu")
    net.dense(4)
    return net


def squeezenet() -> Network:
    """SqueezeNet 1.1 for 112×112 images."""
    net = Network((112, 112, 3))
    net.conv(64, 3, 2)
    for k, (narrow, wide) in enumerate(
        ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
    ):
        if k in (0, 2, 4):
            net.pool("max_pool", 3, 2, same=True)
        squeezed = net.conv(narrow, 1)
        net.concat(net.conv(wide, 1), net.conv(wide, 3, source=squeezed))
    net.conv(10, 1)
    net.mean()
    return net
