"""gradcheck: what its messages say, and that it leaves everything as it was. Its verdicts are compared with torch's elsewhere."""

from __future__ import annotations

import io
import pickle
import sys

import numpy as np
import pytest

import ndgrad
from ndgrad.autograd.gradcheck import GradcheckError, get_analytical_jacobian, get_numerical_jacobian


def function(forward, backward, **more):
    members = {"forward": forward, "backward": backward, **more}
    return type("Wrong", (ndgrad.autograd.Function,), {name: staticmethod(f) for name, f in members.items()})


def only_at(index):
    """A function of two matrices whose gradient with respect to the second is wrong at one place."""

    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        wrong = g * x
        return g * y, wrong + ndgrad.zeros_like(wrong).index_put((ndgrad.tensor(index[0]), ndgrad.tensor(index[1])), wrong[index])

    return function(forward, backward)


def test_message_names_op_input_indices_and_both_values():
    x, y = (ndgrad.tensor(np.arange(1.0, 7.0).reshape(2, 3) * k, requires_grad=True) for k in (1, 2))

    def my_product(first, second):
        return only_at((1, 2)).apply(first, second)

    with pytest.raises(GradcheckError) as caught:
        ndgrad.autograd.gradcheck(my_product, (x, y))
    text = str(caught.value)
    assert "my_product" in text
    assert "WrongBackward" in text
    assert "input 1 (second)" in text
    assert "output index (1, 2) and input index (1, 2)" in text
    assert "analytical 12, numerical 6" in text
    assert "1 of 36 elements differ" in text


def test_message_of_fast_mode_is_explained_element_by_element():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    f = function(lambda ctx, x: x * 2, lambda ctx, g: g * 3).apply
    with pytest.raises(GradcheckError, match="element by element") as caught:
        ndgrad.autograd.gradcheck(f, x, fast_mode=True)
    assert "analytical 3, numerical 2" in str(caught.value)


def test_message_of_second_order_names_the_gradient():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    f = function(forward, lambda ctx, g: g * 2 * ctx.saved_tensors[0].detach()).apply
    with pytest.raises(GradcheckError, match="the gradient of Wrong.apply"):
        ndgrad.autograd.gradgradcheck(f, x)


def test_error_can_be_pickled():
    again = pickle.loads(pickle.dumps(GradcheckError("wrong")))
    assert isinstance(again, GradcheckError)


def test_function_and_module_have_one_name():
    assert callable(ndgrad.autograd.gradcheck)
    assert sys.modules["ndgrad.autograd.gradcheck"].gradcheck is ndgrad.autograd.gradcheck


@pytest.mark.parametrize("fast", [False, True])
def test_inputs_are_put_back_when_the_function_raises(fast):
    values = np.array([1.0, 2.0])
    x = ndgrad.from_numpy(values).requires_grad_()
    calls = [0]

    def fragile(x):
        calls[0] += 1
        if calls[0] > 2:
            raise ZeroDivisionError
        return x * 2

    with pytest.raises(ZeroDivisionError):
        ndgrad.autograd.gradcheck(fragile, x, fast_mode=fast)
    assert values.tolist() == [1.0, 2.0]


def test_no_gradient_is_accumulated_and_no_random_number_used():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    state = ndgrad.get_rng_state()
    assert ndgrad.autograd.gradcheck(lambda x: x.sin(), x, check_forward_ad=True, check_batched_grad=True, fast_mode=True)
    assert x.grad is None
    assert (ndgrad.get_rng_state() == state).all()
    assert ndgrad.autograd.forward_ad.current_level() == -1


def test_read_only_input_is_refused():
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        ndgrad.autograd.gradcheck(lambda x: x * 2, ndgrad.from_numpy(frozen).requires_grad_())


def test_output_that_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="output 1"):
        ndgrad.autograd.gradcheck(lambda x: (x * 2, 3), ndgrad.ones(2, requires_grad=True))


def test_outputs_of_truth_values_are_left_alone():
    assert ndgrad.autograd.gradcheck(lambda x: (x > 0, x * 2), ndgrad.ones(2, requires_grad=True))


def test_arrays_of_numpys_class():
    x = ndgrad.numpy.array([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    assert ndgrad.autograd.gradcheck(lambda x: x.T @ x, x, check_forward_ad=True)
    assert ndgrad.autograd.gradgradcheck(lambda x: x.T @ x, x, check_fwd_over_rev=True)


def test_missing_tangents_must_count_as_zero():
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_forward(x, y)
        ctx.save_for_backward(x, y)
        return x * y

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (None, None) if g is None else (g * y, g * x)

    def jvp(ctx, a, b):
        x, y = ctx.saved_tensors
        if a is None or b is None:
            return (a * y if b is None else b * x) + 1
        return a * y + b * x

    f = function(forward, backward, jvp=jvp).apply
    inputs = ndgrad.tensor([1.0, 2.0], requires_grad=True), ndgrad.tensor([3.0, 4.0], requires_grad=True)
    with pytest.raises(GradcheckError, match="zero tangent instead of none"):
        ndgrad.autograd.gradcheck(f, inputs, check_forward_ad=True)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(("change", "kind"), [(lambda x: x.repeat(2), "shape"), (lambda x: x.float(), "dtype")])
def test_outputs_must_not_change_with_the_values(change, kind, fast):
    x = ndgrad.ones(1, dtype=ndgrad.float64, requires_grad=True)
    with pytest.raises(AssertionError, match=f"same {kind} when inputs are perturbed"):
        ndgrad.autograd.gradcheck(lambda x: change(x) if (x >= 1).all() else x * 1, x, fast_mode=fast)


def test_other_inputs_have_zero_tangents():
    def twice(x, y):
        if ndgrad.autograd.forward_ad._current_level >= 0:
            primal, tangent = ndgrad.autograd.forward_ad.unpack_dual(y)
            y = ndgrad.autograd.forward_ad.make_dual(primal, tangent * 1.1)
        return x + y

    x, y = (ndgrad.ones(2, dtype=ndgrad.float64, requires_grad=True) for _ in range(2))
    with pytest.raises(GradcheckError, match="forward mode mismatch for output 0 with respect to input 1"):
        ndgrad.autograd.gradcheck(twice, (x, y), check_forward_ad=True, check_undefined_grad=False)


def test_jacobians_of_a_matrix_product_have_their_closed_form():
    a, b = np.arange(1.0, 5.0).reshape(2, 2), np.arange(5.0, 9.0).reshape(2, 2)
    x = ndgrad.tensor(a, requires_grad=True)
    want = np.kron(np.eye(2), b)  # Jacobian of X B: elements of X by elements of the product
    (analytical,), repeats, sizes, types = get_analytical_jacobian((x,), x @ ndgrad.tensor(b))
    (numerical,) = get_numerical_jacobian(lambda given: given[0] @ ndgrad.tensor(b), (x,))
    np.testing.assert_allclose(analytical._array, want)
    np.testing.assert_allclose(numerical._array, want, rtol=1e-9)
    assert (repeats, sizes, types) == (True, True, True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_and_wiped(monkeypatch):
    from ndgrad.autograd.gradcheck import progress

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert ndgrad.autograd.gradcheck(lambda x: x.sin(), ndgrad.ones(3, requires_grad=True))
    shown = terminal.getvalue()
    assert "/6" in shown
    assert shown.endswith("\r\x1b[K")


def test_progress_is_not_shown_elsewhere(monkeypatch):
    from ndgrad.autograd.gradcheck import progress

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert ndgrad.autograd.gradcheck(lambda x: x.sin(), ndgrad.ones(3, requires_grad=True))
    assert stream.getvalue() == ""
