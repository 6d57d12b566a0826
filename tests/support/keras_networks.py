"""Trains Keras networks for a few steps and converts them: reference for `make accept ONLY=keras`.

It runs in an environment with TensorFlow and imports nothing of odt:

    python tests/support/keras_networks.py FOLDER [NAME ...]

writes FOLDER/NAME.tflite, converted before training, and FOLDER/NAME.npz with the batches of
three steps of SGD, samples for comparison, and what Keras computes for them before and after. The
names of networks whose batch the file leaves open end in OPEN.

All weights are random, biases too, as in a network that has been trained: converters leave out
biases of zeros, and store equal ones once.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

STEPS, BATCH, RATE = 3, 8, 0.05
SAMPLES = 32  # for comparison
T, F, U = 5, 3, 4  # time steps, features, units
SPREAD = 0.1  # of what is added to each weight of Keras' initializers
OPEN = "-open-batch"
Make = Callable[[Any, Any], Any]  # keras, keras.layers → model


def sequential(shape: tuple[int, ...], *make: Callable[[Any], Any], dtype: str = "float32") -> Make:
    """A network of layers one after another."""

    def network(keras: Any, layers: Any) -> Any:
        x = y = layers.Input(shape, dtype=dtype)
        for each in make:
            y = each(layers)(y)
        return keras.Model(x, y)

    return network


def dense(units: int = 2, **options: Any) -> Callable[[Any], Any]:
    return lambda layers: layers.Dense(units, **options)


def recurrent(kind: str, head: bool = True, **options: Any) -> Make:
    layer = lambda layers: getattr(layers, kind)(U, **options)  # noqa: E731
    return sequential((T, F), layer, *([dense()] if head else []))


def bidirectional(kind: str, merge: str, **options: Any) -> Make:
    return sequential(
        (T, F),
        lambda layers: layers.Bidirectional(getattr(layers, kind)(U, **options), merge_mode=merge),
        dense(),
    )


def stacked(kind: str) -> Make:
    return sequential(
        (T, F),
        lambda layers: getattr(layers, kind)(U, return_sequences=True),
        lambda layers: getattr(layers, kind)(U),
        dense(),
    )


def masked(kind: str) -> Make:
    return sequential(
        (T,),
        lambda layers: layers.Embedding(20, F, mask_zero=True),
        lambda layers: getattr(layers, kind)(U),
        dense(),
        dtype="int32",
    )


def encoder_decoder(keras: Any, layers: Any) -> Any:
    x = layers.Input((T, F))
    _, h, c = layers.LSTM(U, return_state=True)(x)
    y = layers.RepeatVector(3)(h)
    y = layers.LSTM(U, return_sequences=True)(y, initial_state=[h, c])
    return keras.Model(x, layers.TimeDistributed(layers.Dense(2))(y))


def conv_lstm(rank: int, **options: Any) -> Make:
    shape = (3, 6, 2) if rank == 1 else (3, 5, 5, 2)
    return sequential(
        shape,
        lambda layers: getattr(layers, f"ConvLSTM{rank}D")(3, 3, padding="same", **options),
        lambda layers: layers.Flatten(),
        dense(),
    )


def images(*make: Callable[[Any], Any]) -> Make:
    return sequential((8, 8, 3), *make, lambda layers: layers.GlobalAveragePooling2D(), dense())


def conv(**options: Any) -> Callable[[Any], Any]:
    return lambda layers: layers.Conv2D(4, 3, **options)


def relu(layers: Any) -> Any:
    return layers.ReLU()


def normalized(make: Callable[[Any], Any]) -> Make:
    return images(conv(use_bias=False, padding="same"), make, relu, conv())


def norm_vector(make: Callable[[Any], Any]) -> Make:
    return sequential((6,), dense(5), make, relu, dense())


def preprocessing(make: Callable[[Any], Any], shape: tuple[int, ...] = (6,)) -> Make:
    if len(shape) == 3:
        pool = lambda layers: layers.GlobalAveragePooling2D()  # noqa: E731
        return sequential(shape, make, conv(), relu, pool, dense())
    return sequential(shape, make, dense(5), relu, dense())


def normalization(layers: Any) -> Any:
    r = np.random.default_rng(5)
    return layers.Normalization(mean=r.normal(size=6), variance=r.uniform(0.5, 2, 6))


def image_normalization(layers: Any) -> Any:
    return layers.Normalization(mean=[0.4, 0.5, 0.45], variance=[0.05, 0.06, 0.04])


def inverted(keras: Any, layers: Any) -> Any:
    x = layers.Input((6,))
    y = layers.Dense(2)(layers.Dense(5, activation="relu")(normalization(layers)(x)))
    out = layers.Normalization(mean=[1.0, -2.0], variance=[4.0, 0.25], invert=True)
    return keras.Model(x, out(y))


def stft_front_end(keras: Any, layers: Any) -> Any:
    """Waveform → frames → Hann window → RFFT → mel → log → convolution."""
    import tensorflow as tf

    x = layers.Input((128,))

    class Spectrogram(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            power = tf.abs(tf.signal.stft(x, 32, 16, 32))
            mel = tf.signal.linear_to_mel_weight_matrix(8, 17, 16000, 100.0, 7000.0)
            return tf.math.log(tf.tensordot(power, mel, 1) + 1e-3)[..., None]

    y = Spectrogram()(x)
    y = layers.Conv2D(4, 3, activation="relu")(y)
    return keras.Model(x, layers.Dense(2)(layers.Flatten()(y)))


def dft_front_end(keras: Any, layers: Any) -> Any:
    """The same with the DFT as a product of matrices, as files for microcontrollers have it."""
    import tensorflow as tf

    x = layers.Input((128,))
    n, k = np.arange(32), np.arange(17)
    angle = 2 * np.pi * np.outer(n, k) / 32
    window = np.hanning(33)[:32]
    cos, sin = np.float32(np.cos(angle)), np.float32(np.sin(angle))

    class Spectrogram(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            frames = tf.stack([x[:, i : i + 32] for i in range(0, 97, 16)], 1)
            frames = frames * tf.constant(window, tf.float32)
            re, im = tf.matmul(frames, cos), tf.matmul(frames, sin)
            mel = tf.signal.linear_to_mel_weight_matrix(8, 17, 16000, 100.0, 7000.0)
            mel = tf.matmul(tf.square(re) + tf.square(im), mel)
            return tf.math.log(mel + 1e-3)[..., None]

    y = Spectrogram()(x)
    y = layers.Conv2D(4, 3, activation="relu")(y)
    return keras.Model(x, layers.Dense(2)(layers.Flatten()(y)))


def mel_layer(keras: Any, layers: Any) -> Any:
    x = layers.Input((256,))
    y = layers.MelSpectrogram(
        fft_length=64,
        sequence_stride=32,
        sampling_rate=16000,
        num_mel_bins=8,
        min_freq=100,
        max_freq=7000,
    )(x)
    y = layers.Conv1D(4, 3, activation="relu")(y)
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))


def two_towers(keras: Any, layers: Any) -> Any:
    a, b = layers.Input((6,)), layers.Input((4,))
    u = layers.Dense(5)(layers.Dense(8, activation="relu")(a))
    v = layers.Dense(5)(layers.Dense(8, activation="relu")(b))
    return keras.Model([a, b], layers.Dot(1)([u, v]))


def siamese(keras: Any, layers: Any) -> Any:
    a, b = layers.Input((6,)), layers.Input((6,))
    tower = keras.Sequential(
        [layers.Input((6,)), layers.Dense(8, activation="tanh"), dense(4)(layers)]
    )
    y = layers.Subtract()([tower(a), tower(b)])
    return keras.Model([a, b], layers.Dense(1)(layers.Multiply()([y, y])))


def recommender(keras: Any, layers: Any) -> Any:
    a, b = layers.Input((1,), dtype="int32"), layers.Input((1,), dtype="int32")
    u = layers.Flatten()(layers.Embedding(20, 4)(a))
    v = layers.Flatten()(layers.Embedding(20, 4)(b))
    y = layers.Concatenate()([layers.Multiply()([u, v]), u])
    return keras.Model([a, b], layers.Dense(1)(y))


def self_attention(keras: Any, layers: Any) -> Any:
    x = layers.Input((T, 6))
    y = layers.Attention()([layers.Dense(4)(x), layers.Dense(4)(x), layers.Dense(4)(x)])
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))


def additive_attention(keras: Any, layers: Any) -> Any:
    x = layers.Input((T, 6))
    y = layers.AdditiveAttention()([layers.Dense(4)(x), layers.Dense(4)(x)])
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))


def multi_head(causal: bool = False, norm: bool = True) -> Make:
    def network(keras: Any, layers: Any) -> Any:
        x = layers.Input((T, 8))
        y = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=causal)
        y = layers.Add()([x, y])
        y = layers.LayerNormalization()(y) if norm else y
        return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))

    return network


def transformer(positions: str) -> Make:
    """Tokens, positions that are learned or of a formula, an encoder block."""

    def network(keras: Any, layers: Any) -> Any:
        x = layers.Input((T,), dtype="int32")
        y = layers.Embedding(20, 8)(x)
        if positions == "learned":

            class Positions(layers.Layer):  # type: ignore[misc]
                def build(self, shape: Any) -> None:
                    self.table = self.add_weight(
                        shape=(T, 8), initializer="random_uniform", name="positions"
                    )

                def call(self, x: Any) -> Any:
                    return x + self.table

            y = Positions()(y)
        elif positions == "embedding":

            class Table(layers.Layer):  # type: ignore[misc]
                def __init__(self) -> None:
                    super().__init__()
                    self.table = layers.Embedding(T, 8)

                def call(self, x: Any) -> Any:
                    import tensorflow as tf

                    return x + self.table(tf.range(T))

            y = Table()(y)
        else:
            angle = np.arange(T)[:, None] / 10000 ** (np.arange(4) / 4)
            table = np.float32(np.concatenate([np.sin(angle), np.cos(angle)], 1))
            y = layers.Lambda(lambda v: v + table)(y)
        z = layers.MultiHeadAttention(2, 4)(y, y)
        y = layers.LayerNormalization()(layers.Add()([y, z]))
        z = layers.Dense(8)(layers.Dense(16, activation="gelu")(y))
        y = layers.LayerNormalization()(layers.Add()([y, z]))
        return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))

    return network


def class_token(keras: Any, layers: Any) -> Any:
    """A small ViT: patches, a class token that starts at 0, learned positions."""
    import tensorflow as tf

    x = layers.Input((8, 8, 3))
    y = layers.Reshape((4, 8))(layers.Conv2D(8, 4, strides=4)(x))

    class Tokens(layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.token = self.add_weight(shape=(1, 1, 8), initializer="zeros", name="token")
            self.table = self.add_weight(
                shape=(1, 5, 8), initializer="random_normal", name="positions"
            )

        def call(self, x: Any) -> Any:
            token = tf.tile(self.token, [tf.shape(x)[0], 1, 1])
            return tf.concat([token, x], 1) + self.table

    y = Tokens()(y)
    y = layers.Add()([y, layers.MultiHeadAttention(2, 4)(y, y)])
    return keras.Model(x, layers.Dense(2)(layers.Lambda(lambda v: v[:, 0])(y)))


def tied(keras: Any, layers: Any) -> Any:
    """An autoencoder whose decoder has the transposed matrix of the encoder."""
    import tensorflow as tf

    x = layers.Input((6,))
    encoder = layers.Dense(3)

    class Decoder(layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.bias = self.add_weight(shape=(6,), initializer="zeros", name="bias")

        def call(self, x: Any) -> Any:
            return tf.matmul(x, encoder.kernel, transpose_b=True) + self.bias

    return keras.Model(x, Decoder()(layers.Activation("tanh")(encoder(x))))


def shared_layer(keras: Any, layers: Any) -> Any:
    x = layers.Input((6,))
    block = layers.Dense(6, activation="tanh")
    return keras.Model(x, layers.Dense(2)(block(block(block(x)))))


def residual(keras: Any, layers: Any) -> Any:
    x = layers.Input((8, 8, 3))
    y = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    z = layers.Conv2D(4, 3, padding="same")(
        layers.Conv2D(4, 3, padding="same", activation="relu")(y)
    )
    y = layers.ReLU()(layers.Add()([y, z]))
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling2D()(y)))


def padded_shortcut(keras: Any, layers: Any) -> Any:
    """A ResNet for CIFAR whose shortcut gets zeros for the new channels."""
    x = layers.Input((8, 8, 3))
    y = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    z = layers.Conv2D(8, 3, padding="same")(y)

    class Zeros(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            import tensorflow as tf

            return tf.concat([x, tf.zeros_like(x)], -1)

    y = layers.ReLU()(layers.Add()([Zeros()(y), z]))
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling2D()(y)))


def squeeze_excite(keras: Any, layers: Any) -> Any:
    x = layers.Input((8, 8, 3))
    y = layers.Conv2D(8, 3, activation="relu")(x)
    s = layers.GlobalAveragePooling2D(keepdims=True)(y)
    s = layers.Conv2D(8, 1, activation="sigmoid")(layers.Conv2D(2, 1, activation="relu")(s))
    y = layers.Multiply()([y, s])
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling2D()(y)))


def unet(keras: Any, layers: Any) -> Any:
    x = layers.Input((8, 8, 3))
    a = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
    c = layers.Conv2DTranspose(4, 2, strides=2)(b)
    y = layers.Concatenate()([a, c])
    return keras.Model(x, layers.Conv2D(1, 1)(y))


def detector(keras: Any, layers: Any) -> Any:
    """A head whose boxes are decoded from squashed outputs by a grid and anchors, as in YOLOv5."""
    x = layers.Input((8, 8, 3))
    y = layers.Conv2D(4, 3, strides=2, padding="same", activation="relu")(x)
    y = layers.Reshape((4, 4, 2, 5))(layers.Conv2D(10, 1)(y))
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), -1)[None, :, :, None]
    grid = np.tile(grid, (1, 1, 1, 2, 1)).astype(np.float32)
    anchors = np.array([[[[[10, 13], [16, 30]]]]], np.float32) / 8

    class Decode(layers.Layer):  # type: ignore[misc]
        def call(self, y: Any) -> Any:
            import tensorflow as tf

            y = tf.sigmoid(y)
            xy = (y[..., 0:2] * 2 - 0.5 + grid) * 0.25
            wh = (y[..., 2:4] * 2) ** 2 * anchors
            return tf.reshape(tf.concat([xy, wh, y[..., 4:]], -1), (-1, 32, 5))

    return keras.Model(x, Decode()(y))


def rotary(keras: Any, layers: Any) -> Any:
    import tensorflow as tf

    x = layers.Input((T, 8))
    angle = np.arange(T)[:, None] / 100 ** (np.arange(4) / 4)
    cos, sin = (np.float32(np.concatenate([f(angle)] * 2, 1)) for f in (np.cos, np.sin))

    class Rotate(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            a, b = tf.split(x, 2, -1)
            return x * cos + tf.concat([-b, a], -1) * sin

    q, k = Rotate()(layers.Dense(8)(x)), Rotate()(layers.Dense(8)(x))
    y = layers.Attention()([q, layers.Dense(8)(x), k])
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))


def masked_weights(keras: Any, layers: Any) -> Any:
    """Kernels that are multiplied with masks of 0 and 1, as pruning wrappers do."""
    import tensorflow as tf

    x = layers.Input((6,))
    mask = np.float32(np.random.default_rng(3).random((6, 8)) < 0.5)

    class Pruned(layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight(shape=(6, 8), name="kernel")

        def call(self, x: Any) -> Any:
            return tf.matmul(x, self.kernel * mask)

    return keras.Model(x, layers.Dense(2)(layers.Activation("relu")(Pruned()(x))))


def learned_state(keras: Any, layers: Any) -> Any:
    """A GRU whose first state is a weight."""
    import tensorflow as tf

    x = layers.Input((T, F))

    class State(layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.state = self.add_weight(shape=(1, U), initializer="random_normal", name="state")

        def call(self, x: Any) -> Any:
            return tf.tile(self.state, [tf.shape(x)[0], 1])

    y = layers.GRU(U)(x, initial_state=State()(x))
    return keras.Model(x, layers.Dense(2)(y))


def scale_layer(keras: Any, layers: Any) -> Any:
    x = layers.Input((8, 8, 3))

    class Scale(layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(4,), initializer="ones", name="scale")
            self.shift = self.add_weight(shape=(4,), initializer="zeros", name="shift")

        def call(self, x: Any) -> Any:
            return x * self.scale + self.shift

    y = layers.Conv2D(4, 3, activation="relu")(x)
    y = layers.Conv2D(4, 3, activation="relu")(Scale()(y))
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling2D()(y)))


def multiple_outputs(keras: Any, layers: Any) -> Any:
    x = layers.Input((6,))
    y = layers.Dense(8, activation="relu")(x)
    return keras.Model(x, [layers.Dense(2)(y), layers.Dense(3)(y)])


NETWORKS: dict[str, Make] = {
    "simple-rnn": recurrent("SimpleRNN"),
    "simple-rnn-sequences": recurrent("SimpleRNN", return_sequences=True),
    "simple-rnn-backwards": recurrent("SimpleRNN", go_backwards=True),
    "simple-rnn-unrolled": recurrent("SimpleRNN", unroll=True),
    "simple-rnn-without-bias": recurrent("SimpleRNN", use_bias=False),
    "gru": recurrent("GRU"),
    "gru-sequences": recurrent("GRU", return_sequences=True),
    "gru-backwards": recurrent("GRU", go_backwards=True),
    "gru-unrolled": recurrent("GRU", unroll=True),
    "gru-reset-before": recurrent("GRU", reset_after=False),
    "lstm": recurrent("LSTM"),
    "lstm-sequences": recurrent("LSTM", return_sequences=True),
    "lstm-backwards": recurrent("LSTM", go_backwards=True),
    "lstm-unrolled": recurrent("LSTM", unroll=True),
    "lstm-unrolled-sequences": recurrent("LSTM", unroll=True, return_sequences=True),
    "lstm-without-bias": recurrent("LSTM", use_bias=False),
    "lstm-last-layer": recurrent("LSTM", head=False),
    "lstm-stacked": stacked("LSTM"),
    "gru-stacked": stacked("GRU"),
    "lstm-masked": masked("LSTM"),
    "gru-masked": masked("GRU"),
    "bidirectional-rnn": bidirectional("SimpleRNN", "concat"),
    "bidirectional-lstm": bidirectional("LSTM", "concat"),
    "bidirectional-lstm-sum": bidirectional("LSTM", "sum"),
    "bidirectional-lstm-average": bidirectional("LSTM", "ave", return_sequences=True),
    "bidirectional-lstm-product": bidirectional("LSTM", "mul"),
    "bidirectional-gru": bidirectional("GRU", "concat"),
    "bidirectional-gru-sum": bidirectional("GRU", "sum"),
    "bidirectional-gru-unrolled": bidirectional("GRU", "concat", unroll=True),
    "encoder-decoder": encoder_decoder,
    "learned-first-state": learned_state,
    "conv-lstm-1d": conv_lstm(1),
    "conv-lstm-2d": conv_lstm(2),
    "conv-lstm-2d-sequences": conv_lstm(2, return_sequences=True),
    "dense": sequential((6,), dense(8, activation="relu"), dense()),
    "dense-without-bias": sequential((6,), dense(8, use_bias=False), relu, dense()),
    "two-outputs": multiple_outputs,
    "conv2d": images(conv(activation="relu"), conv()),
    "conv2d-without-bias": images(conv(use_bias=False), relu, conv(use_bias=False)),
    "conv2d-dilated": images(conv(dilation_rate=2, activation="relu")),
    "conv2d-transpose": images(
        lambda layers: layers.Conv2DTranspose(4, 3, strides=2, activation="relu")
    ),
    "depthwise": images(lambda layers: layers.DepthwiseConv2D(3, depth_multiplier=2), relu),
    "separable": images(lambda layers: layers.SeparableConv2D(4, 3), relu),
    "conv1d": sequential(
        (9, 3),
        lambda layers: layers.Conv1D(4, 3, padding="causal", activation="relu"),
        lambda layers: layers.Conv1D(4, 3, dilation_rate=2, padding="causal"),
        lambda layers: layers.GlobalMaxPooling1D(),
        dense(),
    ),
    "conv1d-transpose": sequential(
        (9, 3),
        lambda layers: layers.Conv1DTranspose(4, 3, strides=2, activation="relu"),
        lambda layers: layers.GlobalAveragePooling1D(),
        dense(),
    ),
    "conv3d": sequential(
        (4, 5, 5, 2),
        lambda layers: layers.Conv3D(3, 3, activation="relu"),
        lambda layers: layers.GlobalAveragePooling3D(),
        dense(),
    ),
    "prelu": images(conv(), lambda layers: layers.PReLU(shared_axes=[1, 2]), conv()),
    "leaky-relu-elu": sequential(
        (6,), dense(8), lambda layers: layers.LeakyReLU(0.2), dense(8, activation="elu"), dense()
    ),
    "swish-softplus": sequential(
        (6,), dense(8, activation="swish"), dense(8, activation="softplus"), dense()
    ),
    "batch-norm-folded": normalized(lambda layers: layers.BatchNormalization()),
    "batch-norm-of-inputs": sequential(
        (6,), lambda layers: layers.BatchNormalization(), dense(5, activation="relu"), dense()
    ),
    "layer-norm": norm_vector(lambda layers: layers.LayerNormalization()),
    "layer-norm-images": normalized(lambda layers: layers.LayerNormalization(axis=[1, 2, 3])),
    "group-norm": normalized(lambda layers: layers.GroupNormalization(2)),
    "unit-norm": norm_vector(lambda layers: layers.UnitNormalization()),
    "rms-norm": norm_vector(lambda layers: layers.RMSNormalization()),
    "normalization": preprocessing(normalization),
    "normalization-images": preprocessing(image_normalization, (8, 8, 3)),
    "normalization-of-outputs": inverted,
    "rescaling": preprocessing(
        lambda layers: layers.Rescaling(2.0, offset=[-1.0, -0.5, 0.25]), (8, 8, 3)
    ),
    "stft": stft_front_end,
    "dft-matrices": dft_front_end,
    "mel-spectrogram": mel_layer,
    "two-towers": two_towers,
    "siamese": siamese,
    "recommender": recommender,
    "attention": self_attention,
    "additive-attention": additive_attention,
    "multi-head-attention": multi_head(),
    "multi-head-attention-causal": multi_head(causal=True, norm=False),
    "transformer-learned-positions": transformer("learned"),
    "transformer-embedded-positions": transformer("embedding"),
    "transformer-sinusoidal-positions": transformer("sinusoidal"),
    "class-token": class_token,
    "rotary": rotary,
    "tied-weights": tied,
    "shared-layer": shared_layer,
    "residual": residual,
    "padded-shortcut": padded_shortcut,
    "squeeze-and-excitation": squeeze_excite,
    "unet": unet,
    "detector": detector,
    "masked-weights": masked_weights,
    "scale": scale_layer,
}


OPEN_BATCH = (
    *(name for name in NETWORKS if "rnn" in name or "lstm" in name or "gru" in name),
    "dense",
    "conv2d",
    "group-norm",
    "class-token",
    "multi-head-attention",
    "rotary",
    "detector",
    "mel-spectrogram",
)
NAMES = (*NETWORKS, *(f"{name}{OPEN}" for name in OPEN_BATCH))


def batches(model: Any, rng: np.random.Generator, count: int) -> Iterator[Any]:
    """Yields random values for each input of a model."""
    for x in model.inputs:
        shape = (count, *x.shape[1:])
        if "int" in str(x.dtype):
            yield rng.integers(0, 20, shape).astype(np.int32)
        else:
            yield np.float32(rng.normal(size=shape))


def convert(model: Any, tf: Any, *, open_batch: bool) -> bytes:
    """Converts a model to TFLite, with one sample in its shapes.

    Args:
        model: the model.
        tf: TensorFlow.
        open_batch: whether the file leaves the batch open, as the converter does by itself. The
            loops of recurrent layers then keep TensorFlow's lists of tensors (SELECT_TF_OPS).
    """
    if open_batch:
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        builtins = tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS
        converter.target_spec.supported_ops = builtins
        converter._experimental_lower_tensor_list_ops = False
    else:
        from tensorflow.python.framework import convert_to_constants

        specs = [tf.TensorSpec((1, *x.shape[1:]), x.dtype) for x in model.inputs]
        call = tf.function(lambda *x: model(x[0] if len(x) == 1 else list(x), training=False))
        frozen = convert_to_constants.convert_variables_to_constants_v2(
            call.get_concrete_function(*specs)
        )
        converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    content: bytes = converter.convert()
    return content


def as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


def write(name: str, folder: Path) -> None:
    """Writes the files of one network, one of NAMES."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(7)
    model = NETWORKS[name.removesuffix(OPEN)](keras, keras.layers)
    rng = np.random.default_rng(11)
    for variable in model.trainable_variables:
        variable.assign(variable + rng.normal(0, SPREAD, variable.shape))
    (folder / f"{name}.tflite").write_bytes(convert(model, tf, open_batch=name.endswith(OPEN)))

    def call(xs: list[Any]) -> list[Any]:
        return as_list(model(xs[0] if len(xs) == 1 else xs, training=False))

    samples = list(batches(model, rng, SAMPLES))
    arrays = {f"sample{k}": x for k, x in enumerate(samples)}
    arrays |= {f"before{k}": y.numpy() for k, y in enumerate(call(samples))}
    for step in range(STEPS):
        xs = list(batches(model, rng, BATCH))
        arrays |= {f"x{step}_{k}": x for k, x in enumerate(xs)}
        with tf.GradientTape() as tape:
            ys = call(xs)
            targets = [np.float32(rng.normal(size=y.shape)) for y in ys]
            loss = sum(tf.reduce_mean((y - t) ** 2) for y, t in zip(ys, targets, strict=True))
        arrays |= {f"t{step}_{k}": t for k, t in enumerate(targets)}
        gradients = tape.gradient(loss, model.trainable_variables)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.assign(variable - RATE * tf.convert_to_tensor(gradient))
    arrays |= {f"after{k}": y.numpy() for k, y in enumerate(call(samples))}
    np.savez(folder / f"{name}.npz", **arrays)


def main(folder: str, *names: str) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        write(name, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
