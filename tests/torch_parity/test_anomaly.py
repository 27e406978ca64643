"""Anomaly mode: the same programs on torch and on ndgrad, compared by values, errors, the function that is named, and what is warned of."""

from __future__ import annotations

import re
import threading
import warnings
from typing import Any

import pytest

from tests.torch_parity.side_by_side import MODULES, Programs, attempt, error_name, leaf, on_both, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


def detect(m: Any, **options: Any) -> Any:
    return m.autograd.detect_anomaly(**options)


def watch(m: Any, run: Any, **options: Any) -> Any:
    """Return the outcome of a program in anomaly mode: its value, or its error and the function the error names; and its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with m.autograd.set_detect_anomaly(True, **options):
            try:
                value = plain(run())
            except Exception as error:
                value = error_name(error), re.findall(r"Function '(\w+)' returned nan values in its (\d+)th output", str(error))
    return value, describe_warnings(seen)


def describe_warnings(seen: list[Any]) -> list[Any]:
    """Of each warning: its category, the functions it names, and whether it shows the program's source."""
    out = []
    for w in seen:
        text = str(w.message)
        out.append((w.category.__name__, re.findall(r"\b(?:in|of|by) (\w+Backward\w*)", text), "test_anomaly.py" in text))
    return out


def zero_and_one(m: Any) -> Any:
    return m.tensor([0.0, 1.0], dtype=m.float64, requires_grad=True)


def raising(m: Any, where: str = "backward") -> Any:
    class Raises(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise LookupError("mine")

    return Raises


# ----- the mode ----------------------------------------------------------------------------------------------------------------------


def state(m: Any) -> tuple[bool, bool]:
    return m.is_anomaly_enabled(), m.is_anomaly_check_nan_enabled()


@program
def the_mode_is_on_inside_its_block(m):
    with detect(m):
        inside = state(m)
    return inside, state(m)


@program
def the_mode_without_the_check(m):
    with detect(m, check_nan=False):
        inside = state(m)
        with detect(m):
            deeper = state(m)
        again = state(m)
    return inside, deeper, again, state(m)


@program
def switching_the_mode(m):
    m.autograd.set_detect_anomaly(True, check_nan=False)
    on = state(m)
    m.autograd.set_detect_anomaly(False)
    off = state(m)
    with m.autograd.set_detect_anomaly(True):
        inside = state(m)
    return on, off, inside, state(m)


@program
def the_mode_is_left_after_an_error(m):
    def run():
        with detect(m):
            raise LookupError

    return attempt(run), state(m)


@program
def the_mode_holds_for_all_threads(m):
    seen = []
    with detect(m):
        worker = threading.Thread(target=lambda: seen.append(state(m)))
        worker.start()
        worker.join()
    return seen


@program
def entering_the_mode_warns(m):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with detect(m):
            pass
        with m.autograd.set_detect_anomaly(True):
            pass
    return describe_warnings(seen)


@program
def the_mode_is_no_decorator(m):
    return attempt(lambda: detect(m)(lambda: 1))


# ----- NaN ----------------------------------------------------------------------------------------------------------------------------


@program
def the_first_nan_is_named(m):
    return watch(m, lambda: (zero_and_one(m).sqrt() * 0).sum().backward())


@program
def nan_passes_without_the_check(m):
    def run():
        x = zero_and_one(m)
        (x.sqrt() * 0).sum().backward()
        return x.grad.isnan()

    return watch(m, run, check_nan=False)


@program
def infinity_passes(m):
    def run():
        x = zero_and_one(m)
        x.sqrt().sum().backward()
        return x.grad

    return watch(m, run)


@program
def nan_of_the_second_argument(m):
    def run():
        x = m.tensor([float("nan"), 2.0], dtype=m.float64)
        (x * leaf(m, 2)).sum().backward()

    return watch(m, run)


@program
def a_nan_root_gradient_is_blamed_on_the_first_node(m):
    return watch(m, lambda: (leaf(m, 2) * 2).backward(m.tensor([float("nan"), 1.0], dtype=m.float64)))


@program
def nan_from_a_tensor_hook(m):
    def run():
        h = leaf(m, 2) * 2
        h.register_hook(lambda g: g * float("nan"))
        h.sum().backward()

    return watch(m, run)


@program
def nan_from_a_post_hook(m):
    def run():
        h = leaf(m, 2).exp()
        h.grad_fn.register_hook(lambda ins, outs: (ins[0] * float("nan"),))
        h.sum().backward()

    return watch(m, run)


@program
def nan_on_a_leaf_hook_passes(m):
    def run():
        x = leaf(m, 2)
        x.register_hook(lambda g: g * float("nan"))
        x.exp().sum().backward()
        return x.grad.isnan()

    return watch(m, run)


@program
def nan_in_grad(m):
    def run():
        x = zero_and_one(m)
        return m.autograd.grad((x.sqrt() * 0).sum(), x)

    return watch(m, run)


@program
def nan_in_a_custom_function(m):
    class Bad(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g, g * float("nan")

    return watch(m, lambda: Bad.apply(leaf(m, 2), leaf(m, 2)).sum().backward())


@program
def nan_inside_a_transform(m):
    return watch(m, lambda: m.func.grad(lambda t: (t.sqrt() * 0).sum())(zero_and_one(m).detach()))[0]


@program
def nan_in_a_complex_gradient(m):
    def run():
        x = leaf(m, 2)
        z = m.complex(x, x)
        (z.abs() * float("nan")).sum().backward()

    return watch(m, run)


@program
def only_what_runs_is_checked(m):
    def run():
        x, y = leaf(m, 2), zero_and_one(m)
        out = (x * 2).sum() + (y.sqrt() * 0).sum()
        return m.autograd.grad(out, x)

    return watch(m, run)


# ----- forward outside, backward outside --------------------------------------------------------------------------------------------------


@program
def a_forward_outside_is_not_known(m):
    y = (zero_and_one(m).sqrt() * 0).sum()
    return watch(m, y.backward)


@program
def a_backward_outside_is_not_checked(m):
    x = zero_and_one(m)
    with m.autograd.set_detect_anomaly(True):
        y = (x.sqrt() * 0).sum()
    y.backward()
    return x.grad.isnan()


@program
def a_forward_inside_leaves_its_traceback_on_the_node(m):
    x = leaf(m, 2)
    with m.autograd.set_detect_anomaly(True):
        y = x * x
    z = x * x
    lines = y.grad_fn.metadata["traceback_"]
    return isinstance(lines, list), "y = x * x" in lines[-1], "traceback_" in z.grad_fn.metadata


# ----- errors ---------------------------------------------------------------------------------------------------------------------------


@program
def an_error_in_backward_stays_itself(m):
    return watch(m, lambda: raising(m).apply(leaf(m, 2)).sum().backward())


@program
def an_error_without_the_check(m):
    return watch(m, lambda: raising(m).apply(leaf(m, 2)).sum().backward(), check_nan=False)


@program
def an_error_in_hooks(m):
    def by_tensor():
        h = leaf(m, 2) * 2
        h.register_hook(lambda g: 1 / 0)
        h.sum().backward()

    def by_node():
        h = leaf(m, 2) * 2
        h.grad_fn.register_hook(lambda a, b: 1 / 0)
        h.sum().backward()

    def before_node():
        h = leaf(m, 2) * 2
        h.grad_fn.register_prehook(lambda a: 1 / 0)
        h.sum().backward()

    return watch(m, by_tensor), watch(m, by_node), watch(m, before_node)


@program
def an_overwritten_save(m):
    def run():
        h = leaf(m, 2) * 2
        y = (h * h).sum()
        h.add_(1)
        y.backward()

    return watch(m, run)


@program
def an_error_in_an_unpack_hook(m):
    def run():
        with m.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 1 / 0):
            y = leaf(m, 2).exp().sum()
        y.backward()

    return watch(m, run)


@program
def a_double_backward_names_both_forward_calls(m):
    def run():
        x = zero_and_one(m)
        (g,) = m.autograd.grad((x**1.5).sum(), x, create_graph=True)
        m.autograd.grad((g * 0).sum(), x)

    return watch(m, run)


@program
def a_failed_pass_leaves_the_next_one_right(m):
    x = zero_and_one(m)
    y = (x.sqrt() * 0).sum()
    with m.autograd.set_detect_anomaly(True):
        first = attempt(lambda: y.backward(retain_graph=True))
    y.backward()
    return first, x.grad.isnan(), attempt(y.backward)


@program
def a_whole_training_step(m):
    def run():
        w1, w2, data = leaf(m, 3, 2), leaf(m, 2, 1), leaf(m, 4, 3).detach() / 10
        for _ in range(3):
            loss = ((data @ w1).tanh() @ w2).pow(2).mean()
            g1, g2 = m.autograd.grad(loss, (w1, w2))
            with m.no_grad():
                w1 -= 0.1 * g1
                w2 -= 0.1 * g2
        return [[round(v, 10) for v in w.flatten().tolist()] for w in (w1, w2)]

    return watch(m, run)


@program
def a_node_knows_the_node_whose_backward_made_it(m):
    x = leaf(m, 2)
    with m.autograd.set_detect_anomaly(True):
        y = (x**3).sum()
        (g,) = m.autograd.grad(y, x, create_graph=True)
    return sorted(g.grad_fn.metadata), g.grad_fn.metadata["parent_"].name(), sorted(y.grad_fn.metadata)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    for m in MODULES:
        assert not m.is_anomaly_enabled()
        assert m.is_anomaly_check_nan_enabled()
    assert ours == theirs
