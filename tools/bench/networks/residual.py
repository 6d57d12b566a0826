"""Residual and densely connected networks, their batch normalizations folded."""

from bench.networks.layers import Network


def resnet8() -> Network:
    """MLPerf Tiny's residual network for 32×32 images."""
    net = Network((32, 32, 3))
    last = net.conv(16, 3)
    for k, units in enumerate((16, 32, 64)):
        stride = 1 if k == 0 else 2
        inner = net.conv(units, 3, stride, source=last)
        inner = net.conv(units, 3, 1, "", source=inner)
        short = last if k == 0 else net.conv(units, 1, stride, "", source=last)
        last = net.add(short, inner, "relu")
    net.pool("mean_pool", 8)
    net.flatten()
    net.dense(10)
    return net


def resnet18() -> Network:
    """ResNet-18 for 64×64 images."""
    net = Network((64, 64, 3))
    net.conv(64, 7, 2)
    last = net.pool("max_pool", 3, 2, same=True)
    for units in (64, 128, 256, 512):
        for k in range(2):
            stride = 2 if units > 64 and k == 0 else 1
            net.conv(units, 3, stride, source=last)
            inner = net.conv(units, 3, 1, "", gain=0.25)
            short = last if stride == 1 else net.conv(units, 1, stride, "", source=last)
            last = net.add(short, inner, "relu")
    net.mean()
    net.dense(10)
    return net


def resnext() -> Network:
    """Six blocks of ResNeXt for 64×64 images: 3×3 filters read 4 or 8 channels each."""
    net = Network((64, 64, 3))
    last = net.conv(64, 7, 2)
    for units in (128, 256):
        for k in range(3):
            stride = 2 if k == 0 else 1
            net.conv(units, 1, source=last)
            net.conv(units, 3, stride, groups=32)
            inner = net.conv(units, 1, 1, "", gain=0.25)
            short = last if k else net.conv(units, 1, stride, "", source=last)
            last = net.add(short, inner, "relu")
    net.mean()
    net.dense(10)
    return net


def grouped() -> Network:
    """Six blocks for 64×64 images, whose 3×3 filters read one group of 4 channels each."""
    net = Network((64, 64, 3))
    last = net.conv(64, 3, 2)
    for units, groups in ((64, 16), (128, 32), (256, 64)):
        for k in range(2):
            stride = 2 if k == 0 and units > 64 else 1
            net.conv(units, 1, source=last)
            net.conv(units, 3, stride, groups=groups)
            inner = net.conv(units, 1, 1, "", gain=0.25)
            same = net.shape_of(last) == net.shape_of(inner)
            short = last if same else net.conv(units, 1, stride, "", source=last)
            last = net.add(short, inner, "relu")
    net.mean()
    net.dense(10)
    return net


def resnet_groupnorm() -> Network:
    """A residual network for 32×32 images with group normalization in eight groups."""
    net = Network((32, 32, 3))
    net.conv(32, 3, 1, "")
    last = net.norm(8, "relu")
    for units in (32, 64, 128):
        stride = 1 if units == 32 else 2
        net.conv(units, 3, stride, "", source=last)
        net.norm(8, "relu")
        net.conv(units, 3, 1, "")
        inner = net.norm(8)
        if stride == 2:
            net.conv(units, 1, stride, "", source=last)
            last = net.norm(8)
        last = net.add(last, inner, "relu")
    net.mean()
    net.dense(10)
    return net


def densenet() -> Network:
    """Three blocks of four layers, each of which adds 16 channels, for 32×32 images."""
    net = Network((32, 32, 3))
    last = net.conv(32, 3)
    for block in range(3):
        if block:
            net.conv(net.shape_of(last)[2] // 2, 1)
            last = net.pool("mean_pool", 2)
        for _ in range(4):
            last = net.concat(last, net.conv(16, 3, source=last))
    net.mean()
    net.dense(10)
    return net
