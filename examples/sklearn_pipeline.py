"""scikit-learn's estimators, differentiated in their data.

With array_api_dispatch, the estimators that support the array API standard compute with the given arrays. The learned
parameters are then a differentiable function of the data. SciPy reads its own switch when it is imported,
hence the first lines. Metrics end in `float(...)`, which would leave the graph, so they are lifted.
"""

from __future__ import annotations

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")

from typing import Any

import numpy as np
import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error
from sklearn.preprocessing import MinMaxScaler

import ndgrad
import ndgrad.numpy as dnp


def influence(X: Any, y: Any) -> Any:
    """Return the prediction of the model for one point, plus its error on the rest."""
    scaled = MinMaxScaler().fit_transform(X)
    reduced = PCA(n_components=2, svd_solver="full").fit_transform(scaled)
    model = Ridge(alpha=0.5, solver="svd").fit(reduced, y)
    predicted = model.predict(reduced)
    return predicted[0] + ndgrad.lift(mean_squared_error)(y, predicted)


def main() -> float:
    """Return the largest deviation from central differences."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 4)) * np.array([1.0, 3.0, 0.5, 2.0])
    y = X @ np.array([1.0, -0.5, 2.0, 0.3]) + 0.1 * rng.standard_normal(12)
    with sklearn.config_context(array_api_dispatch=True):
        data, target = dnp.array(X).requires_grad_(), dnp.array(y).requires_grad_()
        influence(data, target).backward()
        along_x, along_y, h = rng.standard_normal(X.shape), rng.standard_normal(y.shape), 1e-5
        up, down = (influence(dnp.array(X + s * h * along_x), dnp.array(y + s * h * along_y)).item() for s in (1, -1))
    found = float((data.grad * along_x).sum() + (target.grad * along_y).sum())
    error = abs((up - down) / (2 * h) - found)
    most = int(np.argmax(np.abs(target.grad.numpy())))
    print(
        f"the prediction depends most on the target of point {most}; gradients differ from differences by {error:.1e}"
    )
    return error


if __name__ == "__main__":
    main()
