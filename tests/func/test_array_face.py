"""Transforms keep NumPy's face: what is given as Arrays comes back as Arrays, and so do values inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ndgrad.numpy as np
from ndgrad import func
from ndgrad.numpy import Array

X = np.array([1.0, 2.0, 3.0])


def loss(x: Any) -> Any:
    return (x * x).sum()


RESULTS: dict[str, Callable[[], Any]] = {
    "vjp value": lambda: func.vjp(loss, X)[0],
    "vjp": lambda: func.vjp(loss, X)[1](np.array(1.0))[0],
    "jvp value": lambda: func.jvp(loss, (X,), (X,))[0],
    "jvp": lambda: func.jvp(loss, (X,), (X,))[1],
    "grad": lambda: func.grad(loss)(X),
    "value": lambda: func.grad_and_value(loss)(X)[1],
    "aux": lambda: func.grad(lambda x: (loss(x), x * 2), has_aux=True)(X)[1],
    "hessian": lambda: func.hessian(loss)(X),
    "jacrev": lambda: func.jacrev(lambda x: x * x)(X),
    "jacfwd": lambda: func.jacfwd(lambda x: x * x)(X),
    "vmap": lambda: func.vmap(lambda x: x * 2)(X),
}


@pytest.mark.parametrize("name", RESULTS)
def test_result_is_an_array(name: str) -> None:
    assert type(RESULTS[name]()) is Array


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: func.grad(f)(X),
    "grad of grad": lambda f: func.grad(lambda x: func.grad(f)(x).sum())(X),
    "vmap of grad": lambda f: func.vmap(func.grad(f))(np.stack([X, X])),
    "jvp of grad": lambda f: func.jvp(func.grad(f), (X,), (X,)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_inside_are_arrays(name: str) -> None:
    seen: dict[str, Any] = {}

    def watched(x: Any) -> Any:
        seen.update(detach=x.detach(), greater=x > 0, argmax=np.argmax(x), sign=np.sign(x), zeros=np.zeros_like(x), argsort=np.argsort(x))
        return loss(x)

    TRANSFORMS[name](watched)
    assert {n: type(v) for n, v in seen.items()} == dict.fromkeys(seen, Array)
