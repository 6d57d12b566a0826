"""Kernels of operators that change the shape only: views, without a copy."""

import numpy as np

from odt.kernels.rows.opdef import Array, Attrs, Kernel, always


def forward(attrs: Attrs, *, x: Array, y: Array) -> None:
    np.copyto(y, x.reshape(y.shape, copy=False))


def grad_x(attrs: Attrs, *, dy: Array, dx: Array) -> None:
    np.copyto(dx, dy.reshape(dx.shape, copy=False))


FORWARD = Kernel(forward, reads=("x",), writes=("y",), view=always)
GRAD_X = Kernel(grad_x, reads=("dy",), writes=("dx",), view=always)
