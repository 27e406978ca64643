"""backward, grad, hooks and grad modes: the same programs on torch and on ndgrad, compared by results, order of events and errors."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, attempt, leaf, plain

PROGRAMS: dict[str, Any] = {}


def program(f: Any) -> Any:
    PROGRAMS[f.__name__] = f
    return f


# -- backward --


@program
def gradients_accumulate(m):
    x = leaf(m, 3)
    (x * x).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    return x.grad, x.grad is first


@program
def gradients_accumulate_out_of_place_under_create_graph(m):
    x = leaf(m, 3)
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    (x * x * x).sum().backward(create_graph=True)
    return x.grad, x.grad is first, x.grad.requires_grad, first


@program
def a_grad_set_by_hand_is_added_to_in_place(m):
    x = leaf(m, 3)
    mine = m.ones(3, dtype=m.float64)
    x.grad = mine
    x.sum().backward()
    return x.grad is mine, mine


@program
def backward_on_a_leaf(m):
    x = leaf(m, 1)
    x.backward()
    x.backward(m.tensor([3.0], dtype=m.float64))
    return x.grad


@program
def backward_twice(m):
    y = (leaf(m, 3) ** 2).sum()
    y.backward()
    y.backward()


@program
def backward_twice_with_retain_graph(m):
    x = leaf(m, 3)
    y = (x**2).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad, attempt(y.backward)


@program
def backward_twice_through_what_saves_nothing(m):
    x = leaf(m, 3)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    return x.grad


@program
def backward_of_a_part_of_a_freed_graph(m):
    x = leaf(m, 3)
    h = x.exp()
    h.sum().backward()
    (h + 1).sum().backward()


@program
def backward_from_several_roots(m):
    x = leaf(m, 3)
    h = x * x
    m.autograd.backward([h.sum(), h], [None, m.ones(3, dtype=m.float64) * 2])
    return x.grad


@program
def the_same_root_twice(m):
    x = leaf(m, 2)
    y = x * x
    g = m.ones(2, dtype=m.float64)
    m.autograd.backward([y, y], [g, g])
    return x.grad


@program
def backward_without_a_gradient_for_a_vector(m):
    (leaf(m, 3) * 2).backward()


@program
def backward_with_a_gradient_of_another_shape(m):
    (leaf(m, 3) * 2).backward(m.ones(4, dtype=m.float64))


@program
def backward_of_a_constant(m):
    m.ones(1).backward()


@program
def backward_with_the_wrong_number_of_gradients(m):
    x = leaf(m, 3)
    m.autograd.backward([x.sum(), x.sum()], [None])


@program
def backward_with_inputs_of_leaves(m):
    x, w = leaf(m, 3), leaf(m, 3)
    (x * w).sum().backward(inputs=[x])
    return x.grad, w.grad


@program
def backward_with_inputs_of_results(m):
    x = leaf(m, 3)
    h = x * 2
    (h * h).sum().backward(inputs=[h])
    return x.grad, h.grad


@program
def backward_with_inputs_of_leaf_and_result(m):
    x = leaf(m, 3)
    h = x * 2
    for _ in range(2):
        (h * h).sum().backward(inputs=[h, x], retain_graph=True)
    return x.grad, h.grad


@program
def backward_with_no_inputs(m):
    leaf(m, 3).sum().backward(inputs=[])


@program
def backward_with_an_input_that_needs_no_gradient(m):
    x = leaf(m, 3)
    c = m.ones(3, dtype=m.float64)
    (x * c).sum().backward(inputs=[c])


@program
def backward_of_a_complex_scalar(m):
    z = m.tensor(1 + 2j, requires_grad=True)
    (z * z).backward()


@program
def gradients_of_one_leaf_are_never_shared(m):
    x, w = leaf(m, 3), leaf(m, 3)
    (x + w).sum().backward()
    x.grad.zero_()
    return x.grad, w.grad


@program
def a_given_gradient_is_not_kept(m):
    x = leaf(m, 3)
    g = m.ones(3, dtype=m.float64)
    (x + 0.0).backward(g)
    g.zero_()
    return x.grad


@program
def float32_leaf_in_a_float64_program(m):
    x = m.tensor([1.0, 2.0], dtype=m.float32, requires_grad=True)
    (x * m.tensor([3.0, 4.0], dtype=m.float64)).sum().backward()
    return x.grad, str(x.grad.dtype).split(".")[-1]


# -- grad --


@program
def grad_of_leaves_and_results(m):
    x = leaf(m, 3)
    h = x * x
    return m.autograd.grad((h * x).sum(), [x, h]), x.grad


@program
def grad_of_a_single_tensor_is_a_tuple(m):
    x = leaf(m, 3)
    found = m.autograd.grad(x.sum(), x)
    return type(found).__name__, found


@program
def grad_of_the_output_itself(m):
    y = (leaf(m, 3) * 2).sum()
    return m.autograd.grad(y, y)


@program
def grad_with_the_same_input_twice(m):
    x = leaf(m, 3)
    return m.autograd.grad((x * x).sum(), [x, x])


@program
def grad_with_grad_outputs(m):
    x = leaf(m, 3)
    return m.autograd.grad([x * x, x.sum()], [x], [m.ones(3, dtype=m.float64) * 2, None])


@program
def grad_of_an_unused_input(m):
    x, w = leaf(m, 3), leaf(m, 3)
    m.autograd.grad(x.sum(), [w])


@program
def grad_of_an_unused_input_allowed(m):
    x, w = leaf(m, 3), leaf(m, 2)
    return m.autograd.grad(x.sum(), [w, x], allow_unused=True)


@program
def grad_of_an_unused_input_materialized(m):
    x, w = leaf(m, 3), leaf(m, 2)
    return m.autograd.grad(x.sum(), [w, x], materialize_grads=True)


@program
def grad_materialized_and_not_allowed(m):
    x = leaf(m, 3)
    m.autograd.grad(x.sum(), [x], materialize_grads=True, allow_unused=False)


@program
def grad_of_a_constant(m):
    x = leaf(m, 3)
    m.autograd.grad(x.sum(), [m.ones(3)])


@program
def grad_of_nothing(m):
    m.autograd.grad(leaf(m, 3).sum(), [])


@program
def grad_of_a_dict(m):
    x, w = leaf(m, 3), leaf(m, 3)
    found = m.autograd.grad((x * w).sum(), {"x": x, "w": w})
    return sorted(found), found["x"], found["w"]


@program
def grad_twice_frees(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    m.autograd.grad(y, x)
    m.autograd.grad(y, x)


@program
def grad_frees_only_what_it_passes(m):
    x, w = leaf(m, 3), leaf(m, 3)
    y = (x.exp() + w.exp()).sum()
    m.autograd.grad(y, x)
    return m.autograd.grad(y, w)


@program
def third_derivative(m):
    x = leaf(m, 3)
    y = (x**4).sum()
    for _ in range(3):
        (y,) = m.autograd.grad(y.sum(), x, create_graph=True)
    return y, y.requires_grad


@program
def create_graph_keeps_the_graph(m):
    x = leaf(m, 3)
    y = (x**2).sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    (h,) = m.autograd.grad(y, x)
    return g, h, g.requires_grad, h.requires_grad


@program
def create_graph_with_the_graph_not_retained(m):
    x = leaf(m, 3)
    y = (x.exp() ** 2).sum()
    m.autograd.grad(y, x, create_graph=True, retain_graph=False)
    return attempt(lambda: m.autograd.grad(y, x))


@program
def batched_grad_outputs(m):
    x = leaf(m, 3)
    y = x * x
    return m.autograd.grad(y, x, m.eye(3, dtype=m.float64), is_grads_batched=True)


@program
def grad_outputs_that_require_grad(m):
    x, v = leaf(m, 3), leaf(m, 3)
    (g,) = m.autograd.grad(x * x, x, v, create_graph=True)
    return m.autograd.grad(g.sum(), v)


@program
def grad_under_no_grad(m):
    x = leaf(m, 3)
    y = (x * x).sum()
    with m.no_grad():
        (g,) = m.autograd.grad(y, x, create_graph=True)
    return g, g.requires_grad


# -- hooks --


def recorded(m):
    events: list[Any] = []

    def note(name):
        return lambda *g: events.append((name, plain([t if t is not None else None for t in (g[0] if isinstance(g[0], tuple) else g)])))

    return events, note


@program
def order_of_every_kind_of_hook(m):
    events: list[Any] = []
    x = leaf(m, 2)
    h = x * 2
    y = h * h
    h.register_hook(lambda g: events.append("tensor 1"))
    h.retain_grad()
    h.register_hook(lambda g: events.append("tensor 2"))
    h.grad_fn.register_prehook(lambda g: events.append("pre"))
    h.grad_fn.register_hook(lambda i, o: events.append("post"))
    x.register_hook(lambda g: events.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: events.append(("accumulated", t.grad.tolist())))
    y.register_hook(lambda g: events.append("y"))
    y.sum().backward()
    return events, h.grad


@program
def hooks_replace_gradients_in_turn(m):
    x = leaf(m, 2)
    h = x * 2
    h.register_hook(lambda g: g * 10)
    h.register_hook(lambda g: g + 1)
    h.retain_grad()
    h.sum().backward()
    return h.grad, x.grad


@program
def a_leaf_hook_sees_the_whole_gradient_once(m):
    x = leaf(m, 2)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * x + x * 3).sum().backward()
    return seen, x.grad


@program
def a_leaf_hook_changes_what_is_accumulated(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: g * 100)
    x.sum().backward()
    x.sum().backward()
    return x.grad, m.autograd.grad(x.sum(), x)


@program
def removed_hooks_do_not_run(m):
    x = leaf(m, 2)
    seen = []
    handle = x.register_hook(lambda g: seen.append(1))
    x.sum().backward()
    handle.remove()
    x.sum().backward()
    return seen


@program
def a_handle_is_a_context(m):
    x = leaf(m, 2)
    seen = []
    with x.register_hook(lambda g: seen.append(1)):
        x.sum().backward()
    x.sum().backward()
    return seen


@program
def a_hook_of_another_shape(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: g.sum())
    x.sum().backward()


@program
def a_hook_that_returns_a_number(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: 3.0)
    x.sum().backward()


@program
def a_hook_that_raises(m):
    x = leaf(m, 2)

    def fail(g):
        raise KeyError("mine")

    (x * 2).register_hook(fail)
    h = x * 2
    h.register_hook(fail)
    h.sum().backward()


@program
def a_hook_on_a_constant(m):
    m.ones(2).register_hook(lambda g: g)


@program
def post_accumulate_hooks_belong_to_leaves(m):
    (leaf(m, 2) * 2).register_post_accumulate_grad_hook(lambda t: None)


@program
def retain_grad_of_a_leaf_and_of_a_constant(m):
    x = leaf(m, 2)
    x.retain_grad()
    return x.retains_grad, attempt(m.ones(2).retain_grad)


@program
def retain_grad_accumulates(m):
    x = leaf(m, 2)
    h = x * 2
    h.retain_grad()
    h.sum().backward(retain_graph=True)
    h.sum().backward()
    return h.grad, h.retains_grad


@program
def node_hooks_replace_gradients(m):
    x = leaf(m, 2)
    h = x * 2
    h.grad_fn.register_prehook(lambda g: (g[0] * 10,))
    h.grad_fn.register_hook(lambda i, o: (i[0] + o[0], *i[1:]))
    h.sum().backward()
    return x.grad


@program
def node_hooks_on_the_accumulator(m):
    x = leaf(m, 2)
    seen = []
    node = (x * 1).grad_fn.next_functions[0][0]
    node.register_prehook(lambda g: seen.append(("pre", plain(g))))
    node.register_hook(lambda i, o: seen.append(("post", len(i), plain(o), x.grad.tolist())))
    (x * 3).sum().backward()
    return seen


@program
def a_post_accumulate_hook_can_clear_the_gradient(m):
    x = leaf(m, 2)

    def step(t):
        with m.no_grad():
            t -= 0.1 * t.grad
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * x).sum().backward()
    return x.grad, [round(v, 6) for v in x.tolist()]


@program
def hooks_see_a_graph_under_create_graph(m):
    x = leaf(m, 2)
    h = x * x
    seen = []
    h.register_hook(lambda g: seen.append((g.requires_grad, m.is_grad_enabled())))
    (h * h).sum().backward(retain_graph=True)
    m.autograd.grad((h * h).sum(), x, create_graph=True)
    return seen


@program
def multi_grad_hooks(m):
    x, w, u = leaf(m, 2), leaf(m, 2), leaf(m, 2)
    seen = []
    m.autograd.graph.register_multi_grad_hook([x, w, u], lambda gs: seen.append(plain(list(gs))))
    (x * w).sum().backward()
    (x * w * u).sum().backward()
    any_seen = []
    m.autograd.graph.register_multi_grad_hook([x, w], lambda g: any_seen.append(1), mode="any")
    (x * w).sum().backward()
    return seen, any_seen


@program
def backward_inside_a_hook(m):
    x, w = leaf(m, 2), leaf(m, 2)

    def inner(g):
        (w * w).sum().backward()

    h = x * 2
    h.register_hook(inner)
    h.sum().backward()
    return x.grad, w.grad


# -- modes --


@program
def modes_as_contexts(m):
    seen = [m.is_grad_enabled()]
    with m.no_grad():
        seen.append(m.is_grad_enabled())
        with m.enable_grad():
            seen.append(m.is_grad_enabled())
        with m.set_grad_enabled(True):
            seen.append(m.is_grad_enabled())
        seen.append(m.is_grad_enabled())
    m.set_grad_enabled(False)
    seen.append(m.is_grad_enabled())
    m.set_grad_enabled(True)
    with m.inference_mode():
        seen.append((m.is_grad_enabled(), m.is_inference_mode_enabled()))
        with m.inference_mode(False):
            seen.append((m.is_grad_enabled(), m.is_inference_mode_enabled()))
    return seen, m.is_grad_enabled()


@program
def modes_are_left_after_an_exception(m):
    def fail():
        with m.no_grad(), m.inference_mode():
            raise KeyError

    return attempt(fail), m.is_grad_enabled(), m.is_inference_mode_enabled()


@program
def modes_as_decorators(m):
    @m.no_grad()
    def called(x):
        """Its text."""
        return (x * 2).requires_grad

    @m.no_grad
    def bare(x):
        return (x * 2).requires_grad

    @m.set_grad_enabled(False)
    def switched(x):
        return (x * 2).requires_grad

    @m.inference_mode()
    def inferred(x):
        return (x * 2).is_inference()

    x = leaf(m, 2)
    return called(x), bare(x), switched(x), inferred(x), called.__name__, called.__doc__, m.is_grad_enabled()


@program
def a_decorated_function_can_recurse(m):
    @m.no_grad()
    def count(n):
        return [m.is_grad_enabled()] + (count(n - 1) if n else [])

    return count(3), m.is_grad_enabled()


@program
def generators_run_in_the_mode_and_their_callers_do_not(m):
    @m.no_grad()
    def generator():
        received = yield m.is_grad_enabled()
        try:
            yield received, m.is_grad_enabled()
        except KeyError:
            yield "caught", m.is_grad_enabled()
        return m.is_grad_enabled()

    g = generator()
    seen = [next(g), m.is_grad_enabled(), g.send(5), m.is_grad_enabled(), g.throw(KeyError()), m.is_grad_enabled()]
    try:
        next(g)
    except StopIteration as stop:
        seen.append(stop.value)
    return seen, m.is_grad_enabled()


@program
def a_closed_generator_leaves_the_mode(m):
    seen = []

    @m.no_grad()
    def generator():
        try:
            yield 1
        finally:
            seen.append(m.is_grad_enabled())

    g = generator()
    next(g)
    g.close()
    return seen, m.is_grad_enabled()


@program
def a_new_thread_starts_with_grad(m):
    seen = []
    with m.no_grad():
        t = threading.Thread(target=lambda: seen.append(m.is_grad_enabled()))
        t.start()
        t.join()
    return seen


@program
def backward_in_threads_adds_up(m):
    x = leaf(m, 3)

    def work():
        for _ in range(20):
            (x * 2.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return x.grad


@program
def requires_grad_of_integers(m):
    m.tensor([1, 2], requires_grad=True)


@program
def integer_results_do_not_require_grad(m):
    x = leaf(m, 3)
    return x.argmax().requires_grad, (x > 1).requires_grad, x.long().requires_grad, x.sort()[1].requires_grad, x.max(0)[0].requires_grad


@program
def detach_cuts(m):
    x = leaf(m, 3)
    (x.detach() * x).sum().backward()
    return x.grad


@program
def gradient_edges_as_roots_and_inputs(m):
    x = leaf(m, 3)
    h = x * x
    edge = m.autograd.graph.get_gradient_edge(h)
    y = (h * 3).sum()
    found = m.autograd.grad(y, [edge])
    m.autograd.backward([m.autograd.graph.get_gradient_edge(x * 2)], [m.ones(3, dtype=m.float64)])
    return found, x.grad


@program
def the_shape_of_the_graph(m):
    x = leaf(m, 3)
    y = (x * 2).exp().sum()
    names = []
    node = y.grad_fn
    while node is not None:
        names.append(type(node).__name__)
        node = node.next_functions[0][0] if node.next_functions else None
    return names


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_program(name: str) -> None:
    """Both give the same, or raise the same class of error."""
    found = []
    for m in MODULES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(attempt(lambda m=m: plain(PROGRAMS[name](m))))
        assert m.is_grad_enabled()
    theirs, ours = found
    assert ours == theirs


def test_coroutines_run_in_the_mode_and_their_callers_do_not() -> None:
    """torch's decorator does not know coroutines: their bodies run outside the mode there."""
    seen = []

    @ndgrad.no_grad()
    async def work() -> str:
        seen.append(ndgrad.is_grad_enabled())
        await asyncio.sleep(0)
        seen.append(ndgrad.is_grad_enabled())
        return "done"

    async def other() -> None:
        for _ in range(3):
            seen.append(("other", ndgrad.is_grad_enabled()))
            await asyncio.sleep(0)

    async def main() -> Any:
        return await asyncio.gather(work(), other())

    assert asyncio.run(main())[0] == "done"
    assert [s for s in seen if isinstance(s, bool)] == [False, False]
    assert [s for s in seen if not isinstance(s, bool)] == [("other", True)] * 3


def test_a_mode_object_entered_twice_is_left_twice() -> None:
    assert deliberate("reentered-modes")
    left = {}
    for m in MODULES:
        mode = m.no_grad()
        with mode, mode:
            assert not m.is_grad_enabled()
        left[m] = m.is_grad_enabled()
        m.set_grad_enabled(True)
    assert left == {torch: False, ndgrad: True}


def test_captures_come_after_hooks_whatever_else_is_wanted() -> None:
    assert deliberate("captures-after-hooks")
    found = {}
    for m in MODULES:
        x = leaf(m, 1)
        h = x * 2
        h.register_hook(lambda g: g * 10)
        alone = m.autograd.grad(h.sum(), [h], retain_graph=True)[0].item()
        beside = m.autograd.grad(h.sum(), [h, x])[0].item()
        found[m] = alone, beside
    assert found == {torch: (10.0, 1.0), ndgrad: (10.0, 10.0)}


def test_hooks_of_outputs_without_a_gradient() -> None:
    assert deliberate("hooks-without-gradient")
    for m in MODULES:
        x = leaf(m, 2, 2)
        a, b = x.unbind()
        seen = []
        a.register_hook(lambda g, seen=seen: seen.append(("a", plain(g))))
        b.register_hook(lambda g, seen=seen: seen.append(("b", plain(g))))
        (a * 2 + b * 3).sum().backward()
        a.sum().backward()
        missing = [("b", None)] if m is torch else []
        assert seen == [("a", [2.0, 2.0]), ("b", [3.0, 3.0]), ("a", [1.0, 1.0]), *missing]
        assert x.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_reading_the_grad_of_a_result_warns() -> None:
    for m in MODULES:
        h = leaf(m, 2) * 2
        with pytest.warns(UserWarning, match="not a leaf"):
            assert h.grad is None
