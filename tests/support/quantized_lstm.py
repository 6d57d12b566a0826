"""Files of one quantized LSTM."""

from pathlib import Path
from typing import Any

from support.integer_files import QuantizedBuilder

STEPS, WIDTH, UNITS = 9, 7, 12
STATE = (1 / 140, 5)  # scale and zero point of the output
HIDDEN = (1 / 130, -7)  # and of what the projection reads


def lstm(
    b: QuantizedBuilder,
    coupled: bool = False,
    time_major: bool = False,
    cell_clip: float = 0.0,
    cell_scale: float = 2**-11,
    state: tuple[float, int] = STATE,
    projection: int = 0,
    hidden: tuple[float, int] = HIDDEN,
    peepholes: bool = False,
    proj_bias: bool = False,
    samples: int = 1,
) -> int:
    """Adds a quantized LSTM with a projection to some outputs, or without; returns its output."""
    out = projection or UNITS
    gates = "fgo" if coupled else "ifgo"
    x = b.activation((STEPS, samples, WIDTH) if time_major else (1, STEPS, WIDTH), 0.03, -9)
    scales = {"i": 0.009, "f": 0.012, "g": 0.008, "o": 0.011}
    none = dict.fromkeys("ifgo", -1)
    w, r, bias = dict(none), dict(none), dict(none)
    for g in gates:
        w[g] = b.weights((UNITS, WIDTH), [scales[g]])
        r[g] = b.weights((UNITS, out), [scales[g] / 2])
        bias[g] = b.bias(UNITS, [0.03 * scales[g]], most=3000)
    p = dict.fromkeys("ifo", -1)
    if peepholes:
        p |= {g: b.weights((UNITS,), [1e-4], dtype="int16") for g in gates if g != "g"}
    h, c = b.add_tensor((1, out), "int8"), b.add_tensor((1, UNITS), "int16")
    b.quantize(h, [state[0]], [state[1]])
    b.quantize(c, [cell_scale], [0])
    for i in (h, c):
        b.graph.tensors[i].is_variable = True
    wp = b.weights((out, UNITS), [0.004]) if projection else -1
    bp = b.bias(out, [0.004 * hidden[0]]) if proj_bias else -1
    ends = [wp, bp, h, c, *[-1] * 4]
    inputs = [x, *w.values(), *r.values(), *p.values(), *bias.values(), *ends]
    shape = (STEPS, samples, out) if time_major else (1, STEPS, out)
    y = b.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        shape,
        *STATE,
        fused_activation_function=4,
        cell_clip=cell_clip,
        proj_clip=0.0,
        time_major=time_major,
    )
    e = b.add_tensor((0,), "int8")
    scale, zero = hidden if projection else STATE
    b.quantize(e, [scale], [zero])
    b.graph.operators[-1].intermediates = [*(b.add_tensor((0,)) for _ in range(4)), e]
    return y


def build(path: Path, **options: Any) -> Path:
    b = QuantizedBuilder(1)
    b.write(path, lstm(b, **options))
    return path
