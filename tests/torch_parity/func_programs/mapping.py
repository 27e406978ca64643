"""vmap: where the batch is, what may be inside, randomness, and what cannot be batched."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from tests.torch_parity.func_programs.dialect import all_equal, attempt, draw, draw_complex, positive_definite, program, vector


class Pair(NamedTuple):
    first: Any
    second: Any


# ----- in_dims ---------------------------------------------------------------------------------------------------------------------


@program
def vmap_over_each_dimension(torch, func):
    x = draw(torch, 0, 2, 3, 4)
    f = lambda x: x.cumsum(0) * 2
    return [func.vmap(f, in_dims=i, out_dims=o)(x) for i in (0, 1, 2, -1, -3) for o in (0, 1, 2, -1)]


@program
def vmap_of_several_arguments(torch, func):
    x, y = draw(torch, 0, 2, 3), draw(torch, 1, 3, 2)
    dot = lambda a, b: (a * b).sum()
    return (
        func.vmap(dot, in_dims=(0, 1))(x, y),
        func.vmap(dot, in_dims=(1, 0))(x, y),
        func.vmap(dot, in_dims=(0, None))(x, y[:, 0]),
        func.vmap(dot, in_dims=(None, -1))(x[0], y),
    )


@program
def vmap_of_structures(torch, func):
    x, y = draw(torch, 0, 2, 3), draw(torch, 1, 3, 2)
    f = lambda d, l: {"sum": d["a"] + l[0], "rest": (d["b"] * 2, [l[0]])}
    return (
        func.vmap(f, in_dims=({"a": 0, "b": None}, [1]))({"a": x, "b": torch.ones(2)}, [y]),
        func.vmap(f, in_dims=({"a": 0, "b": 0}, 1))({"a": x, "b": x}, [y]),
        func.vmap(f)({"a": x, "b": x}, [x]),
        func.vmap(f, in_dims=(0, None))({"a": x, "b": x}, [x[0]]),
    )


@program
def vmap_of_named_tuples_and_ordered_dicts(torch, func):
    x = draw(torch, 0, 2, 3)
    f = lambda p: OrderedDict(a=p.first * 2, b=p.second)
    out = func.vmap(f, in_dims=(Pair(0, None),))(Pair(x, vector(torch)))
    named = func.vmap(lambda x: Pair(x, x * 2))(x)
    return list(out.items()), type(out).__name__, type(named).__name__, named.first, named.second


@program
def vmap_with_out_dims_of_structures(torch, func):
    x = draw(torch, 0, 2, 3)
    f = lambda x: (x, {"a": x * 2, "b": [x.sum()]})
    return [func.vmap(f, out_dims=o)(x) for o in (0, (1, 0), (1, {"a": 1, "b": 0}), (-1, {"a": 0, "b": [0]}), (0, {"a": -2, "b": [-1]}))]


@program
def vmap_with_out_dims_that_are_none(torch, func):
    x = draw(torch, 0, 2, 3)
    y = vector(torch)
    return (
        func.vmap(lambda x: (x, y), out_dims=(0, None))(x),
        func.vmap(lambda x: y * 2, out_dims=None)(x),
        attempt(lambda: func.vmap(lambda x: x, out_dims=None)(x)),
        attempt(lambda: func.vmap(lambda x: (x, x), out_dims=(0, None))(x)),
    )


@program
def vmap_of_unbatched_results(torch, func):
    x = draw(torch, 0, 2, 3)
    return func.vmap(lambda x: torch.ones(2))(x), func.vmap(lambda x: (x, torch.arange(3)), out_dims=(1, 0))(x)


@program
def vmap_of_the_identity(torch, func):
    x = draw(torch, 0, 2, 3)
    return func.vmap(lambda x: x)(x), func.vmap(lambda x: x, 1, 1)(x), func.vmap(lambda x, y: y)(x, x)


@program
def vmap_with_keyword_arguments(torch, func):
    x = draw(torch, 0, 2, 3)
    f = lambda x, y=None, *, k=1: x * k if y is None else x * y
    return func.vmap(f)(x), func.vmap(f)(x, k=3), attempt(lambda: func.vmap(f)(x, y=draw(torch, 1, 2, 3))), func.vmap(f, (0, None))(x, 2.0)


@program
def vmap_with_arguments_that_are_no_tensors(torch, func):
    x = draw(torch, 0, 2, 3)
    f = lambda x, how, n: getattr(x, how)() * n
    return func.vmap(f, in_dims=(0, None, None))(x, "sin", 2), [
        attempt(lambda d=d: func.vmap(f, in_dims=d)(x, "sin", 2)) for d in (0, (0, 0, None), (0, None), (0, None, None, None))
    ]


@program
def vmap_with_in_dims_out_of_range(torch, func):
    x = draw(torch, 0, 2, 3)
    return [attempt(lambda d=d: func.vmap(torch.sin, in_dims=d)(x)) for d in (2, -3, 5, (2,))]


@program
def vmap_with_in_dims_of_wrong_types(torch, func):
    x = draw(torch, 0, 2, 3)
    wrong = (0.0, "0", (0.0,), ("a",), None, (None,), {0: 0}, ({},), ([0],), ((0, 0),), ())
    return [attempt(lambda d=d: func.vmap(torch.sin, in_dims=d)(x)) for d in wrong]


@program
def vmap_with_out_dims_of_wrong_types(torch, func):
    x = draw(torch, 0, 2, 3)
    wrong = (0.0, "0", (0, 0), (0.5,), ("a",), 2, -3, {"a": 0}, [0], ())
    return [attempt(lambda d=d: func.vmap(torch.sin, out_dims=d)(x)) for d in wrong]


@program
def vmap_with_mismatched_batches(torch, func):
    return (
        attempt(lambda: func.vmap(torch.add)(torch.ones(2), torch.ones(3))),
        attempt(lambda: func.vmap(torch.add)(torch.ones(1), torch.ones(3))),
        attempt(lambda: func.vmap(lambda d: d["a"])({"a": torch.ones(2), "b": torch.ones(3)})),
        attempt(lambda: func.vmap(torch.add, (0, 1))(torch.ones(2), torch.ones(2, 3))),
    )


@program
def vmap_over_scalars(torch, func):
    return attempt(lambda: func.vmap(torch.sin)(torch.tensor(1.0))), attempt(lambda: func.vmap(lambda x: x)(1.0))


@program
def vmap_without_arguments(torch, func):
    return (
        attempt(lambda: func.vmap(lambda: torch.ones(2))()),
        attempt(lambda: func.vmap(lambda x: x)(x=torch.ones(2))),
        attempt(lambda: func.vmap(lambda *a: a[0])(())),
    )


@program
def vmap_of_results_that_are_no_tensors(torch, func):
    x = draw(torch, 0, 2, 3)
    return [attempt(lambda r=r: func.vmap(lambda x: r)(x)) for r in (1.0, None, "a", (x[0], 2), {"a": None}, [], {}, ())]


@program
def vmap_of_something_that_is_no_function(torch, func):
    return [attempt(lambda f=f: func.vmap(f)(torch.ones(2))) for f in (3, None, torch.ones(2))]


@program
def vmap_over_an_empty_batch(torch, func):
    return [attempt(lambda f=f: func.vmap(f)(torch.zeros(0, 3))) for f in (torch.sin, lambda x: x.sum(), lambda x: x @ x)]


@program
def vmap_of_vmap_with_swapped_dims(torch, func):
    x, y = draw(torch, 0, 2, 3), draw(torch, 1, 4, 3)
    dot = lambda a, b: (a * b).sum()
    return (
        func.vmap(func.vmap(dot, (None, 0)), (0, None))(x, y),
        func.vmap(func.vmap(dot, (0, None)), (None, 0))(x, y),
        func.vmap(func.vmap(dot, (0, None)), (None, 0), out_dims=1)(x, y),
        func.vmap(func.vmap(torch.mul, (0, None)), (None, 0), 1)(x[0], y[0]),
    )


@program
def vmap_three_deep(torch, func):
    x = draw(torch, 0, 2, 3, 4)
    f = lambda x: x.sin() * x
    g = lambda a, b, c: a * b + c
    deep = func.vmap(func.vmap(func.vmap(g, (0, None, None)), (None, 0, None)), (None, None, 0))
    return func.vmap(func.vmap(func.vmap(f)))(x), deep(draw(torch, 1, 2), draw(torch, 2, 3), draw(torch, 3, 4))


@program
def vmap_closing_over_tensors(torch, func):
    w, x = draw(torch, 0, 3, 4), draw(torch, 1, 2, 4)
    outer = lambda a: func.vmap(lambda b: (a * b).sum() + w.sum())(x)
    return func.vmap(lambda x: w @ x)(x), func.vmap(outer)(x)


# ----- chunks ----------------------------------------------------------------------------------------------------------------------


@program
def vmap_in_chunks(torch, func):
    x, y = draw(torch, 0, 5, 3), draw(torch, 1, 3, 5)
    f = lambda x, y: {"a": x * y, "b": (x.sum(), y)}
    return [func.vmap(f, in_dims=(0, 1), out_dims=d, chunk_size=n)(x, y) for n in (1, 2, 4, 5, 9) for d in (0, {"a": 1, "b": 0})]


@program
def vmap_with_a_bad_chunk_size(torch, func):
    return [attempt(lambda n=n: func.vmap(torch.sin, chunk_size=n)(vector(torch))) for n in (0, -3)]


@program
def vmap_in_chunks_with_randomness(torch, func):
    x = torch.zeros(5, 3)
    f = lambda x: x + torch.rand(3)
    same = func.vmap(f, randomness="same", chunk_size=2)(x)
    different = func.vmap(f, randomness="different", chunk_size=2)(x)
    return same.shape, all_equal(same), different.shape, all_equal(different), attempt(lambda: func.vmap(f, chunk_size=2)(x))


@program
def nested_vmap_in_chunks(torch, func):
    x = draw(torch, 0, 4, 5)
    return func.vmap(func.vmap(torch.sin, chunk_size=2), chunk_size=3)(x), func.grad(
        lambda x: func.vmap(lambda r: (r**2).sum(), chunk_size=3)(x).sum()
    )(x)


# ----- randomness ------------------------------------------------------------------------------------------------------------------


@program
def random_ops_in_error_mode(torch, func):
    x = torch.zeros(4, 3)
    ops = [
        lambda x: torch.rand(3),
        lambda x: torch.randn(3) + x,
        lambda x: torch.rand_like(x),
        lambda x: torch.bernoulli(x),
        lambda x: torch.normal(x, x + 1),
        lambda x: torch.randint(0, 5, (2,)),
        lambda x: torch.randperm(3),
        lambda x: x.clone().uniform_(),
        lambda x: torch.multinomial(x + 1, 2),
        lambda x: torch.nn.functional.dropout(x, 0.5),
    ]
    return [attempt(lambda f=f: func.vmap(f)(x)) for f in ops]


@program
def random_ops_in_the_other_modes(torch, func):
    x = torch.zeros(4, 3)
    ops = {
        "rand": lambda x: torch.rand(8),
        "randn": lambda x: torch.randn(3) + x,
        "rand_like": lambda x: torch.rand_like(x),
        "randn_like": lambda x: torch.randn_like(x),
        "randint": lambda x: torch.randint(0, 1000, (8,)),
        "randint_like": lambda x: torch.randint_like(x, 1000),
        "randperm": lambda x: torch.randperm(50),
        "uniform_": lambda x: x.new_zeros(4).uniform_(),
        "normal_": lambda x: x.new_zeros(4).normal_(),
        "normal": lambda x: torch.normal(0.0, 1.0, (3,)),
        "exponential_": lambda x: x.new_zeros(4).exponential_(),
        "dropout": lambda x: torch.nn.functional.dropout(torch.ones(64), 0.5),
    }
    found = {}
    for name, f in ops.items():
        different, same = func.vmap(f, randomness="different")(x), func.vmap(f, randomness="same")(x)
        found[name] = different.shape, all_equal(different), same.shape, all_equal(same)
    return found


@program
def random_ops_of_batched_parameters(torch, func):
    x = torch.rand(4, 6) * 0.5 + 0.25
    ops = {
        "bernoulli": torch.bernoulli,
        "poisson": torch.poisson,
        "normal": lambda x: torch.normal(x, x),
        "multinomial": lambda x: torch.multinomial(x, 5),
        "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
        "uniform_": lambda x: x.clone().uniform_(),
    }
    found = {}
    for name, f in ops.items():
        found[name] = [attempt(lambda f=f, r=r: func.vmap(f, randomness=r)(x).shape) for r in ("different", "same")]
    return found


@program
def randomness_of_unknown_kind(torch, func):
    return [attempt(lambda r=r: func.vmap(torch.sin, randomness=r)(vector(torch))) for r in ("none", "", None)]


@program
def randomness_of_nested_maps(torch, func):
    x = torch.zeros(4, 5)
    found = {}
    for outer in ("same", "different"):
        for inner in ("same", "different"):
            r = func.vmap(func.vmap(lambda x: x + torch.rand(()), randomness=inner), randomness=outer)(x)
            found[outer, inner] = all_equal(r), all_equal(r.t())
    mixed = attempt(lambda: func.vmap(func.vmap(lambda x: torch.rand(2)), randomness="same")(x))
    return list(found.items()), mixed, attempt(lambda: func.vmap(func.vmap(lambda x: torch.rand(2), randomness="same"))(x))


@program
def random_numbers_of_grads_inside_vmap(torch, func):
    x = draw(torch, 0, 4, 3)
    f = func.grad(lambda x: (x * torch.rand(3)).sum())
    different, same = func.vmap(f, randomness="different")(x), func.vmap(f, randomness="same")(x)
    return different.shape, all_equal(different), all_equal(same), attempt(lambda: func.vmap(f)(x))


@program
def dropout_per_sample(torch, func):
    x = torch.ones(6, 50)
    f = lambda x: torch.nn.functional.dropout(x, 0.5, training=True)
    different, same = func.vmap(f, randomness="different")(x), func.vmap(f, randomness="same")(x)
    kept = func.vmap(lambda x: torch.nn.functional.dropout(x, 0.5, training=False))(x)
    g = func.vmap(func.grad(lambda x: f(x).sum()), randomness="different")(x)
    return all_equal(different), all_equal(same), kept, all_equal(g), bool(((g == 0) | (g == 2)).all())


# ----- programs inside a map -------------------------------------------------------------------------------------------------------


@program
def shapes_seen_inside(torch, func):
    seen = []

    def f(x):
        seen.append((tuple(x.shape), x.dim(), x.numel(), len(x), x.size(0), str(x.dtype).split(".")[-1], x.is_floating_point(), x.stride()))
        return x.new_zeros(2), torch.zeros_like(x), x.new_tensor([1.0]), torch.full_like(x, 2.0)

    return func.vmap(f, in_dims=1)(draw(torch, 0, 4, 3, 2)), seen


@program
def views_inside(torch, func):
    x = draw(torch, 0, 2, 3, 4)
    f = lambda x: [
        x.t(), x[1], x[:, -1], x[..., None], x.reshape(2, 6), x.view(-1), x.permute(1, 0), x.unsqueeze(0), x.squeeze(), x.flatten(),
        x.expand(5, 3, 4), x.transpose(-1, 0), x.diagonal(), x.unfold(1, 2, 2), x.narrow(1, 1, 2), x.movedim(0, 1), x.mT, x.swapaxes(0, 1),
        x[::2], x[None, :, 0], x.select(0, 1), x.unflatten(1, (2, 2)),
    ]  # fmt: skip
    return func.vmap(f)(x)


@program
def splits_and_joins_inside(torch, func):
    x = draw(torch, 0, 2, 6)
    y = torch.arange(6.0)
    f = lambda x: (
        x.chunk(3), x.split([1, 2, 3]), x.unbind(), torch.tensor_split(x, 4), torch.cat([x, y, x]), torch.stack([y, x], 1),
        torch.hstack([x, y]), torch.vstack([y, x]), torch.cat([y, y]), x.repeat(2, 2), x.tile(2), x.roll(1), x.flip(0),
        x.repeat_interleave(2),
    )  # fmt: skip
    return func.vmap(f)(x)


@program
def reductions_inside(torch, func):
    x = draw(torch, 0, 2, 3, 4)
    f = lambda x: (
        x.sum(), x.sum(0), x.sum((0, 1)), x.mean(-1, keepdim=True), x.prod(), x.prod(1), x.var(), x.std(0), x.amax(), x.amin(1), x.argmax(),
        x.argmin(1), tuple(x.max(0)), tuple(x.min(1)), x.max(), x.norm(), x.logsumexp(1), x.cumsum(0), x.cumprod(1), tuple(x.median(0)),
        x.all(), x.any(1), x.count_nonzero(), tuple(x.sort(1)), tuple(x.topk(2)), x.argsort(0), x.trace(), x.softmax(0), x.log_softmax(1),
    )  # fmt: skip
    return func.vmap(f)(x)


@program
def indexing_inside(torch, func):
    x, i = draw(torch, 0, 2, 4, 3), torch.tensor([[0, 3], [2, 2]])
    fixed = torch.tensor([1, 0, 1])
    return (
        func.vmap(lambda x, i: (x[i], x[i, 1], x[:, fixed], x[fixed, fixed], x[i, ..., None], x[0, 1:], x[-1]))(x, i),
        func.vmap(lambda i: x[0][i])(i),
        func.vmap(lambda x: x[fixed][:, fixed])(x),
        func.vmap(lambda x, i: (x.index_select(0, i), x.gather(0, i[:, None]), torch.take_along_dim(x, i[:, None], 0), x.take(i)))(x, i),
    )


@program
def indexing_with_a_batched_number(torch, func):
    x, i = draw(torch, 0, 4), torch.tensor([0, 3, 1])
    return func.vmap(lambda i: x[i])(i), func.vmap(lambda i: x[None, i])(i), func.vmap(lambda i: x.index_select(0, i[None]))(i)


@program
def indexing_with_a_batched_mask(torch, func):
    x = draw(torch, 0, 2, 4)
    return (
        attempt(lambda: func.vmap(lambda x: x[x > 0])(x)),
        attempt(lambda: func.vmap(lambda x: torch.masked_select(x, x > 0))(x)),
        attempt(lambda: func.vmap(lambda x: x.nonzero())(x)),
        attempt(lambda: func.vmap(torch.unique)(x)),
        func.vmap(lambda x: torch.where(x > 0, x, 0.0))(x),
        func.vmap(lambda x: x.masked_fill(x > 0, -1.0))(x),
    )


@program
def where_and_comparisons_inside(torch, func):
    x, y = draw(torch, 0, 2, 3), vector(torch, 1)
    f = lambda x: (torch.where(x > y, x, y), x.clamp(-0.5, 0.5), torch.maximum(x, y), (x < 0) & (y > 0), x.isnan(), x.sign())
    return func.vmap(f)(x), attempt(lambda: func.vmap(lambda x: torch.tensor(torch.equal(x, y)))(x))


@program
def matrix_products_inside(torch, func):
    a, b, v = draw(torch, 0, 2, 3, 4), draw(torch, 1, 2, 4, 3), draw(torch, 2, 2, 4)
    fixed = draw(torch, 3, 4, 5)
    return (
        func.vmap(lambda a, b: (a @ b, torch.mm(a, b), torch.matmul(b, a)))(a, b),
        func.vmap(lambda a, v: (a @ v, torch.mv(a, v), v @ fixed, torch.dot(v, v), torch.outer(v, v), torch.einsum("ij,j->i", a, v)))(a, v),
        func.vmap(lambda a: a @ fixed)(a),
        func.vmap(lambda v: a[0] @ v)(v),
        func.vmap(lambda a, b: torch.bmm(a.expand(5, 3, 4), b.expand(5, 4, 3)))(a, b),
        func.vmap(lambda a, b: torch.tensordot(a, b, dims=([1], [0])))(a, b),
        func.vmap(lambda v: torch.kron(v[:2], v[2:]))(v),
    )


@program
def linear_algebra_inside(torch, func):
    a, b = positive_definite(torch, 0, 2), draw(torch, 1, 2, 3)
    f = lambda a, b: (
        torch.linalg.solve(a, b), torch.linalg.inv(a), torch.linalg.det(a), tuple(torch.linalg.slogdet(a)), torch.linalg.cholesky(a),
        torch.linalg.eigvalsh(a), torch.linalg.svdvals(a), torch.linalg.norm(a), torch.linalg.vector_norm(b),
        torch.linalg.matrix_power(a, 3),
        torch.linalg.matrix_exp(a / 9), torch.linalg.pinv(a),
        torch.linalg.solve_triangular(torch.linalg.cholesky(a), b[:, None], upper=False),
        torch.linalg.qr(a)[1].abs(), torch.trace(a), torch.tril(a), torch.triu(a, 1), torch.diag(b), torch.diag_embed(b),
        torch.cross(b, b + 1, dim=0),
        torch.linalg.lstsq(a, b[:, None]).solution, torch.linalg.matrix_rank(a), torch.cdist(a, a),
    )  # fmt: skip
    return func.vmap(f)(a, b)


@program
def linear_algebra_with_one_batched_operand(torch, func):
    a, b = positive_definite(torch, 0, 2), draw(torch, 1, 2, 3)
    return (
        func.vmap(torch.linalg.solve, (0, None))(a, b[0]),
        func.vmap(torch.linalg.solve, (None, 0))(a[0], b),
        func.vmap(lambda b: torch.cholesky_solve(b[:, None], torch.linalg.cholesky(a[0])))(b),
        func.vmap(lambda a: torch.linalg.multi_dot([a, a[:, :2], a[:2]]))(a),
    )


@program
def fourier_transforms_inside(torch, func):
    x = draw(torch, 0, 2, 4, 6)
    f = lambda x: (torch.fft.fft(x), torch.fft.rfft(x, dim=0), torch.fft.fft2(x), torch.fft.irfft(torch.fft.rfft(x)), torch.fft.fftshift(x))
    return func.vmap(f)(x), func.vmap(func.grad(lambda x: torch.fft.fft(x).abs().sum()))(x)


@program
def complex_numbers_inside(torch, func):
    z = draw_complex(torch, 0, 2, 3)
    f = lambda z: (z.real, z.imag, z.conj(), z.abs(), z.angle(), torch.view_as_real(z), z * 1j, z.exp(), z.is_complex() and z.real + 1)
    return func.vmap(f)(z), func.vmap(func.grad(lambda z: (z * z).abs().sum()))(z)


@program
def factories_inside(torch, func):
    x = draw(torch, 0, 2, 3)
    f = lambda x: (
        torch.arange(3) + x,
        torch.eye(3) * x,
        torch.linspace(0, 1, 3) * x,
        torch.zeros(2),
        torch.empty(0),
        torch.tensor([1.0, 2.0]),
    )
    return func.vmap(f)(x)


@program
def clones_contiguity_and_casts_inside(torch, func):
    x = draw(torch, 0, 2, 3, 4)
    f = lambda x: (
        x.clone(),
        x.t().contiguous(),
        x.to(torch.float32),
        x.long(),
        x.bool(),
        x.double(),
        x.type_as(torch.ones(1, dtype=torch.int32)),
    )
    return func.vmap(f)(x), func.vmap(lambda x: (x.contiguous() is x, x.is_contiguous()) and x)(x)


@program
def sorting_and_searching_inside(torch, func):
    x, edges = draw(torch, 0, 2, 5), torch.tensor([-1.0, 0.0, 1.0])
    sorted_ = x.sort(-1)[0]
    return (
        func.vmap(lambda x: torch.bucketize(x, edges))(x),
        func.vmap(lambda s, x: torch.searchsorted(s, x))(sorted_, x),
        func.vmap(lambda x: (x.kthvalue(2)[0], x.quantile(0.5), x.nanmedian()))(x),
        func.vmap(lambda x: torch.isin(x, edges))(x),
    )


@program
def rearranged_dimensions(torch, func):
    x = draw(torch, 0, 2, 3, 4)
    patterns = {
        "a b c -> c a b": {},
        "a b c -> (c a) b": {},
        "a b (c d) -> a d (b c)": {"d": 2},
        "... c -> c ...": {},
        "a b c -> a 1 (b c)": {},
    }
    wrong = {"a b -> b a": {}, "a b c -> a b": {}, "a a b -> a b a": {}, "a b c": {}, "a b c -> a b c": {"e": 1}}
    return (
        [func.rearrange(x, p, **k) for p, k in patterns.items()],
        [attempt(lambda p=p, k=k: func.rearrange(x, p, **k)) for p, k in wrong.items()],
        func.rearrange([x[0], x[1]], "a b c -> b (a c)"),
    )


# ----- programs that cannot be batched -----------------------------------------------------------------------------------------------


@program
def item_inside(torch, func):
    x = draw(torch, 0, 3)
    return [
        attempt(lambda f=f: func.vmap(f)(x))
        for f in (
            lambda x: x.item(),
            lambda x: torch.tensor(float(x)),
            lambda x: torch.tensor(int(x)),
            lambda x: x.tolist(),
            lambda x: x * float(x),
        )
    ]


@program
def item_of_an_unbatched_tensor_inside(torch, func):
    y = torch.tensor(2.0)
    return func.vmap(lambda x: x * y.item())(vector(torch)), func.vmap(lambda x: x if y > 1 else -x)(vector(torch))


@program
def control_flow_on_batched_values(torch, func):
    x = vector(torch)

    def branch(x):
        return x if x > 0 else -x

    def loop(x):
        while x < 10:
            x = x * 2
        return x

    def asserting(x):
        assert x > -100
        return x

    return [
        attempt(lambda f=f: func.vmap(f)(x))
        for f in (branch, loop, asserting, lambda x: x and x, lambda x: not x, lambda x: range(x.long()))
    ]


@program
def control_flow_inside_grad(torch, func):
    f = lambda x: (x if x.sum() > 0 else -x * 2).sum() * float(x[0].item() > 0)
    return func.grad(f)(vector(torch)), func.grad(f)(-vector(torch)), func.jvp(f, (vector(torch),), (vector(torch, 1),))


@program
def numpy_inside(torch, func):
    x = draw(torch, 0, 2, 3)
    return attempt(lambda: func.vmap(lambda x: torch.tensor(x.numpy()))(x)), attempt(
        lambda: func.grad(lambda x: torch.tensor(x.numpy()).sum())(x)
    )


@program
def data_inside(torch, func):
    x = draw(torch, 0, 2, 3)
    return attempt(lambda: func.vmap(lambda x: x.data * 2)(x)), attempt(lambda: func.grad(lambda x: (x.data * x).sum())(x))


@program
def iteration_inside(torch, func):
    x = draw(torch, 0, 2, 3)
    return (
        func.vmap(lambda x: sum(r * k for k, r in enumerate(x)))(x),
        func.vmap(lambda x: torch.stack([*x][::-1]))(x),
        func.grad(lambda x: sum(r.sum() * k for k, r in enumerate(x)))(x),
    )


@program
def printing_inside(torch, func):
    seen = []
    func.vmap(lambda x: (seen.append(len(repr(x)) > 0), x)[1])(vector(torch))
    func.grad(lambda x: (seen.append(len(str(x)) > 0), x.sum())[1])(vector(torch))
    return seen


@program
def errors_of_ops_inside(torch, func):
    x = draw(torch, 0, 2, 3)
    return [
        attempt(lambda f=f: func.vmap(f)(x))
        for f in (
            lambda x: x @ torch.ones(4),
            lambda x: x + torch.ones(2),
            lambda x: x[5],
            lambda x: x.view(2),
            lambda x: x.sum(3),
            lambda x: 1 / 0,
        )
    ]


# ----- the ordinary graph and vmap -----------------------------------------------------------------------------------------------


@program
def backward_through_vmap(torch, func):
    x = draw(torch, 0, 2, 3).requires_grad_()
    w = vector(torch, 1).requires_grad_()
    out = func.vmap(lambda x: (x * w).sin())(x)
    out.sum().backward()
    return out, x.grad, w.grad


@program
def autograd_grad_inside_vmap(torch, func):
    x = vector(torch).requires_grad_()
    y = x**3
    rows = func.vmap(lambda v: torch.autograd.grad(y, x, v, retain_graph=True)[0])(torch.eye(3))
    return rows, torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)


@program
def autograd_grad_of_a_batched_function_inside_vmap(torch, func):
    x = draw(torch, 0, 2, 3).requires_grad_()

    def f(x):
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return g

    return attempt(lambda: func.vmap(f)(x))


@program
def requires_grad_inside_vmap(torch, func):
    def f(x):
        x.requires_grad_()
        return x * 2

    return attempt(lambda: func.vmap(f)(draw(torch, 0, 2, 3))), func.vmap(lambda x: x * 2)(draw(torch, 0, 2, 3).requires_grad_())


@program
def backward_inside_vmap(torch, func):
    w = vector(torch).requires_grad_()

    def f(x):
        (w * x).sum().backward()
        return x

    return attempt(lambda: func.vmap(f)(draw(torch, 0, 2, 3)))
