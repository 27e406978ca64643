"""A seed gives torch's numbers on the CPU: the same values, the same state of the generator afterwards."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import ndgrad

SEEDS = (0, 2**40 + 12345)
SIZES = ((), (1,), (15,), (16,), (17,), (7, 9), (1, 700), (0,))


@pytest.fixture(autouse=True)
def float32() -> Iterator[None]:
    torch.set_default_dtype(torch.float32)
    ndgrad.set_default_dtype(ndgrad.float32)
    yield
    torch.set_default_dtype(torch.float32)
    ndgrad.set_default_dtype(ndgrad.float64)


def draws_bernoulli_by_mkl() -> bool:
    """True on Intel's processors, on which torch draws these numbers by another library."""
    generator = torch.Generator()
    torch.empty(5).bernoulli_(0.5, generator=generator)
    return generator.get_state()[16].item() != 10


without_mkl = pytest.mark.skipif(draws_bernoulli_by_mkl(), reason="torch draws by MKL on this processor")


#: Tolerance for doubles made by logarithms and trigonometric functions: NumPy's differ in the last bit between processors.
ROUNDING = 1e-15


def rounding_of(dtype: str) -> float:
    """Return the tolerance for numbers of a dtype that are made by such functions. Narrower dtypes round it away."""
    return ROUNDING if dtype in ("float64", "complex128") else 0.0


def as_array(x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return [as_array(y) for y in x]
    if hasattr(x, "detach"):
        x = x.detach()
        x = x if x.is_complex() else x.double()
        return np.asarray(x)
    return x


def check(program: Callable[[Any], Any], rtol: float = 0.0, seeds: tuple[int, ...] = SEEDS) -> None:
    atol = ROUNDING if rtol == ROUNDING else 1e-7
    for seed in seeds:
        results, dtypes = [], []
        for library in (torch, ndgrad):
            library.manual_seed(seed)
            made = program(library)
            results.append(as_array(made))
            dtypes.append(str(getattr(made, "dtype", "")).split(".")[-1])
        assert dtypes[0] == dtypes[1]
        same = np.testing.assert_array_equal if rtol == 0 else lambda a, b: np.testing.assert_allclose(b, a, rtol, atol)
        expected, found = (r if isinstance(r, list) else [r] for r in results)
        assert len(expected) == len(found)
        for a, b in zip(expected, found, strict=True):
            if isinstance(a, list):
                assert a == b
            else:
                same(a, b)
        assert np.asarray(ndgrad.get_rng_state()).tobytes() == torch.get_rng_state().numpy().tobytes()


# ----- distributions --------------------------------------------------------------------------------------------------

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
@pytest.mark.parametrize(
    "draw",
    [
        lambda t, size, dtype: t.rand(size, dtype=dtype),
        lambda t, size, dtype: t.randn(size, dtype=dtype),
        lambda t, size, dtype: t.empty(size, dtype=dtype).uniform_(-1 / 3, 0.7),
        lambda t, size, dtype: t.empty(size, dtype=dtype).normal_(0.3, 0.7),
    ],
    ids=["rand", "randn", "uniform_", "normal_"],
)
def test_uniform_and_normal_numbers(draw: Any, dtype: str, request: pytest.FixtureRequest) -> None:
    rtol = rounding_of(dtype) if "norm" in request.node.name or "randn" in request.node.name else 0.0
    for size in SIZES:
        check(lambda t, size=size: draw(t, size, getattr(t, dtype)), rtol)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("log_normal_", (0.3, 0.7)),
        ("cauchy_", (0.3, 1.7)),
        ("geometric_", (0.3,)),
        pytest.param("exponential_", (1.7,), marks=without_mkl),
    ],
)
def test_numbers_made_of_doubles(name: str, arguments: Any, dtype: str) -> None:
    for size in SIZES:
        check(lambda t, size=size: getattr(t.empty(size, dtype=getattr(t, dtype)), name)(*arguments), rounding_of(dtype))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_integers(dtype: str) -> None:
    for size in SIZES:
        check(lambda t, size=size: t.empty(size, dtype=getattr(t, dtype)).random_())
        if dtype != "bool":
            check(lambda t, size=size: t.empty(size, dtype=getattr(t, dtype)).random_(3, 100))
            check(lambda t, size=size: t.randint(0, 17, size, dtype=getattr(t, dtype)))


@pytest.mark.parametrize(("low", "high"), [(0, 2**28 - 1), (0, 2**28), (-100, 2**40), (-(2**63), 2**63 - 1)])
def test_integers_of_wide_ranges(low: int, high: int) -> None:
    check(lambda t: t.randint(low, high, (50,)))
    check(lambda t: t.empty(50, dtype=t.int64).random_(-(2**63), None))


def test_permutations() -> None:
    for n in (0, 1, 2, 5, 100, 4095, 5000):
        check(lambda t, n=n: t.randperm(n))
        check(lambda t, n=n: t.randperm(n, dtype=t.int32))


@without_mkl
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_bernoulli(dtype: str) -> None:
    for size in SIZES:
        check(lambda t, size=size: t.empty(size, dtype=getattr(t, dtype)).bernoulli_(0.3))
        check(lambda t, size=size: t.empty(size, dtype=getattr(t, dtype)).bernoulli_(t.rand(size)))
        if dtype in FLOATS:
            check(lambda t, size=size: t.bernoulli(t.rand(size, dtype=getattr(t, dtype))))


@without_mkl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("count", "replacement"), [(1, False), (1, True), (20, False), (50, False), (200, True)])
def test_multinomial(count: int, replacement: bool, dtype: str) -> None:
    for size in ((50,), (4, 50)):
        check(lambda t, size=size: t.multinomial(t.rand(size, dtype=getattr(t, dtype)), count, replacement))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions_given_by_tensors(dtype: str) -> None:
    def rand(t: Any, *size: int) -> Any:
        return t.rand(*size, dtype=getattr(t, dtype))

    check(lambda t: t.poisson(rand(t, 9, 30) * 30))
    check(lambda t: t.binomial(t.randint(0, 100, (9, 30)).to(getattr(t, dtype)), rand(t, 9, 30)))
    check(lambda t: t.binomial(t.full((100,), 1e6, dtype=getattr(t, dtype)), rand(t, 100)))
    check(lambda t: t._standard_gamma(rand(t, 9, 30) * 3), rounding_of(dtype))
    check(lambda t: t._sample_dirichlet(rand(t, 9, 30) * 3), rtol=1e-6)
    check(lambda t: t.normal(rand(t, 9, 30), rand(t, 30)), rounding_of(dtype))
    check(lambda t: t.normal(rand(t, 9, 30), 0.7), rounding_of(dtype))
    check(lambda t: t.normal(0.3, rand(t, 9, 30)), rounding_of(dtype))


@pytest.mark.parametrize("name", ["uniform_", "normal_", "random_", "cauchy_"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x[::2],
        lambda x: x.reshape(4, 5, 20).permute(2, 0, 1),
        lambda x: x.unsqueeze(1).transpose(0, 2),
    ],
)
def test_memory_is_filled_in_its_order(view: Any, name: str) -> None:
    check(lambda t: getattr(view(t.zeros(20, 20)), name)())
    check(lambda t: t.rand_like(view(t.zeros(20, 20))))
    check(lambda t: t.randn_like(view(t.zeros(20, 20))))


def test_normal_numbers_keep_the_second_of_a_pair() -> None:
    check(lambda t: [t.randn(1), t.rand(1), t.randn(1, dtype=t.float64), t.randn(20), t.randn(3), t.randn(4, 5).t().normal_()])


# ----- states ---------------------------------------------------------------------------------------------------------


def test_states_are_exchanged_with_torch() -> None:
    ours, theirs = ndgrad.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    for count in (0, 1, 3, 600, 19, 1, 624):
        torch.rand(count, generator=theirs)
        torch.randn(1, generator=theirs)
        ours.set_state(ndgrad.tensor(theirs.get_state().numpy()))
        assert ours.initial_seed() == theirs.initial_seed()
        assert np.asarray(ours.get_state()).tobytes() == theirs.get_state().numpy().tobytes()
        assert ndgrad.randn(5, generator=ours).tolist() == torch.randn(5, generator=theirs).tolist()
        back = torch.Generator().set_state(torch.from_numpy(np.asarray(ours.get_state()).copy()))
        assert torch.rand(3, generator=back).tolist() == ndgrad.rand(3, generator=ours).tolist()
        theirs = back


def test_fork_rng_copies_and_pickles() -> None:
    def program(t: Any) -> Any:
        with t.random.fork_rng():
            inside = t.rand(3)
        generator = t.Generator().manual_seed(3)
        t.randn(1, generator=generator)
        copies = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)), generator.clone_state()]
        return [inside, t.rand(3), *(t.randn(3, generator=g) for g in copies), t.randn(3, generator=generator)]

    check(program)


def test_loaded_states_continue_a_run() -> None:
    """A checkpoint written by torch resumes the numbers here."""
    torch.manual_seed(4)
    torch.randn(3)
    file = io.BytesIO()
    torch.save({"rng": torch.get_rng_state()}, file)
    file.seek(0)
    ndgrad.set_rng_state(ndgrad.load(file)["rng"])
    assert ndgrad.randn(20).tolist() == torch.randn(20).tolist()


# ----- layers, initial values, data -----------------------------------------------------------------------------------


@without_mkl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("layer", "rtol"),
    [
        (lambda F, x: F.dropout(x, 0.3), 0),
        (lambda F, x: F.dropout(x.transpose(1, 2), 0.3), 0),
        (lambda F, x: F.dropout(x * 1, 0.3, inplace=True), 0),
        (lambda F, x: F.dropout1d(x, 0.3), 0),
        (lambda F, x: F.dropout2d(x.unsqueeze(3), 0.3), 0),
        (lambda F, x: F.dropout3d(x.unsqueeze(3).unsqueeze(4), 0.3), 0),
        (lambda F, x: F.alpha_dropout(x, 0.3, True), 0),
        (lambda F, x: F.feature_alpha_dropout(x, 0.3, True), 0),
        (lambda F, x: F.rrelu(x - 0.5, training=True), 2e-7),
        (lambda F, x: F.gumbel_softmax(x.transpose(0, 2)), 1e-6),
        (lambda F, x: F.fractional_max_pool2d(x.unsqueeze(0), 2, output_ratio=(0.6, 0.6)), 0),
        (lambda F, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.3), 1e-5),
    ],
)
def test_layers_that_draw(layer: Any, rtol: float, dtype: str) -> None:
    check(lambda t: layer(t.nn.functional, t.rand(6, 10, 12, dtype=getattr(t, dtype))), rtol)


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.Linear(20, 30),
        lambda nn: nn.Bilinear(5, 6, 7),
        lambda nn: nn.Conv2d(4, 6, 3, groups=2),
        lambda nn: nn.ConvTranspose2d(4, 6, 3),
        lambda nn: nn.Embedding(30, 20, padding_idx=3),
        lambda nn: nn.EmbeddingBag(30, 20),
        lambda nn: nn.LSTM(5, 7, 2, bidirectional=True, proj_size=3),
        lambda nn: nn.GRUCell(5, 7),
        lambda nn: nn.MultiheadAttention(8, 2, kdim=4, vdim=5, add_bias_kv=True),
        lambda nn: nn.Transformer(8, 2, 2, 2, 16),
        lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]),
    ],
)
def test_parameters_of_new_modules(make: Any) -> None:
    check(lambda t: list(make(t.nn).state_dict().values()))


@pytest.mark.parametrize(
    ("name", "arguments", "rtol"),
    [
        ("uniform_", (), 0),
        ("normal_", (), 0),
        ("trunc_normal_", (), 0),
        ("trunc_normal_", (0.1, 0.02, -0.04, 0.03), 0),
        ("trunc_normal_", (0.0, 1.0, 2.0, 3.0), 0),
        ("xavier_uniform_", (1.3,), 0),
        ("xavier_normal_", (1.3,), 0),
        ("kaiming_uniform_", (), 0),
        ("kaiming_normal_", (), 0),
        ("orthogonal_", (), 1e-4),
        ("sparse_", (0.3,), 0),
    ],
)
def test_initial_values(name: str, arguments: Any, rtol: float) -> None:
    check(lambda t: getattr(t.nn.init, name)(t.empty(12, 20), *arguments), rtol)
    check(lambda t: getattr(t.nn.init, name)(t.empty(12, 20), *arguments, generator=t.Generator().manual_seed(9)), rtol)


DATA = list(range(25))


@pytest.mark.parametrize(
    "program",
    [
        lambda t, d: list(d.RandomSampler(DATA)),
        lambda t, d: list(d.RandomSampler(DATA, replacement=True, num_samples=70)),
        lambda t, d: list(d.RandomSampler(DATA, num_samples=70)),
        lambda t, d: list(d.RandomSampler(DATA, generator=t.Generator().manual_seed(2))),
        lambda t, d: list(d.SubsetRandomSampler(DATA)),
        lambda t, d: list(d.WeightedRandomSampler([0.1, 0.5, 2.0, 0.0, 3.0], 20)),
        lambda t, d: [b.tolist() for _ in range(2) for b in d.DataLoader(DATA, 4, shuffle=True)],
        lambda t, d: [b.tolist() for b in d.DataLoader(DATA, 4)],
        lambda t, d: [b.tolist() for b in d.DataLoader(DATA, 4, shuffle=True, generator=t.Generator().manual_seed(3))],
        lambda t, d: [list(part.indices) for part in d.random_split(DATA, [0.5, 0.3, 0.2])],
        lambda t, d: list(d.distributed.DistributedSampler(DATA, 3, 1, seed=4)),
    ],
)
def test_samplers_and_loaders(program: Any) -> None:
    check(lambda t: [[program(t, t.utils.data)]])


def test_a_sampler_with_replacement_is_lazy() -> None:
    def program(t: Any) -> Any:
        t.utils.data.RandomSampler(DATA, replacement=True, num_samples=10**10)
        sampler = iter(t.utils.data.RandomSampler(DATA, replacement=True, num_samples=10**10))
        return [next(sampler) for _ in range(40)]

    check(program)


class Draws(torch.utils.data.Dataset):
    """Random numbers of a worker's three global generators."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        import random

        return [float(self.library.rand(1)), random.random(), float(np.random.rand())]


@pytest.mark.parametrize("persist", [False, True])
def test_workers_are_seeded_as_in_torch(persist: bool) -> None:
    found = []
    for library in (torch, ndgrad):
        library.manual_seed(1)
        loader = library.utils.data.DataLoader(Draws(library), num_workers=2, collate_fn=list, batch_size=2, persistent_workers=persist)
        found.append([*loader, *loader, library.rand(1).item()])
        del loader
    assert found[0] == found[1]


@without_mkl
@pytest.mark.parametrize(
    "make",
    [
        lambda d, x: d.Normal(x, x), lambda d, x: d.LogNormal(x, x), lambda d, x: d.Uniform(x, x + 1), lambda d, x: d.Beta(x, 2 * x),
        lambda d, x: d.Gamma(x, 2 * x), lambda d, x: d.Dirichlet(x), lambda d, x: d.Exponential(x), lambda d, x: d.Laplace(x, x),
        lambda d, x: d.Cauchy(x, x), lambda d, x: d.HalfNormal(x), lambda d, x: d.Gumbel(x, x), lambda d, x: d.Weibull(x, x),
        lambda d, x: d.Pareto(x, x), lambda d, x: d.StudentT(x + 1), lambda d, x: d.Chi2(x), lambda d, x: d.VonMises(x, x),
        lambda d, x: d.Kumaraswamy(x, x), lambda d, x: d.Bernoulli(x / 4), lambda d, x: d.Binomial(10, x / 4),
        lambda d, x: d.Categorical(x), lambda d, x: d.Categorical(logits=x), lambda d, x: d.OneHotCategorical(x),
        lambda d, x: d.Multinomial(10, x), lambda d, x: d.Geometric(x / 4), lambda d, x: d.NegativeBinomial(x, x / 4),
        lambda d, x: d.Poisson(9 * x), lambda d, x: d.RelaxedBernoulli(x[0], x / 4), lambda d, x: d.RelaxedOneHotCategorical(x[0], x),
        lambda d, x: d.MultivariateNormal(x, x.diag()), lambda d, x: d.ContinuousBernoulli(x / 4),
    ],
)  # fmt: skip
def test_samples_of_distributions(make: Any) -> None:
    check(lambda t: make(t.distributions, t.tensor([0.5, 1.5, 2.5])).sample((30,)), rtol=1e-5)
    check(lambda t: make(t.distributions, t.tensor([0.5, 1.5, 2.5])).sample(), rtol=1e-5)


# ----- transforms and a training run ----------------------------------------------------------------------------------


@without_mkl
@pytest.mark.parametrize("randomness", ["different", "same"])
def test_vmap(randomness: str) -> None:
    functions = [
        lambda t, x: x + t.randn(3),
        lambda t, x: t.nn.functional.dropout(x, 0.4),
        lambda t, x: x + t.randperm(4)[0],
        lambda t, x: t.randn_like(x),
        lambda t, x: x + t.randint(0, 9, (3,)),
    ]
    for f in functions:
        check(lambda t, f=f: t.func.vmap(lambda x: f(t, x), randomness=randomness)(t.ones(20, 3)))


@without_mkl
def test_checkpoint_draws_the_same_again() -> None:
    def program(t: Any) -> Any:
        x = t.rand(20, requires_grad=True)
        y = t.utils.checkpoint.checkpoint(lambda x: t.nn.functional.dropout(x * t.randn(20), 0.4), x, use_reentrant=False)
        y.sum().backward()
        return [y, x.grad, t.rand(2)]

    check(program)


def train(t: Any, compiled: bool = False) -> list[float]:
    """A seeded run: initial values, a shuffled loader, dropout and AdamW."""
    t.manual_seed(0)
    x = t.randn(200, 8)
    y = (x[:, :3].sum(1, keepdim=True) + 0.1 * t.randn(200, 1)).tanh()
    train_set, _ = t.utils.data.random_split(t.utils.data.TensorDataset(x, y), [0.8, 0.2])
    loader = t.utils.data.DataLoader(train_set, batch_size=32, shuffle=True)
    nn = t.nn
    model = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
    step = t.compile(model) if compiled else model
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(step(inputs), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@without_mkl
@pytest.mark.parametrize("compiled", [False, True])
def test_a_seeded_training_run_prints_torchs_losses(compiled: bool) -> None:
    expected, found = train(torch), train(ndgrad, compiled)
    assert [f"{loss:.4f}" for loss in found] == [f"{loss:.4f}" for loss in expected]
    assert len(expected) == 20
    assert expected[-1] < expected[0] / 3
