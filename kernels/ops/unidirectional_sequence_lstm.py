"""UNIDIRECTIONAL_SEQUENCE_LSTM: long short-term memory over time; y is the output at each step.

x (N, T, I), or (T, N, I) if time_major    y (N, T, P)    weights: kernels/families/lstm.py

Peepholes, a projection and a coupled input gate are used if their weights are present; the fused
activation is the activation of the cell.
Source: UnidirectionalSequenceLSTMOptions in the TFLite schema.
"""

from collections.abc import Mapping

from odt.kernels.families.lstm import lstm_attrs
from odt.kernels.families.lstm_gradients import lstm_row
from odt.kernels.geometry.recurrent_geometry import LstmAttrs
from odt.kernels.rows.opdef import Array, Options
from odt.kernels.rows.quantizeddef import Layer, QuantizedDef


def attrs(options: Options, statics: Mapping[str, Array]) -> LstmAttrs:
    return lstm_attrs(options, 0 if options.get("time_major", False) else 1)


OP = lstm_row(
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    attrs,
    quantized=QuantizedDef(
        layers=tuple(Layer(x=0, w=k, b=k + 11, axis=0) for k in range(1, 5)),
        absent={
            17: "a bias of the projection",
            **dict.fromkeys(range(20, 24), "layer normalization"),
        },
    ),
)
