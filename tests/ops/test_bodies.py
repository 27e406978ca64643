"""The body of a composite op equals its forward function, in every floating dtype and for every sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad._src.ops.composite import composite
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, table
from ndgrad._src.ops.vocabulary import load_all, raw_ops
from tests.op_programs import SAMPLES

load_all()
COMPOSITES = sorted(name for name, op in table.items() if op.body is not None)
#: Tolerance relative to the largest element, for results of a few ops in sequence.
TOLERANCES = {np.float64: 1e-13, np.float32: 3e-6, np.float16: 4e-3}


def cast_to(x: Any, dtype: type) -> Any:
    return x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


@pytest.mark.parametrize("dtype", TOLERANCES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", COMPOSITES)
def test_body_equals_the_forward_function(name: str, dtype: type) -> None:
    op, compared = table[name], 0
    for sample in SAMPLES[name]:
        arrays = [cast_to(np.asarray(a.numpy()) if hasattr(a, "numpy") else a, dtype) for a in sample.args]
        if any(np.iscomplexobj(a) for a in arrays) or not arrays[0].size:
            continue
        settings = {**op.settings, **sample.settings}
        # Bodies receive half precision as single precision.
        wide = [cast_to(a, np.float32) if dtype is np.float16 else a for a in arrays]
        with np.errstate(all="ignore"):
            expected = op.forward_for(np)(*arrays, **settings)
            found = op.body(raw_ops(np), wide, settings)
        for e, f in zip(*(r if isinstance(r, tuple) else (r,) for r in (expected, found)), strict=True):
            e, f = np.asarray(e, np.float64), np.asarray(f, np.float64)
            scale = np.abs(e[np.isfinite(e)]).max(initial=1.0)
            np.testing.assert_allclose(f, e, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * scale)
        compared += 1
    assert compared


def test_a_body_takes_arguments_then_settings_then_ops() -> None:
    with pytest.raises(TypeError, match="then settings of the op, then ops"):
        composite("nonsense", "x y", lambda y, x, ops: x, vjp=NOT_DIFFERENTIABLE, batch="leading")
    assert "nonsense" not in table
