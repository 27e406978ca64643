"""Programs in HIPS autograd's language. Each takes the library as a namespace `A` (A.np, A.grad, ...) and returns what it computed.

They are small versions of what people wrote with it: models, samplers, simulations, optimizers, and each operator and rule once at least.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as onp

PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[f.__name__] = f
    return f


def data(*shape: int, seed: int = 0) -> Any:
    return onp.random.RandomState(seed).randn(*shape)


# ----- operators -----------------------------------------------------------------------------------------------------------


@program
def gradient_of_a_float(A):
    def taylor_sine(x):
        ans = term = x
        i = 0
        while A.np.abs(term) > 0.0001:
            term = -term * x * x / ((2 * i + 3) * (2 * i + 2))
            ans = ans + term
            i += 1
        return ans

    return A.grad(taylor_sine)(0.7), A.grad(A.grad(taylor_sine))(0.7)


@program
def tanh_to_the_sixth_derivative(A):
    d = A.np.tanh
    values = []
    for _ in range(6):
        d = A.elementwise_grad(d)
        values.append(d(A.np.linspace(-2, 2, 5)))
    return values


@program
def nested_structures(A):
    def loss(p):
        total = 0.0
        for layer in p["layers"]:
            W, b = layer
            total = total + A.np.sum(W**2) * b
        return total + p["scale"] ** 3

    params = {"layers": [(data(2, 3), 1.5), (data(3), 0.5)], "scale": 2.0}
    return A.value_and_grad(loss)(params)


@program
def several_arguments(A):
    def f(a, b, c=1.0):
        return A.np.sum(a * b**2) * c

    return (
        A.grad(f, (0, 1))(data(3), data(3, seed=1)),
        A.grad(f, 1)(data(3), data(3, seed=1), c=2.0),
        A.grad_named(f, "b")(data(3), data(3)),
    )


@program
def jacobians(A):
    def f(x):
        return A.np.dot(data(3, 4), A.np.sin(x))

    return A.jacobian(f)(data(4)), A.jacobian(lambda x: A.np.outer(x, x**2))(data(3)), A.jacobian(A.np.sum)(data(3))


@program
def hessians(A):
    def rosenbrock(x):
        return A.np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    x, v = data(4), data(4, seed=1)
    return (
        A.hessian(rosenbrock)(x), A.hessian_vector_product(rosenbrock)(x, v), A.hessian_tensor_product(rosenbrock)(x, v),
        A.make_hvp(rosenbrock)(x)[0](v), A.make_hvp(rosenbrock)(x)[1],
    )  # fmt: skip


@program
def products_with_jacobians(A):
    def f(x):
        return A.np.tanh(A.np.dot(data(3, 4), x))

    x, u, v = data(4), data(3, seed=2), data(4, seed=3)
    vjp, value = A.make_vjp(f)(x)
    return (
        value, vjp(u), A.make_jvp(f)(x)(v), A.vector_jacobian_product(f)(x, u), A.tensor_jacobian_product(f)(x, u),
        A.make_jvp_reversemode(f)(x)(v), A.make_ggnvp(f)(x)(v), A.make_ggnvp(f, lambda y: A.np.sum(A.np.exp(y)))(x)(v),
    )  # fmt: skip


@program
def forward_derivatives(A):
    return A.deriv(lambda t: A.np.array([A.np.cos(t), A.np.sin(t), t**2]))(0.3), A.deriv(A.np.tanh)(data(3)), A.deriv(A.grad(A.np.exp))(0.2)


@program
def auxiliary_outputs(A):
    return A.grad_and_aux(lambda x: (A.np.sum(x**2), 5.0))(data(3))


@program
def complex_gradients(A):
    z = data(3) + 1j * data(3, seed=1)

    def f(z):
        w = z**2 + A.np.conj(z) * A.np.exp(1j * z)
        return A.np.sum(A.np.abs(w) ** 2 + A.np.real(z) * A.np.imag(w) + A.np.angle(z))

    return A.grad(f)(z), A.value_and_grad(lambda z: A.np.real(A.np.sum(z * z * z)))(z)


@program
def holomorphic_derivatives(A):
    z = 0.4 + 1.2j
    return [A.holomorphic_grad(f)(z) for f in (A.np.exp, A.np.sin, lambda z: z**3 + 1 / z, A.np.tanh, A.np.sqrt, A.np.log)]


@program
def complex_vjp_and_jvp(A):
    def f(z):
        return z**2 * A.np.conj(z)

    z, g = data(3) + 1j * data(3, seed=1), data(3, seed=2) + 1j * data(3, seed=3)
    return A.make_vjp(f)(z)[0](g), A.make_jvp(f)(z)(g)


@program
def independent_output(A):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = A.grad(lambda x: 3.0)(data(2)), A.grad(lambda x: A.np.sum(A.np.floor(x)))(data(2))
    return result, [str(w.message) for w in caught][:1]


@program
def checkpointed(A):
    def block(x, w):
        return A.np.tanh(A.np.dot(w, x))

    def loss(w):
        x = data(3)
        for _ in range(3):
            x = A.checkpoint(block)(x, w)
        return A.np.sum(x**2)

    return A.grad(loss)(data(3, 3))


@program
def float32_stays(A):
    g = A.grad(lambda x: A.np.sum(A.np.sin(x)))(data(3).astype("float32"))
    return g, str(g.dtype)


# ----- primitives ---------------------------------------------------------------------------------------------------------------


@program
def a_primitive_of_ones_own(A):
    @A.primitive
    def logsumexp(x):
        top = onp.max(x)
        return top + onp.log(onp.sum(onp.exp(x - top)))

    A.defvjp(logsumexp, lambda ans, x: lambda g: A.np.full(x.shape, g) * A.np.exp(x - A.np.full(x.shape, ans)))
    A.defjvp(logsumexp, lambda g, ans, x: A.np.sum(g * A.np.exp(x - ans)))

    def f(y):
        return logsumexp(y**2)

    x = data(4)
    return f(x), A.grad(f)(x), A.hessian(f)(x), A.make_jvp(f)(x)(data(4, seed=1)), A.jacobian(lambda x: A.np.sin(x) * f(x))(x)


@program
def a_primitive_of_several_arguments(A):
    @A.primitive
    def mix(a, b, power=2):
        return onp.asarray(a) * onp.asarray(b) ** power

    A.defvjp(mix, lambda ans, a, b, power=2: lambda g: g * b**power, lambda ans, a, b, power=2: lambda g: g * a * power * b ** (power - 1))
    A.defjvp(mix, "same", lambda g, ans, a, b, power=2: g * a * power * b ** (power - 1))
    a, b = data(3), data(3, seed=1)

    def f(a, b):
        return A.np.sum(mix(a, b, power=3))

    return A.grad(f, (0, 1))(a, b), A.hessian(f, 1)(a, b), A.make_jvp(f, 1)(a, b)(data(3, seed=2)), A.grad(f)(a, 2.0)


@program
def a_primitive_with_one_rule_for_all(A):
    @A.primitive
    def weighted(a, b, c):
        return onp.sum(a * b * c)

    def rule(argnums, ans, args, kwargs):
        product = [args[(n + 1) % 3] * args[(n + 2) % 3] for n in argnums]
        return lambda g: [g * p for p in product]

    A.defvjp_argnums(weighted, rule)
    A.defjvp_argnums(
        weighted,
        lambda argnums, gs, ans, args, kwargs: sum(A.np.sum(g * args[(n + 1) % 3] * args[(n + 2) % 3]) for n, g in zip(argnums, gs)),
    )
    args = data(3), data(3, seed=1), data(3, seed=2)
    return A.grad(weighted, (0, 2))(*args), A.jacobian(A.grad(weighted, 0), 1)(*args), A.make_jvp(weighted)(*args)(data(3, seed=3))


@program
def an_undifferentiable_primitive(A):
    @A.primitive
    def place(x):
        return onp.argmax(x)

    A.defvjp(place, None)
    return A.grad(lambda x: x[place(x._value)] ** 2)(data(4))


# ----- NumPy ------------------------------------------------------------------------------------------------------------------------


@program
def arrays_of_results(A):
    def f(x):
        rows = [A.np.array([A.np.cos(t), A.np.sin(t)]) for t in x]
        return A.np.sum(A.np.array(rows) ** 3) + A.np.sum(A.np.concatenate(rows)) + A.np.sum(A.np.stack(rows) * A.np.array([[1.0, 2.0]]))

    return A.grad(f)(data(3))


@program
def reductions(A):
    def f(x):
        parts = [A.np.mean(x, axis=0), A.np.var(x, axis=0), A.np.std(x, axis=0, ddof=1), A.np.prod(x, axis=0), A.np.max(x, axis=0)]
        parts += [A.np.cumsum(x, axis=0)[-1], A.np.linalg.norm(x, axis=0)]
        return A.np.sum(A.np.stack(parts) * data(7, 4)) + A.np.sum(A.np.sort(x[:, 0]) * data(5))

    return A.grad(f)(data(5, 4))


@program
def shapes_and_indices(A):
    def f(x):
        y = A.np.transpose(x, (1, 0, 2)).reshape(6, 2)
        z = A.np.concatenate([y[::2], y[onp.array([0, 3])]], axis=0)
        z = A.np.tile(A.np.expand_dims(z, 1), (1, 2, 1)).swapaxes(0, 1)
        z = A.np.roll(A.np.flipud(z), 1, axis=1) + A.np.pad(A.np.ones((2, 3, 2)), ((0, 0), (1, 1), (0, 0)))
        return (
            A.np.sum(A.np.where(z > 0, z**2, A.np.squeeze(A.np.expand_dims(z, 3), axis=3)))
            + A.np.trace(x[0, :2])
            + A.np.sum(A.np.diag(x[1, :2]))
        )

    return A.grad(f)(data(2, 3, 2))


@program
def linear_algebra(A):
    def f(x):
        S = A.np.dot(x, x.T) + 3 * A.np.eye(3)
        L = A.np.linalg.cholesky(S)
        w, v = A.np.linalg.eigh(S)
        _, logdet = A.np.linalg.slogdet(S)
        total = A.np.sum(A.np.linalg.inv(S)) + A.np.linalg.det(S) + logdet + A.np.sum(A.np.log(w)) + A.np.sum(L) + A.np.sum(v**2 * w)
        _, s, _ = A.np.linalg.svd(x, full_matrices=False)
        return total + A.np.sum(s) + A.np.sum(A.np.linalg.solve(S, x)) + A.np.sum(A.np.linalg.norm(x))

    return A.grad(f)(data(3, 3))


@program
def products_of_arrays(A):
    B = data(4, 2, seed=1)

    def f(x):
        total = A.np.sum(A.np.dot(x, B)) + A.np.sum(A.np.matmul(x, B) ** 2) + A.np.sum(A.np.einsum("ij,jk->ki", x, B) ** 3)
        return (
            total
            + A.np.sum(A.np.tensordot(x, B, axes=([1], [0])))
            + A.np.sum(A.np.outer(x[0], B[:, 0]))
            + A.np.sum(A.np.kron(x, x))
            + (x @ B).sum()
        )

    return A.grad(f)(data(3, 4))


@program
def fourier_transforms(A):
    def f(x):
        spectrum = A.np.fft.fft(x)
        return A.np.sum(A.np.abs(spectrum[1:]) ** 1.5) + A.np.sum(A.np.real(A.np.fft.ifft(spectrum * data(8))) ** 2)

    return A.grad(f)(data(8)), A.grad(lambda x: A.np.sum(A.np.abs(A.np.fft.rfft(x)) ** 2))(data(8))


@program
def many_ufuncs(A):
    np = A.np
    fs = [np.sin, np.cos, np.tan, np.arcsin, np.arctan, np.sinh, np.cosh, np.tanh, np.exp, np.expm1, np.exp2, np.log, np.log1p, np.log2]
    fs += [np.log10, np.sqrt, np.square, np.reciprocal, np.abs, np.sign, lambda x: np.maximum(x, 0.4), lambda x: np.minimum(x, 0.4)]
    fs += [lambda x: np.logaddexp(x, 2 * x), lambda x: np.arctan2(x, 0.3), lambda x: x**x, lambda x: 2.0**x, lambda x: np.mod(x, 0.3)]
    fs += [lambda x: np.clip(x, 0.2, 0.6), np.sinc, lambda x: np.power(x, 2.5), np.deg2rad, lambda x: np.hypot(x, 1.0) if False else x]
    x = onp.array([0.15, 0.5, 0.9])
    return [A.elementwise_grad(f)(x) for f in fs]


@program
def control_flow_and_lists(A):
    def f(x):
        terms = []
        for i, v in enumerate(x):
            if v > 0:
                terms.append(v**2)
            elif i % 2:
                terms.append(-3 * v)
        return sum(terms) + max(terms)

    return A.grad(f)(data(6))


@program
def questions_of_type(A):
    def f(x):
        assert A.isinstance(x, onp.ndarray)
        assert A.isinstance(A.np.sum(x), float)
        return A.np.sum(x) * (2.0 if A.isinstance({"a": x}, dict) else 1.0)

    return A.grad(f)(data(2))


# ----- SciPy --------------------------------------------------------------------------------------------------------------------------


@program
def special_functions(A):
    sp = A.scipy.special
    x = onp.array([0.3, 0.8, 1.7])
    fs = [sp.gammaln, sp.gamma, sp.digamma, sp.psi, sp.erf, sp.erfc, sp.expit, sp.j0, sp.j1, sp.y0, sp.i0, sp.i1, sp.rgamma]
    fs += [lambda x: sp.polygamma(1, x), lambda x: sp.beta(x, 2.0), lambda x: sp.betaln(x, 2.0), lambda x: sp.gammainc(2.0, x)]
    fs += [lambda x: sp.logit(x / 2), lambda x: sp.erfinv(x / 2), lambda x: sp.jn(2, x), lambda x: sp.multigammaln(x + 2, 2)]
    return [A.elementwise_grad(f)(x) for f in fs]


@program
def logsumexp(A):
    f = A.scipy.special.logsumexp
    x = data(3, 4)
    return (
        A.grad(lambda x: A.np.sum(f(x, axis=1) ** 2))(x), A.hessian(f)(x[0]), A.grad(lambda x: A.np.sum(f(x, axis=0, keepdims=True)))(x),
        A.grad(lambda x: f(x, b=onp.abs(x._value if hasattr(x, "_value") else x)))(x[0]),
    )  # fmt: skip


@program
def distributions(A):
    st = A.scipy.stats
    x = onp.array([0.3, 0.8])

    def total(p):
        t = A.np.sum(st.norm.logpdf(x, p[0], p[1]) + st.norm.cdf(p[0], x, 1.0) + st.norm.logcdf(x, p[0], p[1]) + st.norm.pdf(x, p[0], p[1]))
        t = t + A.np.sum(st.norm.sf(x, p[0], p[1]) + st.norm.logsf(x, p[0], p[1]))
        t = t + A.np.sum(st.t.logpdf(x, 5.0, p[0], p[1])) + A.np.sum(st.beta.logpdf(x, p[0] + 1, p[1] + 1))
        t = t + A.np.sum(st.gamma.logpdf(x, p[1] + 1)) + A.np.sum(st.chi2.logpdf(p[1], 3.0))
        return t + A.np.sum(st.poisson.logpmf(onp.array([1, 3]), p[1])) + st.dirichlet.logpdf(onp.array([0.3, 0.7]), p + 1)

    return A.grad(total)(onp.array([0.4, 1.3]))


@program
def multivariate_normal(A):
    mvn = A.scipy.stats.multivariate_normal

    def f(mean, L):
        cov = A.np.dot(L, L.T) + A.np.eye(3)
        return A.np.sum(mvn.logpdf(data(4, 3, seed=5), mean, cov)) + mvn.pdf(data(3), mean, cov)

    return A.grad(f, (0, 1))(data(3), data(3, 3, seed=1))


@program
def scipy_linear_algebra(A):
    la = A.scipy.linalg

    def f(x):
        S = A.np.dot(x, x.T) + 2 * A.np.eye(3)
        L = A.np.linalg.cholesky(S)
        return A.np.sum(la.solve_triangular(L, x, lower=True)) + A.np.sum(la.sqrtm(S)) + A.np.sum(la.solve_sylvester(S, S.T, x))

    return A.grad(f)(data(3, 3))


@program
def convolutions(A):
    convolve = A.scipy.signal.convolve
    image, kernels = data(2, 3, 8, 7), data(3, 4, 3, 2, seed=1)

    def layer(k):
        return convolve(image, k, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid")

    def full(k):
        return convolve(image, k, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="full")

    signal, short = data(9), data(3, seed=2)
    return (
        layer(kernels), A.grad(lambda k: A.np.sum(layer(k) ** 2))(kernels), A.grad(lambda k: A.np.sum(full(k) ** 2))(kernels),
        [A.grad(lambda s, m=m: A.np.sum(convolve(signal, s, mode=m) ** 2))(short) for m in ("full", "valid")],
        A.grad(lambda s: A.np.sum(convolve(s, short, mode="full") ** 3))(signal),
    )  # fmt: skip


@program
def an_ordinary_differential_equation(A):
    def lotka(y, t, a, b):
        return A.np.array([a * y[0] - b * y[0] * y[1], -y[1] + b * y[0] * y[1]])

    t = onp.linspace(0.0, 1.0, 3)

    def loss(y0, a, b):
        return A.np.sum(A.scipy.integrate.odeint(lotka, y0, t, A.tuple((a, b)), rtol=1e-8, atol=1e-9) ** 2)

    return A.grad(loss, (0, 1, 2))(onp.array([1.0, 0.5]), 1.1, 0.4)


# ----- models ----------------------------------------------------------------------------------------------------------------------------


@program
def logistic_regression(A):
    X, y = data(20, 3), data(20, seed=1) > 0

    def sigmoid(x):
        return 0.5 * (A.np.tanh(x / 2.0) + 1)

    def loss(w):
        p = sigmoid(A.np.dot(X, w))
        return -A.np.sum(A.np.log(p * y + (1 - p) * (1 - y)))

    w = A.np.zeros(3)
    step = A.grad(loss)
    for _ in range(30):
        w -= step(w) * 0.05
    return w, loss(w)


@program
def neural_network(A):
    rs = onp.random.RandomState(1)
    sizes = [2, 5, 4, 3]
    params = [(0.5 * rs.randn(m, n), 0.1 * rs.randn(n)) for m, n in pairwise(sizes)]
    X, T = rs.randn(12, 2), onp.eye(3)[rs.randint(3, size=12)]

    def predict(params, x):
        for W, b in params:
            out = A.np.dot(x, W) + b
            x = A.np.tanh(out)
        return out - A.scipy.special.logsumexp(out, axis=1, keepdims=True)

    def loss(params, i=0):
        flat, _ = A.flatten(params)
        return -A.np.sum(predict(params, X) * T) / len(X) + 0.01 * A.np.dot(flat, flat)

    trained = A.adam(A.grad(loss), params, num_iters=8, step_size=0.05)
    return A.grad(loss)(params), loss(trained)


@program
def recurrent_network(A):
    params = {"change": 0.3 * data(7, 4), "predict": 0.3 * data(5, 3, seed=1), "start": data(1, 4, seed=2)}
    inputs = data(6, 2, 2, seed=3)

    def with_ones(*parts):
        return A.np.hstack([*parts, A.np.ones((parts[0].shape[0], 1))])

    def loss(p):
        hidden = A.np.repeat(p["start"], 2, axis=0)
        outputs = []
        for x in inputs:
            hidden = A.np.tanh(A.np.dot(with_ones(x, hidden), p["change"]))
            out = A.np.dot(with_ones(hidden), p["predict"])
            outputs.append(out - A.scipy.special.logsumexp(out, axis=1, keepdims=True))
        return -A.np.mean(A.np.array(outputs)[:, :, 0])

    return A.grad(loss)(params)


@program
def long_short_term_memory(A):
    p = {gate: 0.4 * data(6, 3, seed=k) for k, gate in enumerate(("forget", "in", "out", "change"))}

    def sigmoid(x):
        return 0.5 * (A.np.tanh(x) + 1.0)

    def run(p):
        hidden, cell = A.np.zeros((1, 3)), A.np.zeros((1, 3))
        total = 0.0
        for x in data(5, 1, 2, seed=9):
            joined = A.np.hstack((x, hidden, A.np.ones((1, 1))))
            gates = {k: A.np.dot(joined, w) for k, w in p.items()}
            cell = cell * sigmoid(gates["forget"]) + sigmoid(gates["in"]) * A.np.tanh(gates["change"])
            hidden = sigmoid(gates["out"]) * A.np.tanh(cell)
            total = total + A.np.sum(hidden**2)
        return total

    return A.grad(run)(p)


@program
def gaussian_process(A):
    X, y = onp.sort(data(8)), data(8, seed=1)

    def rbf(params, x, z):
        diffs = A.np.expand_dims(x, 1) - A.np.expand_dims(z, 0)
        return A.np.exp(params[0]) * A.np.exp(-0.5 * diffs**2 / A.np.exp(params[1]))

    def nll(params):
        cov = rbf(params, X, X) + A.np.exp(params[2]) * A.np.eye(8)
        return -A.scipy.stats.multivariate_normal.logpdf(y, params[3] * A.np.ones(8), cov)

    p = onp.array([0.1, -0.2, -1.0, 0.3])
    return A.value_and_grad(nll)(p), A.hessian(nll)(p)


@program
def gaussian_mixture(A):
    X = data(15, 2)
    params = {"proportions": data(3), "means": data(3, 2, seed=1), "lower": A.np.zeros((3, 2, 2)) + onp.eye(2)}

    def loglik(p):
        norm = p["proportions"] - A.scipy.special.logsumexp(p["proportions"])
        parts = []
        for log_p, mean, L in zip(norm, p["means"], p["lower"]):
            parts.append(log_p + A.scipy.stats.multivariate_normal.logpdf(X, mean, A.np.dot(L.T, L)))
        return A.np.sum(A.scipy.special.logsumexp(A.np.vstack(parts), axis=0))

    return A.grad(loglik)(params)


@program
def black_box_variational_inference(A):
    def logprob(x):
        return -0.5 * A.np.sum((x - 1.0) ** 2, axis=1) - 0.1 * A.np.sum(x**4, axis=1)

    noise = data(10, 2)

    def elbo(params):
        mean, log_std = params[:2], params[2:]
        samples = noise * A.np.exp(log_std) + mean
        return A.np.sum(log_std) + A.np.mean(logprob(samples))

    return A.grad(elbo)(data(4, seed=1)), A.adam(lambda p, i: -A.grad(elbo)(p), A.np.zeros(4), num_iters=5, step_size=0.1)


@program
def hamiltonian_monte_carlo(A):
    def U(x):
        return 0.5 * A.np.sum(x**2) + A.np.sum(A.np.log(1 + A.np.exp(-data(4, 3) @ x)))

    dU = A.grad(U)
    x, p = data(3, seed=1), data(3, seed=2)
    for _ in range(5):
        p = p - 0.05 * dU(x)
        x = x + 0.1 * p
        p = p - 0.05 * dU(x)
    return x, p


@program
def fluid_simulation(A):
    n = 6

    def project(vx, vy):
        p = A.np.zeros(vx.shape)
        div = -0.5 * (A.np.roll(vx, -1, axis=0) - A.np.roll(vx, 1, axis=0) + A.np.roll(vy, -1, axis=1) - A.np.roll(vy, 1, axis=1))
        for _ in range(4):
            p = (div + A.np.roll(p, 1, axis=0) + A.np.roll(p, -1, axis=0) + A.np.roll(p, 1, axis=1) + A.np.roll(p, -1, axis=1)) / 4
        vx = vx - 0.5 * (A.np.roll(p, -1, axis=0) - A.np.roll(p, 1, axis=0))
        return vx, vy - 0.5 * (A.np.roll(p, -1, axis=1) - A.np.roll(p, 1, axis=1))

    def advect(f, vx, vy):
        ys, xs = A.np.meshgrid(A.np.arange(n), A.np.arange(n))
        cx, cy = (xs - vx).ravel(), (ys - vy).ravel()
        left, top = A.np.floor(cx).astype(int), A.np.floor(cy).astype(int)
        rw, bw = cx - left, cy - top
        left, right, top, bottom = left % n, (left + 1) % n, top % n, (top + 1) % n
        flat = (1 - rw) * ((1 - bw) * f[left, top] + bw * f[left, bottom]) + rw * ((1 - bw) * f[right, top] + bw * f[right, bottom])
        return A.np.reshape(flat, (n, n))

    def loss(params):
        vx, vy = A.np.reshape(params[: n * n], (n, n)), A.np.reshape(params[n * n :], (n, n))
        smoke = data(n, n, seed=4)
        for _ in range(2):
            moved = advect(vx, vx, vy), advect(vy, vx, vy)
            vx, vy = project(*moved)
            smoke = advect(smoke, vx, vy)
        return A.np.mean((smoke - data(n, n, seed=5)) ** 2)

    return A.value_and_grad(loss)(0.3 * data(2 * n * n, seed=3))


@program
def convolutional_network(A):
    W, V = data(1, 2, 3, 3), data(2 * 2 * 2, 3, seed=1)
    images = data(2, 1, 6, 6, seed=2)

    def predict(p):
        x = A.scipy.signal.convolve(images, p[0], axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid")
        x = A.np.tanh(x)
        x = A.np.max(A.np.max(A.np.reshape(x, (2, 2, 2, 2, 2, 2)), axis=3), axis=4)
        return A.np.dot(A.np.reshape(x, (2, 8)), p[1])

    return A.grad(lambda p: A.np.sum(predict(p) ** 2))([W, V])


@program
def natural_gradient_and_optimizers(A):
    def loss(x, i=0):
        return A.np.sum((x - 1.0) ** 4) + x[0] * x[1]

    x0 = data(3)
    seen = []
    ends = [
        A.sgd(A.grad(loss), x0, num_iters=5, step_size=0.01, callback=lambda x, i, g: seen.append((i, float(A.np.sum(g))))),
        A.rmsprop(A.grad(loss), x0, num_iters=5), A.adam(A.grad(loss), {"a": x0} and x0, num_iters=5),
    ]  # fmt: skip
    return ends, seen, A.adam(lambda p, i: {"a": A.grad(loss)(p["a"])}, {"a": x0}, num_iters=3)


@program
def second_order_optimization_with_scipy(A):
    from scipy.optimize import minimize

    def rosen(x):
        return A.np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)

    out = minimize(A.value_and_grad(rosen), onp.array([1.3, 0.7, 0.8]), jac=True, hessp=A.hessian_vector_product(rosen), method="Newton-CG")
    return onp.round(out.x, 4)


@program
def meta_learning_through_descent(A):
    """The gradient of the end of a training run in its step size and its start."""

    def train(hyper):
        w = hyper["start"]
        for _ in range(4):
            w = w - A.np.exp(hyper["log_rate"]) * A.grad(lambda w: A.np.sum((w - 2.0) ** 2 * A.np.array([1.0, 3.0])))(w)
        return A.np.sum(w**2)

    return A.grad(train)({"log_rate": -3.0, "start": data(2)})


@program
def differentiable_sampling_of_a_rosenbrock_density(A):
    def logp(x):
        return -((1 - x[0]) ** 2) - 10 * (x[1] - x[0] ** 2) ** 2

    score = A.grad(logp)
    return A.jacobian(score)(data(2)), A.grad(lambda x: A.np.sum(score(x) ** 2))(data(2))


@program
def fixed_points(A):
    def newton(a):
        return lambda x: 0.5 * (x + a / x)

    def root(a):
        return A.fixed_point(newton, a, 1.0, lambda x, y: A.np.abs(x - y), 1e-12)

    return root(3.0), A.grad(root)(3.0)


@program
def flattening(A):
    tree = {"b": [1.0, data(2, 2)], "a": (data(3), 2.0)}
    vector, back = A.flatten(tree)
    return vector, back(2 * vector), A.grad(lambda t: A.np.sum(A.flatten(t)[0] ** 3))(tree)


@program
def checking_gradients(A):
    A.check_grads(lambda x, y: A.np.sum(A.np.sin(x) * y**2), modes=["fwd", "rev"], order=2)(data(3), data(3, seed=1))
    failed = False
    try:

        @A.primitive
        def wrong(x):
            return onp.sum(x**2)

        A.defvjp(wrong, lambda ans, x: lambda g: g * x)
        A.check_grads(wrong, modes=["rev"], order=1)(data(3))
    except AssertionError:
        failed = True
    return failed


# ----- mistakes ------------------------------------------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[type[Exception] | tuple[type[Exception], ...], Callable[[Any], Any]]] = {
    "integer argument": (TypeError, lambda A: A.grad(lambda x: x**2)(3)),
    "integer array": (TypeError, lambda A: A.grad(A.np.sum)(onp.arange(3))),
    "integer in a list": (TypeError, lambda A: A.grad(lambda x: x[0] * x[1])([1.0, 2])),
    "text": (TypeError, lambda A: A.grad(lambda x: 1.0)("a")),
    "nothing": (TypeError, lambda A: A.grad(lambda x: 1.0)(None)),
    "vector output": (TypeError, lambda A: A.grad(A.np.sin)(data(3))),
    "complex output": (TypeError, lambda A: A.grad(lambda x: x * 1j)(1.0)),
    "complex output, elementwise": (TypeError, lambda A: A.elementwise_grad(lambda x: x * 1j)(1.0)),
    "missing argument": (IndexError, lambda A: A.grad(lambda x: x, 3)(1.0)),
    "float()": (TypeError, lambda A: A.grad(lambda x: float(x) ** 2)(1.0)),
    # NumPy raises a ValueError in place of a refusal; ndgrad puts the refusal back, unless a debugger is tracing.
    "assignment into a buffer": ((TypeError, ValueError), lambda A: A.grad(lambda x: _assigned(A.np.zeros(2), x))(1.0)),
    "axis": (ValueError, lambda A: A.grad(lambda x: A.np.sum(x, axis=3))(data(2))),
    "shapes": (ValueError, lambda A: A.grad(lambda x: A.np.sum(A.np.dot(x, data(4))))(data(3))),
    "no rule": (NotImplementedError, lambda A: A.grad(A.primitive(lambda x: onp.sum(x)))(data(2))),
    "no forward rule": (NotImplementedError, lambda A: A.make_jvp(A.primitive(lambda x: onp.sum(x)))(data(2))(data(2))),
}


def _assigned(buffer: Any, x: Any) -> Any:
    buffer[0] = x
    return buffer[0]
