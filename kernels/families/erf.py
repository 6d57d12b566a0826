"""The error function erf, which NumPy does not have.

Rational approximations: erf x = x R(x²) near 0, else erf x = 1 − exp(−x²) S(x), with an error of
about 1e-15. Source: the coefficients of W. J. Cody, "Rational Chebyshev approximations for the
error function", Mathematics of Computation 23 (1969).
"""

from collections.abc import Sequence

import numpy as np

from odt.kernels.rows.opdef import Array

NEAR = 0.46875  # largest |x| for which erf x is x R(x²)
FAR = 6.0  # erf x is 1 for x ≥ 6 in double precision
NEAR_TOP = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
NEAR_BOTTOM = (
    1.0,
    2.36012909523441209e1,
    2.44024637934444173e2,
    1.28261652607737228e3,
    2.84423683343917062e3,
)
FAR_TOP = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
FAR_BOTTOM = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)


def polynomial(x: Array, coefficients: Sequence[float], out: Array) -> None:
    """Evaluates a polynomial by Horner's scheme; coefficients begin with the highest power."""
    out.fill(coefficients[0])
    for c in coefficients[1:]:
        np.multiply(out, x, out=out)
        np.add(out, c, out=out)


def erf(x: Array, out: Array, u: Array, v: Array, mask: Array) -> None:
    """Computes out = erf(x); u, v and mask (bool) are scratch, and x must not be out."""
    # 1 − exp(−x²) S(|x|), with the sign of x
    np.absolute(x, out=u)
    np.minimum(u, FAR, out=u)
    polynomial(u, FAR_TOP, out)
    polynomial(u, FAR_BOTTOM, v)
    np.divide(out, v, out=out)
    np.multiply(u, u, out=u)
    np.negative(u, out=u)
    np.exp(u, out=v)
    np.multiply(out, v, out=out)
    np.subtract(1, out, out=out)
    np.copysign(out, x, out=out)

    # x R(x²) near 0, where u is x²
    np.negative(u, out=u)
    np.less_equal(u, NEAR**2, out=mask)
    np.minimum(u, NEAR**2, out=u)
    polynomial(u, NEAR_TOP, v)
    np.multiply(v, x, out=out, where=mask)
    polynomial(u, NEAR_BOTTOM, v)
    np.divide(out, v, out=out, where=mask)
