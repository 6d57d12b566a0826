"""First weights for new classes of a classifier, from the features of samples.

The row of a new class c is a linear discriminant between it and the other classes:
w ∝ C⁻¹(μ_c − m), where μ_c is the mean of its features, m the mean of the means of all other
classes, and C the mean of the covariances within the classes. C is regularized:
(1 − ρ) C + ρ τ I, with τ the mean of its diagonal. The norm of w is the mean norm of the old rows,
and at the point (μ_c + m) / 2 the new class has the logit of the best old one. Old rows do not
change.

Sources: Fisher, The Use of Multiple Measurements in Taxonomic Problems (1936); Friedman,
Regularized Discriminant Analysis (1989), for ρ; Qi et al., Low-Shot Learning with Imprinted
Weights (2018), whose rows are those of C = I and m = 0.
"""

from collections.abc import Sequence

import numpy as np

from odt.kernels.rows.opdef import Array

REGULARIZATION = 0.2  # ρ
MAX_ROWS = 1000  # samples from which the covariance is estimated, which bound memory and time


def new_class_rows(weights: Array, bias: Array, features: Sequence[Array]) -> tuple[Array, Array]:
    """Returns weights (K, F) and bias (K,) with rows for new classes after the old ones.

    Args:
        weights: weights of the old classes (J, F), J < K.
        bias: bias of the old classes (J,).
        features: features of samples of each of the K classes (n, F); each new class has some.
    """
    old, width = weights.shape
    means = {k: x.mean(axis=0, dtype=np.float64) for k, x in enumerate(features) if len(x)}
    # A covariance needs two rows of a class, so that at most half as many classes as rows have one.
    several = [k for k, x in enumerate(features) if len(x) > 1][-MAX_ROWS // 2 :]
    most = MAX_ROWS // max(len(several), 1)
    spread = [
        (features[k][:most] - means[k]) / np.sqrt(min(len(features[k]), most) - 1) for k in several
    ]
    deviations = np.concatenate([np.empty((0, width)), *spread]) / np.sqrt(max(len(several), 1))
    norm = np.linalg.norm(weights, axis=1).mean()
    rows, offsets = [weights], [bias]
    for k in range(old, len(features)):
        others = [mean for j, mean in means.items() if j != k]
        middle = np.mean(others, axis=0) if others else np.zeros(width)
        direction = solve(deviations, means[k] - middle)
        row = direction * (norm / max(np.linalg.norm(direction), np.finfo(np.float64).tiny))
        between = (means[k] + middle) / 2
        rows.append(row[None])
        offsets.append(np.array([(weights @ between + bias).max() - row @ between]))
    return (
        np.concatenate(rows).astype(weights.dtype),
        np.concatenate(offsets).astype(weights.dtype),
    )


def solve(deviations: Array, vector: Array) -> Array:
    """Returns C⁻¹ v for the regularized covariance C = (1 − ρ) DᵀD + ρ τ I, up to a factor.

    By the Woodbury identity only a system of n equations is solved, not one of F.

    Args:
        deviations: D (n, F), with DᵀD the covariance.
        vector: v (F,).
    """
    total = np.square(deviations).sum()
    if not total:
        return vector
    ridge = REGULARIZATION / (1 - REGULARIZATION) * total / deviations.shape[1]
    gram = deviations @ deviations.T + ridge * np.eye(len(deviations))
    return np.asarray(vector - deviations.T @ np.linalg.solve(gram, deviations @ vector))
