"""`vectorize` for plain arrays and Arrays alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.numpy.coercion import holds_tensors
from ndgrad.numpy.functional import vectorize as differentiable


class vectorize(np.vectorize):
    """Same as numpy.vectorize; with Arrays among the arguments, ndgrad.numpy's."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if holds_tensors((*args, *kwargs.values())):
            return differentiable(self.pyfunc, self.otypes, None, self.excluded, False, self.signature)(*args, **kwargs)
        return super().__call__(*args, **kwargs)
