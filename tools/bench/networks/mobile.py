"""Networks of depthwise-separable convolutions, their batch normalizations folded."""

from bench.networks.layers import Network


def dscnn() -> Network:
    """MLPerf Tiny's depthwise-separable network that spots keywords in ten MFCCs of 49 frames."""
    net = Network((49, 10, 1))
    net.conv(64, (10, 4), 2)
    for _ in range(4):
        net.depthwise(3, 1, "relu")
        net.conv(64, 1)
    net.mean()
    net.dense(12)
    return net


def mobilenetv1() -> Network:
    """MobileNetV1 0.25 for 96×96 images: MLPerf Tiny's visual wake words."""
    net = Network((96, 96, 3))
    net.conv(8, 3, 2)
    for units, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5,
                          (256, 2), (256, 1)):  # fmt: skip
        net.depthwise(3, stride, "relu")
        net.conv(units, 1)
    net.pool("mean_pool", 3)
    net.flatten()
    net.dense(2)
    return net


# Expansion, channels, repeats, stride of the first, window.
V2 = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3),
      (6, 160, 3, 2, 3), (6, 320, 1, 1, 3))  # fmt: skip
B0 = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
      (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))  # fmt: skip


def _inverted(net: Network, stages: tuple[tuple[int, ...], ...], activation: str, se: int) -> None:
    """Adds inverted residual blocks.

    Args:
        se: input channels of a block for each channel to which they are squeezed; 0 for no
            squeezing.
    """
    last = net.last
    for expansion, units, repeats, first, window in stages:
        for k in range(repeats):
            before, channels = last, net.shape_of(last)[2]
            stride = first if k == 0 else 1
            if expansion != 1:
                net.conv(channels * expansion, 1, 1, activation)
            net.depthwise(window, stride, activation)
            if se:
                net.squeeze(channels // se, activation, "sigmoid")
            same = stride == 1 and channels == units
            gain = (0.25 if same else 1.0) * (2.0 if se else 1.0)  # factors of ½ or more
            last = net.conv(units, 1, 1, "", gain=gain)
            if same:
                last = net.add(before, last)
    net.conv(1280, 1, 1, activation)
    net.mean()


def mobilenet(size: int = 224, classes: int = 1000) -> Network:
    """MobileNetV2."""
    net = Network((size, size, 3))
    net.conv(32, 3, 2, "relu6")
    _inverted(net, V2, "relu6", 0)
    net.dense(classes)
    return net


def efficientnet() -> Network:
    """EfficientNet-B0 for 96×96 images."""
    net = Network((96, 96, 3))
    net.conv(32, 3, 2, "swish")
    _inverted(net, B0, "swish", 4)
    net.dense(10)
    return net


# Window, expanded channels, channels, squeezed channels or 0, stride.
V3 = ((3, 16, 16, 8, 2), (3, 72, 24, 0, 2), (3, 88, 24, 0, 1), (5, 96, 40, 24, 2),
      (5, 240, 40, 64, 1), (5, 240, 40, 64, 1), (5, 120, 48, 32, 1), (5, 144, 48, 40, 1),
      (5, 288, 96, 72, 2), (5, 576, 96, 144, 1), (5, 576, 96, 144, 1))  # fmt: skip


def mobilenetv3(size: int = 96, classes: int = 10) -> Network:
    """MobileNetV3-Small: RELU in the first three blocks."""
    net = Network((size, size, 3))
    last = net.conv(16, 3, 2, "hard_swish")
    for k, (window, expanded, units, squeezed, stride) in enumerate(V3):
        before, channels = last, net.shape_of(last)[2]
        activation = "relu" if k < 3 else "hard_swish"
        if expanded != channels:
            net.conv(expanded, 1, 1, activation)
        net.depthwise(window, stride, activation)
        if squeezed:
            net.squeeze(squeezed)
        same = stride == 1 and channels == units
        last = net.conv(units, 1, 1, "", gain=4.0 if squeezed else 1.0)  # factors of about ½
        if same:
            last = net.add(before, last)
    net.conv(576, 1, 1, "hard_swish")
    net.mean()
    net.dense(1024, "hard_swish")
    net.dense(classes)
    return net


# Expansion, channels, repeats, stride of the first.
FACE = ((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1))


def mobilefacenet() -> Network:
    """MobileFaceNet for 112×112 images, with PRELU, and a class for each of ten faces."""
    net = Network((112, 112, 3))
    net.conv(64, 3, 2, "")
    net.prelu()
    net.depthwise(3, 1, "")
    last = net.prelu()
    for expansion, units, repeats, first in FACE:
        for k in range(repeats):
            before, channels = last, net.shape_of(last)[2]
            stride = first if k == 0 else 1
            net.conv(channels * expansion, 1, 1, "", gain=2.0)
            net.prelu()
            net.depthwise(3, stride, "")
            net.prelu()
            same = stride == 1 and channels == units
            last = net.conv(units, 1, 1, "", gain=0.25 if same else 1.0)
            if same:
                last = net.add(before, last)
    net.conv(512, 1, 1, "", gain=2.0)
    net.prelu()
    net.depthwise(7, 1, "", same=False)
    net.conv(128, 1, 1, "")
    net.flatten()
    net.dense(10)
    return net


def shufflenet() -> Network:
    """ShuffleNetV2 1× for 96×96 images."""
    net = Network((96, 96, 3))
    net.conv(24, 3, 2)
    last = net.pool("max_pool", 3, 2, same=True)
    for units, repeats in ((116, 4), (232, 8), (464, 4)):
        for k in range(repeats):
            if k == 0:
                net.depthwise(3, 2, "", source=last)
                short = net.conv(units // 2, 1)
                net.conv(units // 2, 1, source=last)
            else:
                short = net.half(0, last)
                net.conv(units // 2, 1, source=net.half(1, last))
            net.depthwise(3, 2 if k == 0 else 1, "")
            net.concat(short, net.conv(units // 2, 1))
            last = net.shuffle()
    net.conv(1024, 1)
    net.mean()
    net.dense(10)
    return net
