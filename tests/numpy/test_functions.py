"""Every function of NumPy's main, linalg and fft namespaces that dispatches is differentiable, has no derivative by nature, or is
refused by name. The list comes from the installed NumPy, so a new function cannot slip through.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import re
import warnings
from typing import Any

import numpy as onp
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.core.variable import Variable
from ndgrad.numpy.dispatch import REFUSED, dispatches, table
from tests.numpy.function_samples import DIFFERENTIABLE, DISCRETE, Call

NAMESPACES = {"": onp, "linalg.": onp.linalg, "fft.": onp.fft}


@functools.cache
def dispatching() -> dict[str, Any]:
    """Name -> function, of all that NumPy offers to `__array_function__`."""
    return {
        prefix + name: getattr(module, name)
        for prefix, module in NAMESPACES.items()
        for name in dir(module)
        if not name.startswith("_") and dispatches(getattr(module, name))
    }


def flat_results(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [r for part in result for r in flat_results(part)]
    return [result]


def plain(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, Variable) else onp.asarray(x)


def exists(name: str) -> bool:
    return name in dispatching()


def cases(samples: dict[str, list[Call]]) -> list[Any]:
    return [pytest.param(call, id=f"{name}-{i}") for name, calls in samples.items() if exists(name) for i, call in enumerate(calls)]


def oracle(call: Call, inputs: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return flat_results(call.run(onp, onp, *inputs))


def loss(results: list[Any], weights: list[Any]) -> Any:
    """A real number that depends on everything."""
    total: Any = 0.0
    for r, w in zip(results, weights, strict=True):
        if w is not None:
            product = r * w
            product = onp.real(product) + 2.0 * onp.imag(product) if onp.iscomplexobj(plain(r)) else product
            total = total + onp.sum(product)
    return total


def cotangents(results: list[Any]) -> list[Any]:
    rng = onp.random.default_rng(3)
    return [rng.standard_normal(onp.shape(r)) if onp.asarray(r).dtype.kind in "fc" else None for r in results]


def test_every_dispatching_function_is_classified() -> None:
    names = dispatching()
    unknown = [n for n in names if n not in DIFFERENTIABLE and n not in DISCRETE and n not in REFUSED]
    assert not unknown, f"new in NumPy {onp.__version__}: implement or refuse them, and give them samples"
    assert all(f in table() for n, f in names.items() if n not in REFUSED)
    assert not [n for n in DIFFERENTIABLE if n in DISCRETE or n in REFUSED]


@pytest.mark.parametrize("call", cases(DIFFERENTIABLE))
def test_values_and_gradients_are_numpys(call: Call) -> None:
    expected = oracle(call, call.inputs)
    inputs = [dnp.array(x).requires_grad_() for x in call.inputs]
    results = flat_results(call.run(onp, dnp, *inputs))
    assert len(results) == len(expected)
    for r, e in zip(results, expected, strict=True):
        assert isinstance(r, (dnp.Array, onp.generic, int, float)), type(r)
        assert onp.shape(r) == onp.shape(e)
        assert onp.asarray(plain(r)).dtype == onp.asarray(e).dtype
        onp.testing.assert_allclose(plain(r), e, rtol=1e-10, atol=1e-12)
    weights = cotangents(expected)
    value = loss([r if isinstance(r, Variable) else onp.asarray(r) for r in results], weights)
    assert value.requires_grad, "the graph was lost"
    value.backward()
    rng = onp.random.default_rng(5)
    step = 1e-6
    for k, x in enumerate(call.inputs):
        gradient = inputs[k].grad
        assert gradient is not None, f"no gradient for input {k}"
        for _ in range(2):
            way = rng.standard_normal(onp.shape(x))
            if onp.iscomplexobj(x):
                way = way + 1j * rng.standard_normal(onp.shape(x))
            moved = [[x + s * way if j == k else y for j, y in enumerate(call.inputs)] for s in (step, -step)]
            ahead, behind = (loss(oracle(call, m), weights) for m in moved)
            slope = (ahead - behind) / (2 * step)
            found = onp.sum(onp.real(onp.conj(plain(gradient)) * way))
            onp.testing.assert_allclose(found, slope, rtol=2e-5, atol=2e-6 * max(1.0, abs(ahead)))


@pytest.mark.parametrize("call", cases(DISCRETE))
def test_answers_without_derivative_are_numpys(call: Call) -> None:
    inputs = [dnp.array(x) for x in call.inputs]
    inputs = [t.requires_grad_() if t.dtype.kind in "fc" else t for t in inputs]
    results, expected = flat_results(call.run(onp, dnp, *inputs)), oracle(call, call.inputs)
    assert len(results) == len(expected)
    for r, e in zip(results, expected, strict=True):
        assert not isinstance(r, onp.ndarray)
        if isinstance(e, (onp.ndarray, onp.generic)):
            assert plain(r).dtype == onp.asarray(e).dtype
            onp.testing.assert_array_equal(plain(r), e)
        else:
            assert r == e


@pytest.mark.parametrize("call", cases({**DIFFERENTIABLE, **DISCRETE}))
def test_both_namespaces_are_one_implementation(call: Call) -> None:
    through_numpy = flat_results(call.run(onp, dnp, *[dnp.array(x) for x in call.inputs]))
    directly = flat_results(call.run(dnp, dnp, *[dnp.array(x) for x in call.inputs]))
    for a, b in zip(through_numpy, directly, strict=True):
        if isinstance(a, (bytes, str, type, bool, int)) or not isinstance(a, Variable):
            assert type(a) is type(b)
        else:
            assert isinstance(b, dnp.Array)
            onp.testing.assert_array_equal(plain(a), plain(b))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_functions_say_their_name_and_a_way(name: str) -> None:
    t = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    arguments = {"busday_count": (t, t), "busday_offset": (t, t)}.get(name, (t,))
    with pytest.raises(TypeError, match=f"{name}.*dates"):
        getattr(onp, name)(*arguments)


#: Functions whose amount of work depends on values, so that they cannot be batched.
NOT_BATCHED = frozenset(
    """geomspace histogram histogram_bin_edges intersect1d linalg.eig linalg.eigvals nanmedian nanpercentile nanquantile
    partition piecewise poly polydiv real_if_close roots setdiff1d setxor1d trim_zeros union1d unique unique_all unique_counts
    unique_inverse unique_values""".split()
)


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if exists(n) and n not in NOT_BATCHED])
def test_vmap_of_numpys_functions_equals_the_loop(name: str) -> None:
    for call in DIFFERENTIABLE[name]:
        batched = [i == 0 or name not in ("percentile", "quantile") for i in range(len(call.inputs))]  # q may not vary
        points = [[x + 0.01 * k * b for x, b in zip(call.inputs, batched, strict=True)] for k in range(2)]
        expected = [oracle(call, p) for p in points]
        inputs = [dnp.array(onp.stack([p[i] for p in points]) if b else points[0][i]) for i, b in enumerate(batched)]
        run = ndgrad.func.vmap(lambda *xs, call=call: tuple(_arrays_of(call.run(onp, dnp, *xs))), tuple(0 if b else None for b in batched))
        found = flat_results(run(*inputs))
        for k, f in enumerate(found):
            onp.testing.assert_allclose(plain(f), onp.stack([e[k] for e in expected]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", sorted(filter(exists, NOT_BATCHED)))
def test_vmap_of_functions_that_decide_by_values_raises(name: str) -> None:
    call = DIFFERENTIABLE[name][-1]
    batches = [dnp.array(onp.stack([x, x + 0.01])) for x in call.inputs]
    with pytest.raises(RuntimeError, match="vmap"):
        ndgrad.func.vmap(lambda *xs: tuple(_arrays_of(call.run(onp, dnp, *xs))))(*batches)


def _arrays_of(result: Any) -> list[Any]:
    return [r if isinstance(r, Variable) else dnp.asarray(r) for r in flat_results(result)]


def test_torch_faced_tensors_come_out_as_arrays() -> None:
    t = ndgrad.tensor([1.0, 4.0], dtype=ndgrad.float64, requires_grad=True)
    result = onp.concatenate([onp.sqrt(t), onp.cumsum(t)])
    assert type(result) is dnp.Array
    result.sum().backward()
    onp.testing.assert_allclose(t.grad.numpy(), 0.5 / onp.sqrt([1.0, 4.0]) + [2.0, 1.0])


@pytest.mark.parametrize(
    "deviation",
    [
        lambda x: x[0].std(),
        lambda x: onp.std(x.sum()),
        lambda x: onp.std(x, where=[True, False, False]),
        lambda x: onp.std(onp.broadcast_to(x[1], 3), where=[True, True, False]),
        lambda x: onp.std(onp.broadcast_to(x[0] * (1.0 + 0.5j), 2)),
        lambda x: onp.nanstd(x[:1]),
    ],
    ids=["0-d", "of a sum", "one is left", "equal ones are left", "complex", "nanstd"],
)
def test_the_deviation_of_equal_numbers_is_0_and_so_is_its_slope(deviation: Any) -> None:
    """It is 0 wherever the numbers move together, so differences say the same."""
    x = dnp.array([0.3, -0.7, 0.9]).requires_grad_()
    y = deviation(x)
    y.backward()
    assert y.detach().item() == 0.0
    assert plain(x.grad).tolist() == [0.0, 0.0, 0.0]
    assert ndgrad.func.jvp(deviation, (x.detach(),), (dnp.ones(3),))[1].item() == 0.0


def test_counts_in_the_docs_are_true() -> None:
    names = dispatching()
    counts = {
        "differentiable": sum(n in names for n in DIFFERENTIABLE),
        "without a derivative": sum(n in names for n in DISCRETE),
        "refused": sum(n in names for n in REFUSED),
    }
    text = (pathlib.Path(__file__).parents[2] / "docs" / "numpy.md").read_text()
    found = re.search(r"NumPy ([\d.]+) has (\d+) functions.*?\n\n((?:\|.*\n)+)", text, re.DOTALL)
    assert found is not None
    version, total, rows = found.groups()
    printed = {k.strip(): int(v) for k, v in re.findall(r"\| ([a-z ]+) \| (\d+) \|", rows)}
    if onp.__version__.split(".")[:2] == version.split(".")[:2]:
        assert printed == counts
        assert int(total) == len(names) == sum(counts.values())
    assert counts["differentiable"] >= 0.9 * (counts["differentiable"] + counts["refused"])


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, 1, 1), (1, -1, -1)])
def test_a_line_in_memory_order_leaves_broadcast_dimensions_where_they_are(perm, signs):
    made = onp.arange(24.0).reshape(2, 3, 4).transpose(perm)[tuple(slice(None, None, s) for s in signs)]
    for places in itertools.chain.from_iterable(itertools.combinations(range(3 + k), k) for k in (0, 1, 2)):
        wide = onp.expand_dims(made, places)
        shape = tuple(2 if i in places else n for i, n in enumerate(wide.shape))
        expected = onp.broadcast_to(wide, shape)
        a = dnp.broadcast_to(dnp.expand_dims(dnp.asarray(made), places), shape)
        assert onp.ravel(a, order="K").tolist() == expected.ravel(order="K").tolist(), expected.strides
        assert a.flatten("K").tolist() == expected.flatten("K").tolist(), expected.strides


@pytest.mark.parametrize("numbers", [[-1, 0], [0, 2]])
def test_choose_refuses_numbers_outside_the_choices_as_numpy_does(numbers: list[int]) -> None:
    choices = [[1.0, 2.0], [3.0, 4.0]]
    for module in (onp, dnp):
        with pytest.raises(ValueError, match="invalid entry in choice array"):
            module.choose(module.array(numbers), choices)
    for mode in ("wrap", "clip"):
        expected = onp.choose(numbers, choices, mode=mode)
        onp.testing.assert_array_equal(dnp.choose(dnp.array(numbers), choices, mode=mode).numpy(), expected)
