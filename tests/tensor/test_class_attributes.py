"""Functions of torch that are kept as attributes of a class do not become methods, as torch's compiled ones."""

from __future__ import annotations

from typing import Any

import pytest

import ndgrad as nd


class Kept:
    """A class with one function of each kind of wrapper."""

    act = nd.tanh
    total = nd.add
    join = nd.cat
    fill = nd.zeros
    contract = nd.einsum
    choose = nd.where
    scale = nd.softmax
    largest = nd.max
    project = nd.nn.functional.linear
    invert = nd.linalg.inv
    draw = nd.zeros_like


CALLS: dict[str, tuple[Any, ...]] = {
    "act": (nd.tensor([0.5, 1.0]),),
    "total": (nd.ones(2), nd.ones(2)),
    "join": ([nd.ones(2), nd.zeros(1)],),
    "fill": (2, 3),
    "contract": ("i,i->", nd.ones(2), nd.ones(2)),
    "choose": (nd.tensor([True, False]), nd.ones(2), nd.zeros(2)),
    "scale": (nd.ones(2), 0),
    "largest": (nd.tensor([1.0, 3.0]),),
    "project": (nd.ones(2), nd.ones(3, 2)),
    "invert": (nd.eye(2) * 2,),
    "draw": (nd.ones(2),),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_attribute_gets_the_arguments_alone(name: str) -> None:
    expected = getattr(Kept, name)(*CALLS[name])
    assert nd.equal(getattr(Kept(), name)(*CALLS[name]), expected)


def test_an_attribute_of_a_base_class_of_a_module_and_keywords() -> None:
    class Layer(nd.nn.Module):
        act = nd.tanh
        total = nd.add

    class Deeper(Layer):
        def forward(self, x: Any) -> Any:
            return self.total(self.act(x, out=nd.empty(2)), x, alpha=2)

    x = nd.tensor([0.5, -0.5])
    assert nd.equal(Deeper()(x), nd.tanh(x) + 2 * x)


def test_gradients_pass_through_an_attribute() -> None:
    x = nd.tensor([0.5, 1.0], requires_grad=True)
    Kept().act(x).sum().backward()  # type: ignore[call-arg, arg-type]  # mypy sees a method
    assert nd.allclose(x.grad, 1 - nd.tanh(x.detach()) ** 2)


def test_a_class_that_overrides_functions_gets_itself() -> None:
    class Recorder:
        act = nd.tanh

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function, args

    recorder = Recorder()
    assert recorder.act() == (nd.tanh, (recorder,))


def test_too_many_arguments_are_an_error() -> None:
    x = nd.ones(2)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        nd.tanh(x, x)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        nd.add(x, x, x)  # type: ignore[call-arg]


def test_an_object_of_another_class_is_an_error() -> None:
    class Other:
        pass

    with pytest.raises(TypeError):
        nd.tanh(Other(), nd.ones(2))  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError):
        nd.cat(Other(), [nd.ones(2)])  # type: ignore[call-arg, arg-type]
