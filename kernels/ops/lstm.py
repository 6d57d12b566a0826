"""LSTM: one step of a long short-term memory with initial state 0.

x (N, I)    y (N, P)    weights and formulas: kernels/families/lstm.py

Only the kernel type FULL is supported; BASIC has other inputs. Source: LSTMOptions in the
TFLite schema.
"""

from collections.abc import Mapping

from odt.errors import ShapeError
from odt.kernels.families.lstm import lstm_attrs
from odt.kernels.families.lstm_gradients import lstm_row
from odt.kernels.geometry.recurrent_geometry import LstmAttrs
from odt.kernels.rows.opdef import Array, Options


def attrs(options: Options, statics: Mapping[str, Array]) -> LstmAttrs:
    if options.get("kernel_type", 0) != 0:
        raise ShapeError(f"kernel_type must be FULL (0), but got {options['kernel_type']} (BASIC)")
    return lstm_attrs(options, None)


OP = lstm_row("LSTM", attrs)
