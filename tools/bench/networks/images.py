"""Networks whose output is an image."""

from bench.networks.layers import Network


def _unet(size: int, *, transposed: bool) -> Network:
    """A U-Net of 16 to 128 channels, which goes up by transposed convolutions or upsampling."""
    net = Network((size, size, 3), "mse")
    skips = []
    for units in (16, 32, 64):
        net.conv(units, 3)
        skips.append(net.conv(units, 3))
        net.pool("max_pool", 2)
    net.conv(128, 3)
    net.conv(128, 3)
    for units, skip in zip((64, 32, 16), reversed(skips), strict=True):
        up = net.transposed(units, 2) if transposed else net.upsample()
        net.concat(up, skip)
        net.conv(units, 3)
        net.conv(units, 3)
    net.conv(1, 1, 1, "sigmoid")
    return net


def unet_nearest() -> Network:
    return _unet(128, transposed=False)


def unet_transposed() -> Network:
    return _unet(64, transposed=True)


def autoencoder() -> Network:
    """Convolutions of stride 2, and transposed ones back to 64×64 images."""
    net = Network((64, 64, 3), "mse")
    for units in (16, 32, 64):
        net.conv(units, 3, 2)
    for units in (32, 16):
        net.transposed(units, 2, "relu")
    net.transposed(3, 2, "sigmoid")
    return net


def style_transfer() -> Network:
    """A network that redraws 128×128 images: windows of 9×9, instance normalization."""
    net = Network((128, 128, 3), "mse")
    for units, size, stride in ((16, 9, 1), (32, 3, 2), (64, 3, 2)):
        net.conv(units, size, stride, "")
        last = net.norm(units, "relu")
    for _ in range(5):
        net.conv(64, 3, 1, "")
        net.norm(64, "relu")
        net.conv(64, 3, 1, "")
        last = net.add(last, net.norm(64))
    for units in (32, 16):
        net.upsample()
        net.conv(units, 3, 1, "")
        net.norm(units, "relu")
    net.conv(3, 9, 1, "sigmoid")
    return net


def video() -> Network:
    """Classifies videos of 16 frames of 32×32 pixels by convolutions of 3×3×3."""
    net = Network((16, 32, 32, 3))
    for units, stride in ((16, 1), (32, 2), (64, 2), (64, 2)):
        net.volume(units, 3, stride)
    net.mean()
    net.dense(10)
    return net
