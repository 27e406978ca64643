"""Errors and warnings of autograd start with torch's words, which users search for, and continue with a remedy."""

from __future__ import annotations

import warnings

import pytest

import ndgrad


def leaf(*shape):
    return ndgrad.ones(*(shape or (2,)), requires_grad=True)


def twice():
    y = (leaf() * leaf()).sum()
    y.backward()
    y.backward()


def overwritten():
    y = leaf() * 2
    z = y * y
    y.add_(1)
    z.sum().backward()


def one_of_several():
    (leaf(2, 2) * 1).unbind(0)[0].add_(1)


def made_without_grad():
    x = leaf() * 1
    with ndgrad.no_grad():
        view = x[:1]
    view.add_(1)


def made_in_inference_mode():
    x = leaf() * 1
    with ndgrad.inference_mode():
        view = x[:1]
    view.add_(1)


class Bent(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return ndgrad.ones(1, 3)


#: name -> (call, torch's words, ours)
SAID = {
    "a second backward": (twice, "Trying to backward through the graph a second time", "MulBackward0.*retain_graph=True"),
    "a write": (overwritten, "one of the variables needed for gradient computation has been modified by an inplace operation", "add_"),
    "no graph": (
        lambda: ndgrad.ones(2).sum().backward(),
        "element 0 of tensors does not require grad and does not have a grad_fn",
        "requires_grad_",
    ),
    "the second root": (
        lambda: ndgrad.autograd.backward([leaf().sum(), ndgrad.ones(())]),
        "element 1 of tensors does not require grad",
        "requires_grad_",
    ),
    "a leaf": (lambda: leaf().add_(1), "a leaf Variable that requires grad is being used in an in-place operation", "no_grad"),
    "a part of a leaf": (
        lambda: leaf().__setitem__(0, 1.0),
        "a view of a leaf Variable that requires grad is being used in an in-place operation",
        "no_grad",
    ),
    "a vector": (lambda: (leaf() * 2).backward(), "grad can be implicitly created only for scalar outputs", "sum"),
    "an unused input": (
        lambda: ndgrad.autograd.grad(leaf().sum(), leaf()),
        "The differentiated Tensor at index 0 appears to not have been used",
        "allow_unused",
    ),
    "several views": (one_of_several, "Output 0 of Unbind is a view and is being modified inplace", "clone"),
    "a view without grad": (
        made_without_grad,
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled",
        "inside the no_grad block, or both outside",
    ),
    "a view of inference mode": (
        made_in_inference_mode,
        "A view was created in inference mode and is being modified inplace in normal mode",
        "clone",
    ),
    "a bent gradient": (
        lambda: Bent.apply(leaf()).sum().backward(),
        "Function BentBackward returned an invalid gradient at index 0",
        "shape",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_torchs_words_come_first_and_ours_after(name):
    call, theirs, ours = SAID[name]
    with pytest.raises(RuntimeError) as caught:
        call()
    text = str(caught.value)
    assert theirs in text
    with pytest.raises(RuntimeError, match=f"(?s){ours}"):
        raise RuntimeError(text[text.index(theirs) + len(theirs) :])


def test_a_tensor_marked_dirty_that_is_no_input_is_a_result_like_any_other():
    class Doubled(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf()
    with pytest.warns(UserWarning, match="mark_dirty.. received a tensor that was not an input"):
        y = Doubled.apply(x)
    y.sum().backward()
    assert y._version == 0
    assert x.grad.tolist() == [2.0, 2.0]


def test_decorating_a_class_warns_and_runs_its_constructor_in_the_mode():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @ndgrad.no_grad()
        class Made:
            def __init__(self):
                self.recorded = ndgrad.is_grad_enabled()

            def method(self):
                return ndgrad.is_grad_enabled()

    made = Made()
    assert made.recorded is False
    assert made.method() is True


def test_a_view_made_in_inference_mode_is_a_leaf_of_its_own():
    x = leaf()
    with ndgrad.inference_mode():
        view = x[:1]
    assert view.requires_grad
    assert view.is_leaf
    assert view._is_view()
    assert not view.is_inference()
    (view * 3).sum().backward()
    assert view.grad.tolist() == [3.0]
    assert x.grad is None


def test_modes_can_be_cloned():
    assert ndgrad.inference_mode(False).clone().mode is False
    with ndgrad.no_grad().clone():
        assert not ndgrad.is_grad_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ndgrad.enable_grad().clone()(ndgrad.is_grad_enabled)()
