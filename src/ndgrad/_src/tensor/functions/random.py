"""Random factories, samplers and in-place fillers under torch's names. On the CPU a seed gives torch's numbers.

A factory is an op on a template tensor without memory. So vmap decides whether samples share their numbers, and
observers of ops see the factory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.generator import Generator, default_generator, initial_seed, manual_seed, seed
from ndgrad._src.arrays.host_draws import cast
from ndgrad._src.arrays.placement import library_for
from ndgrad._src.arrays.precision import finfo, is_floating, is_inexact
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import thread
from ndgrad._src.core.out_argument import copy_into
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops import fill
from ndgrad._src.ops import random as ops
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.checks import as_leaf
from ndgrad._src.tensor.functions.creation import Options, can_skip_options, shape_of
from ndgrad._src.tensor.functions.data import fresh
from ndgrad._src.tensor.storage import memory_of, values_to_check
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from ndgrad._src.ops.table import Op
    from ndgrad._typing import MemoryFormat, RandomOptions

__all__ = [
    "_dirichlet_grad", "_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad", "bernoulli", "binomial",
    "get_rng_state", "initial_seed", "manual_seed", "multinomial", "normal", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like",
    "randperm", "seed", "set_rng_state",
]  # fmt: skip
ABOUT_THE_LIBRARY = (
    "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state",
)  # fmt: skip

METHODS = (
    "bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "normal_",
    "random_", "uniform_",
)  # fmt: skip


# ----- drawing --------------------------------------------------------------------------------------------------------


def _template(shape: tuple[int, ...], dtype: np.dtype[Any], device: devices.device) -> Tensor:
    """Return a tensor for its shape and dtype only; on the CPU it has no memory of its own."""
    if device.type == "cpu":
        return fresh(np.broadcast_to(np.empty((), dtype), shape))
    return fresh(library_for(device).empty(shape, dtype))


def _draw(name: str, op: Op, template: Tensor, given: Options, settings: dict[str, Any]) -> Tensor:
    made = op(template, **settings)
    if given.out is not None:
        return copy_into(name, given.out, made)
    return given.apply_names(as_leaf(made) if given.requires_grad else made)


def _check_generator(name: str, generator: Generator | None) -> Generator | None:
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(
            f"{name}(): generator must be an ndgrad.Generator, but is {type(generator).__name__}. Make one with "
            "ndgrad.Generator(). [nd-type]"
        )
    return generator


def _require_continuous(
    name: str, dtype: np.dtype[Any], error: type[Exception] = NotImplementedError, *, complex: bool = True
) -> None:
    if not (is_inexact if complex else is_floating)(dtype):
        raise error(
            f"{name}: not implemented for {dtype}: the distribution is continuous. Use a floating dtype. [nd-dtype]"
        )


def _draw_continuous(name: str, op: Op, size: tuple[int | Sequence[int], ...], options: dict[str, Any]) -> Tensor:
    generator = _check_generator(name, options.pop("generator", None))
    shape = shape_of(size, options)
    if not options and can_skip_options():
        settings = {k: v for k, v in op.settings.items() if k != "generator"}
        drawn = ops.SHAPE_ONLY[op.name](ops.source_of(generator), shape, dtypes.get_default_dtype().numpy, **settings)
        return wrap(Tensor, cast(drawn, dtypes.get_default_dtype().numpy))
    given = Options(name, options)
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    _require_continuous(name, dtype)
    return _draw(name, op, _template(shape, dtype, given.device), given, {**op.settings, "generator": generator})


@overload
def rand(*size: int, **options: Unpack[RandomOptions]) -> Tensor: ...


@overload
def rand(size: Sequence[int], **options: Unpack[RandomOptions]) -> Tensor: ...


def rand(*size: int | Sequence[int], **options: Any) -> Tensor:
    """Numbers uniform on [0, 1).

    Args:
        *size: sizes of the dimensions, one by one or in one tuple.
        **options: `generator`, the source of random numbers, and `dtype`, `device`, `requires_grad` and others, as in
            `zeros`.

    >>> import ndgrad
    >>> _ = ndgrad.manual_seed(0)
    >>> x = ndgrad.rand(2, 3)
    >>> x.shape, bool(((x >= 0) & (x < 1)).all())
    (ndgrad.Size([2, 3]), True)
    """
    return _draw_continuous("rand", ops.uniform, size, options)


@overload
def randn(*size: int, **options: Unpack[RandomOptions]) -> Tensor: ...


@overload
def randn(size: Sequence[int], **options: Unpack[RandomOptions]) -> Tensor: ...


def randn(*size: int | Sequence[int], **options: Any) -> Tensor:
    """Numbers from the standard normal distribution.

    Args:
        *size: sizes of the dimensions, one by one or in one tuple.
        **options: `generator`, the source of random numbers, and `dtype`, `device`, `requires_grad` and others, as in
            `zeros`.

    >>> import ndgrad
    >>> _ = ndgrad.manual_seed(0)
    >>> ndgrad.randn(2, 3, dtype=ndgrad.float64).shape
    ndgrad.Size([2, 3])
    """
    return _draw_continuous("randn", ops.normal, size, options)


def _like(
    name: str,
    op: Op,
    input: Tensor,
    options: dict[str, Any],
    settings: dict[str, Any],
    memory_format: MemoryFormat,
    continuous: bool = True,
) -> Tensor:
    generator = _check_generator(name, options.pop("generator", None))
    given = Options(name, options, like=input)
    assert given.dtype is not None
    if continuous:
        _require_continuous(name, given.dtype)
    array = input._array if input.__class__ in TENSOR_TYPES and given.device.type == "cpu" else None
    if array.__class__ is np.ndarray:
        template = fresh(ops.empty_like(array, given.dtype))
    else:
        template = input.detach()
        if given.dtype != np_dtype(input) or given.device is not input.device:
            template = template.to(given.device, given.dtype)
    made = _draw(name, op, template, given, {**op.settings, **settings, "generator": generator})
    if memory_format in (None, devices.preserve_format):
        return made
    return made.detach().contiguous(memory_format=memory_format).requires_grad_(made.requires_grad)


def rand_like(input: Tensor, *, memory_format: MemoryFormat = None, **options: Unpack[RandomOptions]) -> Tensor:
    """Numbers uniform on [0, 1), in the shape and, unless given, the dtype and device of another tensor.

    Args:
        input: tensor whose shape, dtype and device are taken.
        memory_format: memory layout of the result. The default is that of `input`.
        **options: `generator`, the source of random numbers, and `dtype`, `device` or `requires_grad` that differ from
            `input`.

    >>> import ndgrad
    >>> ndgrad.rand_like(ndgrad.zeros(2, 3)).shape
    ndgrad.Size([2, 3])
    """
    return _like("rand_like", ops.uniform, input, {**options}, {}, memory_format)


def randn_like(input: Tensor, *, memory_format: MemoryFormat = None, **options: Unpack[RandomOptions]) -> Tensor:
    """Numbers from the standard normal distribution, in the shape and, unless given, the dtype of another tensor.

    Args:
        input: tensor whose shape, dtype and device are taken.
        memory_format: memory layout of the result. The default is that of `input`.
        **options: `generator`, the source of random numbers, and `dtype`, `device` or `requires_grad` that differ from
            `input`.

    >>> import ndgrad
    >>> ndgrad.randn_like(ndgrad.zeros(2, 3)).shape
    ndgrad.Size([2, 3])
    """
    return _like("randn_like", ops.normal, input, {**options}, {}, memory_format)


@overload
def randint(low: int, high: int, size: Sequence[int], **options: Unpack[RandomOptions]) -> Tensor: ...


@overload
def randint(high: int, size: Sequence[int], **options: Unpack[RandomOptions]) -> Tensor: ...


def randint(  # type: ignore[misc]  # the second argument may be the size
    low: Any = None, high: Any = None, size: Sequence[int] | None = None, **options: Any
) -> Tensor:
    """Integers in [low, high): randint(high, size), randint(low, high, size).

    Args:
        low: smallest integer. The default is 0.
        high: end of the range, which is not part of it.
        size: shape of the result.
        **options: `generator`, the source of random numbers, and `dtype`, `device` and others, as in `zeros`. The
            default dtype is int64.

    >>> import ndgrad
    >>> x = ndgrad.randint(0, 10, (100,))
    >>> x.dtype, bool(((x >= 0) & (x < 10)).all())
    (ndgrad.int64, True)
    """
    if size is None and isinstance(high, (tuple, list)):
        low, high, size = 0, low, high
    elif high is None or low is None:
        low, high = 0, low if high is None else high
    if high is None:
        raise TypeError("randint() needs high: randint(10, (2, 3)) or randint(0, 10, (2, 3)). [nd-arguments]")
    generator = _check_generator("randint", options.pop("generator", None))
    shape = shape_of((size,) if size is not None else (), options)
    given = Options("randint", options)
    dtype = given.dtype or np.dtype(np.int64)
    low, high = _bounds("randint", low, high, dtype)
    settings = {"low": low, "high": high, "generator": generator}
    return _draw("randint", ops.random, _template(shape, dtype, given.device), given, settings)


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    memory_format: MemoryFormat = None,
    **options: Unpack[RandomOptions],
) -> Tensor:
    """Integers in [low, high), or in [0, low), with the shape and dtype of another tensor.

    Args:
        input: tensor whose shape, dtype and device are taken.
        low: smallest integer, or the end of the range if `high` is not given.
        high: end of the range, which is not part of it.
        memory_format: memory layout of the result. The default is that of `input`.
        **options: `generator`, the source of random numbers, and `dtype` or `device` that differ from `input`.

    >>> import ndgrad
    >>> ndgrad.randint_like(ndgrad.zeros(2, dtype=ndgrad.int64), 1, 2)
    tensor([1, 1])
    """
    if high is None:
        low, high = 0, low
    dtype = options.get("dtype")
    low, high = _bounds("randint_like", low, high, np_dtype(input) if dtype is None else dtypes.as_numpy_dtype(dtype))
    settings = {"low": low, "high": high}
    return _like("randint_like", ops.random, input, {**options}, settings, memory_format, continuous=False)


def _bounds(name: str, low: int, high: int, dtype: np.dtype[Any]) -> tuple[int, int]:
    low, high = int(low), int(high)
    if low >= high:
        raise RuntimeError(
            f"{name} expects 'from' to be less than 'to', but got from={low} >= to={high}. "
            "Give a range that is not empty. [nd-range]"
        )
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if low < limits.min or high - 1 > limits.max:
            raise RuntimeError(
                f"{name}: the range [{low}, {high}) is out of bounds for {dtype}. Choose a wider dtype. [nd-overflow]"
            )
    return low, high


def randperm(n: int, **options: Unpack[RandomOptions]) -> Tensor:
    """The numbers 0 ... n-1 in random order.

    Args:
        n: how many numbers there are.
        **options: `generator`, the source of random numbers, and `dtype`, `device` and others, as in `zeros`. The
            default dtype is int64.

    >>> import ndgrad
    >>> ndgrad.randperm(5).sort().values
    tensor([0, 1, 2, 3, 4])
    """
    generator = _check_generator("randperm", options.pop("generator", None))
    shape = shape_of((n,), {})
    given = Options("randperm", {**options})
    template = _template(shape, given.dtype or np.dtype(np.int64), given.device)
    return _draw("randperm", ops.permutation, template, given, {"generator": generator})


# ----- distributions given by tensors --------------------------------------------------------------------------------


def _write_out(name: str, made: Tensor, out: Tensor | None) -> Tensor:
    return made if out is None else copy_into(name, out, made)


@overload
def normal(
    mean: Tensor, std: float | Tensor = 1.0, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor: ...


@overload
def normal(mean: float, std: Tensor, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor: ...


@overload
def normal(mean: float, std: float, size: Sequence[int], **options: Unpack[RandomOptions]) -> Tensor: ...


def normal(
    mean: float | Tensor,
    std: float | Tensor = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Normal numbers: normal(mean, std) with tensors for either or both, normal(mean, std, size) with numbers.

    The gradients of mean and std are 0, as in torch. For a differentiable sample, write mean + std * randn(...).

    Args:
        mean: mean of each number, a number or a tensor.
        std: standard deviation of each number, not negative.
        size: shape of the result. It is needed if `mean` and `std` are numbers.
        generator: source of random numbers. The default is the global generator.
        out: tensor that receives the result.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`, if `size` is given.

    >>> import ndgrad
    >>> ndgrad.normal(ndgrad.tensor([1.0, 10.0]), 0.0)
    tensor([ 1., 10.])
    """
    _check_generator("normal", generator)
    if not isinstance(std, Variable) and std < 0:
        raise RuntimeError(
            f"normal expects std >= 0.0, but found std {std}. A standard deviation is not negative. [nd-range]"
        )
    if isinstance(std, Variable) and (np_dtype(std).kind == "c" or _has_negative(std)):
        raise RuntimeError(
            "normal expects all elements of std >= 0.0. A standard deviation is not negative. [nd-values]"
        )
    for v in (mean, std):
        if isinstance(v, Variable):
            _require_continuous("normal", np_dtype(v))
    if isinstance(mean, Variable) and isinstance(std, Variable):
        _check_broadcast("normal", mean, std)
        return _write_out("normal", ops.normal_tensor(mean, std, generator=generator), out)
    if isinstance(mean, Variable):
        return _write_out("normal", ops.normal_mean(mean, std=std, generator=generator), out)
    if isinstance(std, Variable):
        return _write_out("normal", ops.normal_std(std, mean=mean, generator=generator), out)
    if size is None:
        raise TypeError(
            "normal() of two numbers needs a size: normal(0.0, 1.0, (2, 3)). Pass one, or a tensor for mean or std. "
            "[nd-arguments]"
        )
    settings = Options("normal", {**options, "out": out})
    dtype = settings.dtype or dtypes.get_default_dtype().numpy
    template = _template(shape_of((size,), {}), dtype, settings.device)
    return _draw("normal", ops.normal, template, settings, {"mean": mean, "std": std, "generator": generator})


def _check_broadcast(name: str, a: Tensor, b: Tensor) -> None:
    try:
        np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        raise RuntimeError(
            f"{name}: shapes {tuple(a.shape)} and {tuple(b.shape)} do not broadcast. Their sizes must agree or be 1. "
            "[nd-broadcast]"
        ) from None


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Ones with the probabilities in `input` (or with probability `p`), zeros otherwise.

    Args:
        input: probabilities from 0 to 1. With `p` only its shape and dtype matter.
        p: one probability for all elements.
        generator: source of random numbers. The default is the global generator.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.bernoulli(ndgrad.tensor([0.0, 1.0, 1.0]))
    tensor([0., 1., 1.])
    """
    _check_generator("bernoulli", generator)
    if p is not None:
        return _write_out(
            "bernoulli", ops.bernoulli_scalar(input, p=_check_p("bernoulli", p), generator=generator), out
        )
    _require_continuous("bernoulli", np_dtype(input), complex=False)
    _check_probabilities("bernoulli", input)
    return _write_out("bernoulli", ops.bernoulli(input, generator=generator), out)


def _check_p(name: str, p: float) -> float:
    if not 0 <= p <= 1:
        raise RuntimeError(f"{name} expects p to be in [0, 1], but got p={p}. [nd-range]")
    return p


def _check_probabilities(name: str, p: Tensor) -> None:
    values = values_to_check(p)
    if values is not None and not bool(((values >= 0) & (values <= 1)).all()):
        raise RuntimeError(
            f"{name} expects probabilities, 0 <= p <= 1, but the tensor of shape {tuple(p.shape)} holds others. "
            "[nd-values]"
        )


def _has_negative(t: Tensor) -> bool:
    values = values_to_check(t)
    return values is not None and bool((values < 0).any())


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers with the rates in `input`.

    Args:
        input: rates, not negative.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> ndgrad.poisson(ndgrad.tensor([0.0, 3.0])).shape
    ndgrad.Size([2])
    """
    _check_generator("poisson", generator)
    _require_continuous("poisson", np_dtype(input), complex=False)
    if _has_negative(input):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative, but some are negative. [nd-values]")
    return ops.poisson(input, generator=generator)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """The number of successes in `count` trials of probability `prob`.

    Args:
        count: numbers of trials, a floating-point tensor.
        prob: probabilities from 0 to 1 of the same dtype, which broadcast with `count`.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> ndgrad.binomial(ndgrad.tensor([5.0, 5.0]), ndgrad.tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    _check_generator("binomial", generator)
    for t in (count, prob):
        if not is_floating(np_dtype(t)):
            raise ValueError(
                "binomial only supports floating-point dtypes for count and prob but got: "
                f"{count.dtype} for count and {prob.dtype} for prob. Convert them with .float(). [nd-dtype]"
            )
    if np_dtype(count) != np_dtype(prob):
        raise RuntimeError(
            f"binomial: found dtype {prob.dtype} of prob but expected that of count, {count.dtype}. Convert one. "
            "[nd-dtype-mismatch]"
        )
    _check_probabilities("binomial", prob)
    _check_broadcast("binomial", count, prob)
    if _has_negative(count):
        raise RuntimeError("binomial expects count >= 0, but some are negative. [nd-values]")
    return ops.binomial(count, prob, generator=generator)


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices drawn with probabilities proportional to the rows of `input`.

    Args:
        input: vector or matrix of weights, not negative. Their sum need not be 1.
        num_samples: number of draws for each row.
        replacement: whether an index may be drawn several times.
        generator: source of random numbers. The default is the global generator.
        out: tensor that receives the result.

    Returns:
        Integers of shape (num_samples,) or (rows, num_samples).

    >>> import ndgrad
    >>> ndgrad.multinomial(ndgrad.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
    tensor([1, 1])
    """
    _check_generator("multinomial", generator)
    if input.ndim not in (1, 2):
        raise RuntimeError(
            f"prob_dist must be 1 or 2 dim, but has {input.ndim}. Reshape it to rows of weights. [nd-ndim]"
        )
    _require_continuous("multinomial", np_dtype(input), RuntimeError, complex=False)
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples: num_samples is {num_samples}. [nd-range]")
    categories = input.shape[-1]
    if not replacement and num_samples > categories:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{num_samples} of {categories}. Pass replacement=True. [nd-range]"
        )
    if input.run_op is not None:  # The values of this class live elsewhere; the same checks apply to all of them.
        input = tensor_ops.detach(input)
        checked = values_to_check(input)
        fine = bool(((checked >= 0) & (checked < np.inf)).all())
        weights = values_to_check(tensor_ops.sum(input, dim=(input.ndim - 1,), keepdim=True))
    else:
        weights = memory_of(input)
        fine = bool((np.isfinite(weights) & (weights >= 0)).all())
        weights = weights.sum(-1)
    if not fine:
        raise RuntimeError(
            "probability tensor contains either `inf`, `nan` or element < 0. Give finite, non-negative weights. "
            "[nd-values]"
        )
    if not bool((weights > 0).all()):
        raise RuntimeError(
            "invalid multinomial distribution (sum of probabilities <= 0). Each row needs a positive weight. "
            "[nd-values]"
        )
    made = ops.multinomial(input, num_samples=int(num_samples), replacement=bool(replacement), generator=generator)
    return _write_out("multinomial", made, out)


def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma numbers with the shape parameters in `input` and scale 1; differentiable in the parameter.

    >>> import ndgrad
    >>> bool((ndgrad._standard_gamma(ndgrad.tensor([1.0, 2.0])) > 0).all())
    True
    """
    _require_continuous("_standard_gamma", np_dtype(input), complex=False)
    return ops.standard_gamma(input, generator=_check_generator("_standard_gamma", generator))


def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Dirichlet samples along the last dimension, with the concentrations in `input`.

    >>> import ndgrad
    >>> ndgrad._sample_dirichlet(ndgrad.tensor([1.0, 2.0], dtype=ndgrad.float64)).sum().round(decimals=6)
    tensor(1., dtype=ndgrad.float64)
    """
    if not input.ndim:
        raise IndexError(
            "_sample_dirichlet() got a tensor without dimensions, but concentrations lie along the last one. "
            "Pass a vector of them. [nd-ndim]"
        )
    _require_continuous("_sample_dirichlet", np_dtype(input), complex=False)
    return ops.sample_dirichlet(input, generator=_check_generator("_sample_dirichlet", generator))


def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """The derivative of `output`, a sample of the standard gamma distribution, by its shape parameter `input`.

    >>> import ndgrad
    >>> ndgrad._standard_gamma_grad(ndgrad.tensor([1.0, 20.0]), ndgrad.tensor([0.4, 15.0]))
    tensor([0.7088, 0.8702])
    """
    return -(output * tensor_ops.gamma_shape_ratio(input, output, order=1))


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """The derivative by `alpha` of a sample `x` of the beta distribution with the shapes `alpha` and `total - alpha`,
    divided by 1 - x. The gradient of a Dirichlet sample is made of these.

    >>> import ndgrad
    >>> ndgrad._dirichlet_grad(ndgrad.tensor([0.25]), ndgrad.tensor([1.0]), ndgrad.tensor([2.0]))
    tensor([0.4621])
    """
    return -(x * tensor_ops.beta_shape_ratio(alpha, total - alpha, x, orders=(1, 0)))


# ----- in place -------------------------------------------------------------------------------------------------------


def _overwrite(op: Op, t: Tensor, args: tuple[Tensor, ...], settings: dict[str, Any]) -> Tensor:
    if thread.levels:
        # Draw first: under vmap the draw may be shared by all samples, or an error, whether or not `t` is batched.
        return write(fill.copy, t, (op(t, *args, **settings),), {})
    return write(op, t, args, settings)


def uniform_(self: Tensor, *bounds: float, generator: Generator | None = None, **named: float) -> Tensor:
    """Overwrite with numbers uniform on [from, to), by default [0, 1).

    Args:
        self: tensor to change, floating or complex.
        *bounds: lower and upper end of the interval.
        generator: source of random numbers. The default is the global generator.
        **named: the ends by their names `from` and `to`.

    >>> import ndgrad
    >>> ndgrad.empty(3).uniform_(2.0, 2.0)
    tensor([2., 2., 2.])
    """
    low, high = _read_from_to("uniform_", bounds, named, 0.0, 1.0)
    _require_continuous("uniform_", np_dtype(self))
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}. [nd-range]"
        )
    return _overwrite(
        ops.uniform, self, (), {"low": low, "high": high, "generator": _check_generator("uniform_", generator)}
    )


def _read_from_to(
    name: str, bounds: tuple[float, ...], named: Mapping[str, float], low: float, high: Any
) -> tuple[Any, Any]:
    """Return torch's arguments `from` and `to`; `from` is a Python keyword."""
    given = dict(zip(("from", "to"), bounds))
    for key, value in named.items():
        if key not in ("from", "to") or key in given:
            raise TypeError(
                f"{name}() got an unexpected keyword argument {key!r}. It takes from, to and generator. [nd-arguments]"
            )
        given[key] = value
    return given.get("from", low), given.get("to", high)


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with normal numbers.

    Args:
        self: tensor to change, floating or complex.
        mean: mean of the distribution.
        std: standard deviation, not negative.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> ndgrad.empty(2).normal_(5.0, 0.0)
    tensor([5., 5.])
    """
    _require_continuous("normal_", np_dtype(self))
    if std < 0:
        raise RuntimeError(
            f"normal expects std >= 0.0, but found std {std}. A standard deviation is not negative. [nd-range]"
        )
    return _overwrite(
        ops.normal, self, (), {"mean": mean, "std": std, "generator": _check_generator("normal_", generator)}
    )


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers whose logarithm is normal.

    Args:
        self: tensor to change, of floating-point dtype.
        mean: mean of the logarithm.
        std: standard deviation of the logarithm, positive.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> bool((ndgrad.empty(5).log_normal_() > 0).all())
    True
    """
    _require_continuous("log_normal_", np_dtype(self), complex=False)
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}. [nd-range]")
    settings = {"mean": mean, "std": std, "generator": _check_generator("log_normal_", generator)}
    return _overwrite(ops.log_normal, self, (), settings)


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with exponential numbers of rate `lambd`.

    Args:
        self: tensor to change, of floating-point dtype.
        lambd: rate, the inverse of the mean.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> bool((ndgrad.empty(5).exponential_(2.0) >= 0).all())
    True
    """
    _require_continuous("exponential_", np_dtype(self), RuntimeError, complex=False)
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}. [nd-range]")
    return _overwrite(
        ops.exponential, self, (), {"rate": lambd, "generator": _check_generator("exponential_", generator)}
    )


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with numbers from the Cauchy distribution.

    Args:
        self: tensor to change, of floating-point dtype.
        median: middle of the distribution.
        sigma: half of the width at half of the maximum, positive.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> ndgrad.empty(2, 3).cauchy_().shape
    ndgrad.Size([2, 3])
    """
    _require_continuous("cauchy_", np_dtype(self), RuntimeError, complex=False)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}. [nd-range]")
    settings = {"median": median, "sigma": sigma, "generator": _check_generator("cauchy_", generator)}
    return _overwrite(ops.cauchy, self, (), settings)


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with the number of trials of probability `p` up to the first success.

    Args:
        self: tensor to change.
        p: probability of success, between 0 and 1.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> bool((ndgrad.empty(5).geometric_(0.5) >= 1).all())
    True
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}. [nd-range]")
    return _overwrite(ops.geometric, self, (), {"p": p, "generator": _check_generator("geometric_", generator)})


def bernoulli_(self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with ones of probability `p`, a number or a tensor that broadcasts, and zeros otherwise.

    Args:
        self: tensor to change.
        p: probability, a number or a tensor that broadcasts to `self`.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> ndgrad.empty(2, 2).bernoulli_(ndgrad.tensor([0.0, 1.0]))
    tensor([[0., 1.],
            [0., 1.]])
    """
    _check_generator("bernoulli_", generator)
    if isinstance(p, Variable):
        _check_probabilities("bernoulli_", p)
        return _overwrite(ops.bernoulli_tensor, self, (p,), {"generator": generator})
    return _overwrite(ops.bernoulli_scalar, self, (), {"p": _check_p("bernoulli_", p), "generator": generator})


def random_(self: Tensor, *bounds: int, generator: Generator | None = None, **named: int) -> Tensor:
    """Overwrite with integers: random_() up to the dtype's exact limit, random_(to), random_(from, to).

    Args:
        self: tensor to change.
        *bounds: end of the range, or start and end. The end is not part of the range.
        generator: source of random numbers. The default is the global generator.
        **named: the bounds by their names `from` and `to`.

    >>> import ndgrad
    >>> ndgrad.empty(3).random_(4, 5)
    tensor([4., 4., 4.])
    """
    dtype = np_dtype(self)
    if len(bounds) == 1 and not named:
        low, high = 0, bounds[0]
    else:
        low, high = _read_from_to("random_", bounds, named, 0, None)
    whole = not bounds and not named and dtype.itemsize <= 4
    if high is None:
        high = _integer_limit(dtype)
    low, high = _bounds("random_", low, high, dtype)
    settings = {"low": low, "high": high, "whole": whole, "generator": _check_generator("random_", generator)}
    return _overwrite(ops.random, self, (), settings)


def _integer_limit(dtype: np.dtype[Any]) -> int:
    """Return the first positive integer beyond the range of integers that a dtype represents exactly."""
    if dtype.kind == "b":
        return 2
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max) + 1
    return (1 << (int(finfo(dtype).nmant) + 1)) + 1


# ----- state ----------------------------------------------------------------------------------------------------------


@set_module("ndgrad")
def get_rng_state() -> Tensor:
    """Return the state of the default generator, as a tensor of bytes.

    >>> import ndgrad
    >>> state = ndgrad.get_rng_state()
    >>> first = ndgrad.rand(2)
    >>> ndgrad.set_rng_state(state)
    >>> bool((ndgrad.rand(2) == first).all())
    True
    """
    return default_generator.get_state()


@set_module("ndgrad")
def set_rng_state(new_state: Tensor) -> None:
    """Set the state of the default generator to one returned by `get_rng_state`.

    Args:
        new_state: tensor of bytes.

    >>> import ndgrad
    >>> ndgrad.set_rng_state(ndgrad.get_rng_state())
    """
    default_generator.set_state(new_state)


