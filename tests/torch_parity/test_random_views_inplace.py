"""Random programs of views and in-place writes, run step by step on torch and on ndgrad. The classic ones are in test_views_inplace.

After every step both sides must agree on values, gradients, versions, leaves, who is a view of whom, and on whether the step
raised and which class of error. A program ends at the first step that raises.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import at_least
from tests.torch_parity.side_by_side import MODULES, attempt, error_name

# ----- the state of a program, as both libraries tell it -----------------------------------------------------------------


def array(t: Any) -> Any:
    return None if t is None else np.asarray(t.detach().resolve_conj().numpy() if isinstance(t, torch.Tensor) else t.detach().numpy())


def grad_of(t: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return t.grad


def base_of(t: Any, pool: list[Any]) -> Any:
    if t._base is None:
        return None
    return next((i for i, other in enumerate(pool) if other is t._base), "elsewhere")


def is_blind(t: Any) -> bool:
    """Whether a torch tensor is a view that says requires_grad=True though no gradient flows through it."""
    return bool(t._is_view() and t.requires_grad and attempt(lambda: t.grad_fn) in (None, "RuntimeError"))


def describe(pool: list[Any], blind: set[int]) -> list[Any]:
    """Return the facts about each tensor; requires_grad of a blind one is left out."""
    return [
        {
            "shape": tuple(t.shape),
            "version": attempt(lambda t=t: t._version),
            "requires_grad": i in blind or attempt(lambda t=t: t.requires_grad),
            "is_leaf": attempt(lambda t=t: t.is_leaf),
            "is_inference": t.is_inference(),
            "is_view": t._is_view(),
            "base": base_of(t, pool),
            "grad_fn": attempt(lambda t=t: t.grad_fn is not None),
            "has_grad": attempt(lambda t=t: grad_of(t) is not None),
        }
        for i, t in enumerate(pool)
    ]


def same_state(theirs: list[Any], ours: list[Any], where: str) -> None:
    blind = {i for i, t in enumerate(theirs) if is_blind(t)}
    for i, (a, b) in enumerate(zip(describe(theirs, blind), describe(ours, blind), strict=True)):
        wrong = {name: f"torch {a[name]}, ndgrad {b[name]}" for name in a if a[name] != b[name]}
        assert not wrong, f"tensor {i}: {wrong} {where}"
    for i, (t, n) in enumerate(zip(theirs, ours, strict=True)):
        np.testing.assert_allclose(array(n), array(t), rtol=1e-8, atol=1e-8, err_msg=f"value of tensor {i} {where}")
        g, h = attempt(lambda t=t: grad_of(t)), attempt(lambda n=n: grad_of(n))
        if isinstance(g, torch.Tensor):
            np.testing.assert_allclose(array(h), array(g), rtol=1e-8, atol=1e-8, err_msg=f"gradient of tensor {i} {where}")


# ----- steps ---------------------------------------------------------------------------------------------------------------


def values(seed: int, shape: tuple[int, ...], complex_: bool = False) -> Any:
    draw = np.random.default_rng(seed)
    made = draw.uniform(0.5, 1.5, shape)
    return made + 1j * draw.uniform(0.5, 1.5, shape) if complex_ else made


def partner(pool: list[Any], t: Any, j: int) -> Any:
    """Some tensor of the pool that broadcasts with `t` to its shape, of its dtype; a number if there is none."""
    fitting = [
        p for p in pool if tuple(p.shape) in (tuple(t.shape), tuple(t.shape)[1:], ()) and str(p.dtype) == str(t.dtype) and not overlap(p, t)
    ]
    return fitting[j % len(fitting)] if fitting else t.detach().clone()


def overlap(a: Any, b: Any) -> bool:
    """Whether two tensors share memory without being the same (see the deliberate difference `overlapping-writes`)."""
    return np.shares_memory(array(a), array(b)) and (a.data_ptr(), a.shape, a.stride()) != (b.data_ptr(), b.shape, b.stride())


def make(m: Any, pool: list[Any], seeing: list[Any], kind: str, i: int, j: int) -> Any:
    shape = [(2, 3), (3,), (2, 2, 2), (3, 2), ()][i % 5]
    if kind == "complex leaf":
        return [m.tensor(values(j, shape, True), requires_grad=not m.is_inference_mode_enabled())]
    return [m.tensor(values(j, shape), requires_grad=kind == "leaf" and not m.is_inference_mode_enabled())]


def compute(m: Any, pool: list[Any], seeing: list[Any], kind: str, i: int, j: int) -> Any:
    t = seeing[i % len(seeing)]
    if t.is_inference() and not m.is_inference_mode_enabled():
        return []  # what torch's versions are then depends on how it copies
    if kind == "clone":
        return [t.clone()]
    if kind == "exp":
        return [t.exp()]
    if kind == "mul":
        return [t * partner(seeing, t, j)]
    if kind == "sin":
        return [t.sin()]
    return [t.detach()]


def view(m: Any, pool: list[Any], seeing: list[Any], kind: str, i: int, j: int) -> Any:
    t = seeing[i % len(seeing)]
    n = len(t.shape)
    if kind == "reshape":
        return [t.reshape(-1)]
    if kind == "view_as":
        return [t.view_as(t)]
    if kind == "real":
        return [m.view_as_real(t)] if t.is_complex() else []
    if n == 0:
        return [t.unsqueeze(0)] if kind in ("transpose", "unsqueeze") else [t.expand(2)] if kind == "expand" else []
    d = j % n
    if kind == "transpose":
        return [t.transpose(0, d)]
    if kind == "unsqueeze":
        return [t.unsqueeze(d)]
    if kind == "select":
        return [t.select(d, 0)] if t.shape[d] else []
    if kind == "item":
        return [t[j % max(1, t.shape[0])]] if t.shape[0] else []
    if kind == "slice":
        return [t[j % 2 :: 1 + j % 2]]
    if kind == "narrow":
        return [t.narrow(d, 0, max(1, t.shape[d] - 1))] if t.shape[d] else []
    if kind == "expand":
        return [t.unsqueeze(0).expand(2, *t.shape)] if n < 3 else []
    if kind == "diagonal":
        return [t.diagonal(0, 0, 1)] if n >= 2 else []
    if kind == "unbind":
        return list(t.unbind(d))[:2]
    return list(t.split(1, d))[:2]


def write(m: Any, pool: list[Any], seeing: list[Any], kind: str, i: int, j: int) -> Any:
    targets = seeing if kind in ("requires_grad_", "retain_grad") else pool
    t = targets[i % len(targets)]
    if 0 in t.stride() and kind not in ("mul_ number", "exp_"):
        return []  # memory that several elements share: torch refuses most writes, ndgrad all
    if kind == "mul_":
        t.mul_(partner(seeing, t, j))
    elif kind == "mul_ number":
        t.mul_(1.25)
    elif kind == "add_":
        t.add_(partner(seeing, t, j))
    elif kind == "copy_":
        t.copy_(partner(seeing, t, j))
    elif kind == "zero_":
        t.zero_()
    elif kind == "exp_":
        t.exp_()
    elif kind == "sin_":
        t.sin_()
    elif kind == "fill_":
        t.fill_(0.75)
    elif kind == "set item":
        key = (Ellipsis,) if not len(t.shape) else (0,) if j % 2 else (Ellipsis, 0)
        t[key] = partner(seeing, t[key], j)
    elif kind == "set slice":
        if len(t.shape):
            t[j % 2 :] = partner(seeing, t[j % 2 :], j)
    elif kind == "set mask":
        if not t.is_complex():
            t[t.detach() > 1.0] = 0.5
    elif kind == "requires_grad_":
        if not m.is_inference_mode_enabled():
            t.requires_grad_()
    else:
        t.retain_grad()
    return []


def real_sum(m: Any, t: Any) -> Any:
    return (m.view_as_real(t) if t.is_complex() else t).sum()


def differentiate(m: Any, pool: list[Any], seeing: list[Any], kind: str, i: int, j: int) -> Any:
    t = seeing[i % len(seeing)]
    loss = real_sum(m, t * t)
    if kind == "backward":
        loss.backward(retain_graph=bool(j % 2))
        return []
    source = seeing[j % len(seeing)]
    if kind == "grad":
        found = m.autograd.grad(loss, [source], allow_unused=True, retain_graph=True)
        return [g.detach().contiguous().clone() for g in found if g is not None]
    (first,) = m.autograd.grad(loss, [source], create_graph=True, allow_unused=True)
    if first is None or not first.requires_grad:
        return []
    found = m.autograd.grad(real_sum(m, first * first), [source], allow_unused=True, retain_graph=True)
    return [g.detach().contiguous().clone() for g in (first, *found) if g is not None]


STEPS = {
    make: ("leaf", "constant", "complex leaf"),
    compute: ("clone", "exp", "mul", "sin", "detach"),
    view: (
        "reshape", "view_as", "real", "transpose", "unsqueeze", "select", "item", "slice", "narrow", "expand", "diagonal", "unbind",
        "split",
    ),
    write: (
        "mul_", "mul_ number", "add_", "copy_", "zero_", "exp_", "sin_", "fill_", "set item", "set slice", "set mask", "requires_grad_",
        "retain_grad",
    ),
    differentiate: ("backward", "grad", "double"),
}  # fmt: skip
MODES = ("grad",) * 8 + ("no_grad", "inference_mode", "enable_grad in inference_mode")


@contextlib.contextmanager
def mode_of(m: Any, name: str) -> Any:
    with contextlib.ExitStack() as stack:
        if name == "no_grad":
            stack.enter_context(m.no_grad())
        elif "inference_mode" in name:
            stack.enter_context(m.inference_mode())
            if "enable_grad" in name:
                stack.enter_context(m.enable_grad())
        yield


def run_step(m: Any, pool: list[Any], blind: set[int], step: tuple[Any, ...]) -> str | None:
    """Run a step; the class of its error, if it raised. A blind view may be written, and nothing else."""
    family, kind, mode, i, j = step
    seeing = [t for k, t in enumerate(pool) if k not in blind]
    try:
        with mode_of(m, mode), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pool.extend(family(m, pool, seeing, kind, i, j))
    except Exception as error:
        return error_name(error)
    return None


def steps() -> Any:
    number = st.integers(0, 11)
    return st.one_of(*(st.tuples(st.just(f), st.sampled_from(kinds), st.sampled_from(MODES), number, number) for f, kinds in STEPS.items()))


def compare(program: list[tuple[Any, ...]], watch: bool) -> None:
    pools: tuple[list[Any], list[Any]] = ([], [])
    for m, pool in zip(MODULES, pools, strict=True):
        leaf = m.tensor(values(1, (2, 3)), requires_grad=True)
        pool.extend([leaf, leaf.clone()])
    done = []
    for step in program:
        done.append((step[0].__name__, *step[1:]))
        where = f"after {done}"
        blind = {i for i, t in enumerate(pools[0]) if is_blind(t)}
        theirs, ours = (run_step(m, pool, blind, step) for m, pool in zip(MODULES, pools, strict=True))
        assert ours == theirs, f"torch {theirs}, ndgrad {ours} {where}"
        if theirs is not None:
            return
        if watch:
            same_state(*pools, where)
    same_state(*pools, f"after {done}")


@given(st.lists(steps(), min_size=2, max_size=14), st.booleans())
@at_least(250)
def test_random_programs_of_views_and_writes(program: list[tuple[Any, ...]], watch: bool) -> None:
    compare(program, watch)
