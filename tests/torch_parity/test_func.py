"""Programs of function transforms, run through torch.func and ndgrad.func: values, structures, dtypes and kinds of error agree.

After each, no level, mode or backward pass is left behind, whatever the program provoked.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import ndgrad
from ndgrad._src.core.modes import process, thread
from tests.torch_parity.differences import deliberate
from tests.torch_parity.func_programs import compositions, forward, mapping, networks, reverse, writes
from tests.torch_parity.func_programs.dialect import PROGRAMS, Program, attempt, draw, draw_complex, vector
from tests.torch_parity.programs.sameness import same


@pytest.fixture(autouse=True)
def float64_torch() -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_default_dtype(before)


def state() -> tuple[Any, ...]:
    """All that an open transform changes."""
    return (
        thread.levels, thread.dual_levels, thread.dual_stack, thread.transforms, thread.grad_enabled, thread.forward_grad_enabled,
        thread.task, thread.in_custom_forward, thread.saved_hooks, len(process.busy),
    )  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program_gives_the_same_with_ndgrad_as_with_torch(program: Program) -> None:
    expected = program(torch, torch.func)
    before = state()
    found = program(ndgrad, ndgrad.func)
    assert state() == before
    same(expected, found)


def test_every_file_of_programs_is_run() -> None:
    assert {f.__module__ for f in PROGRAMS} == {m.__name__ for m in (compositions, forward, mapping, networks, reverse, writes)}
    assert len({f.__name__ for f in PROGRAMS}) == len(PROGRAMS) >= 160


# ----- programs that only ndgrad runs ----------------------------------------------------------------------------------------------


def list_refused_calls(m: Any, f: Any) -> dict[str, Any]:
    """Calls that torch.func refuses, or that it answers wrongly, as functions without arguments."""
    x, y, z, batch, w = vector(m), vector(m, 1), draw_complex(m, 0, 2), draw(m, 0, 5, 3), vector(m, 2).requires_grad_()

    def write_mask(x: Any) -> Any:
        out = x.clone()
        out[x > 0] = 2.0
        return out * x

    def count(x: Any) -> Any:
        calls.add_(1)
        return (x * calls).sum()

    def written_and_differentiated(x: Any) -> Any:
        y = x.detach().clone().requires_grad_()
        z = y * x
        z.mul_(2)
        return m.autograd.grad((z * z).sum(), [x, y])

    calls = m.zeros(())
    return {
        "aux": lambda: f.grad(lambda x: (x.sum(), {"text": "a", "none": None}), has_aux=True)(x)[1],
        "aux of jvp": lambda: f.jvp(lambda x: (x.sum(), 7), (x,), (y,), has_aux=True)[2],
        "keywords": lambda: [j(lambda x, k: x * k)(x, k=2.0) for j in (f.jacrev, f.jacfwd)],
        "in_dims": lambda: f.vmap(lambda a, b: (a * b).sum(), in_dims=[0, 1])(batch, batch.t()),
        "unbatched": lambda: f.vmap(lambda x: m.arange(3.0), out_dims=1)(batch),
        "chunks": lambda: f.vmap(lambda x: (x * 2, y), out_dims=(0, None), chunk_size=2)(batch),
        "complex": lambda: f.jacfwd(lambda z: z * z)(z),
        "empty": lambda: f.jacfwd(lambda x: x.sum() + m.ones(2))(m.zeros(0)),
        "negative": lambda: f.jacfwd(lambda a, b: a * b, argnums=-1)(x, y),
        "outer graph": lambda: f.grad(lambda x: (m.autograd.grad((w**3).sum(), w)[0] * x).sum())(x),
        "mask": lambda: f.vmap(write_mask)(batch),
        "counter": lambda: f.grad(count)(x),
        "gradient of values": lambda: f.functionalize(written_and_differentiated)(w),
    }


def test_what_torch_refuses() -> None:
    deliberate("transforms-beyond")
    theirs = {name: attempt(call) for name, call in list_refused_calls(torch, torch.func).items()}
    for name, found in theirs.items():
        assert isinstance(found, Exception) or (name == "negative" and not found.any()), name
    ours = {name: call() for name, call in list_refused_calls(ndgrad, ndgrad.func).items()}
    x, y, z, batch, w = vector(torch), vector(torch, 1), draw_complex(torch, 0, 2), draw(torch, 0, 5, 3), vector(torch, 2)
    expected = {
        "aux": {"text": "a", "none": None},
        "aux of jvp": 7,
        "keywords": [2 * torch.eye(3)] * 2,
        "in_dims": (batch * batch).sum(1),
        "unbatched": torch.arange(3.0)[:, None].expand(3, 5),
        "chunks": (batch * 2, y),
        "complex": torch.diag(2 * z),
        "empty": torch.zeros(2, 0),
        "negative": torch.diag(x),
        "outer graph": 3 * w**2,
        "mask": torch.where(batch > 0, 2.0, batch) * batch,
        "counter": torch.ones(3),
        "gradient of values": (8 * w**3, 8 * w**3),
    }
    same(expected, ours)


def test_a_tensor_of_one_vmap_is_none_of_the_next() -> None:
    deliberate("escaped-tensors")

    def keep_and_use(m: Any) -> Any:
        kept: list[Any] = []
        m.func.vmap(lambda x: (kept.append(x), x)[1])(draw(m, 0, 2, 3))
        return m.func.vmap(lambda x: x + kept[0])(draw(m, 1, 2, 3))

    def keep_and_use_in_grad(m: Any) -> Any:
        kept: list[Any] = []
        m.func.grad(lambda x: (kept.append(x * 2), x.sum())[1])(draw(m, 0, 3))
        return m.func.grad(lambda x: (x * kept[0]).sum())(draw(m, 1, 3))

    for program, shape in ((keep_and_use, (2, 3)), (keep_and_use_in_grad, (3,))):
        assert program(torch).shape == shape
        with pytest.raises(RuntimeError, match="after the transform had ended"):
            program(ndgrad)
