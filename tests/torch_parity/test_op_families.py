"""Families of ops that programs import less often, whole programs of each through torch and ndgrad: signals, histograms, copies of views,
reductions under masks, polynomials, factorisations, kernels under torch's own names. Values, dtypes, gradients, kinds of error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch as original

import ndgrad
from tests.torch_parity.programs.dialect import draw, draw_complex, raised
from tests.torch_parity.programs.sameness import same
from tests.torch_parity.side_by_side import Programs

PROGRAMS = Programs()
program = PROGRAMS.enter


def gradients(torch: Any, result: Any, *inputs: Any) -> list[Any]:
    """Results and the gradients of a weighted sum of them."""
    outs = [o for o in (result if isinstance(result, (tuple, list)) else [result]) if o.requires_grad]
    total = sum(
        (
            (o * torch.cos(torch.arange(o.numel(), dtype=torch.float64).reshape(o.shape))).abs() if o.is_complex() else o * o.detach().cos()
        ).sum()
        for o in outs
    )
    found = torch.autograd.grad(total, inputs)
    kept = list(result) if isinstance(result, (tuple, list)) else [result]
    return [*(o.detach() for o in kept), *found]


# ----- signals --------------------------------------------------------------------------------------------------------


@program
def spectrogram_and_its_gradient(torch):
    x, window = draw(torch, 1, 40, grad=True), torch.hann_window(8, dtype=torch.float64).requires_grad_()
    return gradients(torch, torch.stft(x, 8, hop_length=4, window=window, return_complex=True).abs().square(), x, window)


@program
def spectra_of_a_batch_without_centring(torch):
    x = draw(torch, 2, 3, 30, grad=True)
    return gradients(torch, torch.stft(x, 6, center=False, normalized=True, return_complex=False), x)


@program
def spectra_in_every_padding(torch):
    x = draw(torch, 3, 20)
    return [x.stft(6, pad_mode=mode, win_length=4, return_complex=True) for mode in ("reflect", "constant", "replicate", "circular")]


@program
def two_sided_spectra_of_complex_signals(torch):
    x = draw_complex(torch, 4, 24)
    return torch.stft(x, 8, return_complex=True), torch.stft(x.real, 8, onesided=False, return_complex=True)


@program
def frames_aligned_to_the_window(torch):
    x, w = draw(torch, 5, 20), torch.ones(4, dtype=torch.float64)
    return [torch.stft(x, 8, 2, 4, w, center=False, align_to_window=a, return_complex=True) for a in (True, False)]


@program
def a_signal_comes_back_from_its_spectra(torch):
    x = draw(torch, 6, 2, 32, grad=True)
    w = torch.hamming_window(8, dtype=torch.float64)
    return gradients(torch, torch.istft(torch.stft(x, 8, window=w, return_complex=True), 8, window=w), x)


@program
def a_filtered_spectrum_as_a_signal(torch):
    x = draw(torch, 7, 33, grad=True)
    spectrum = torch.stft(x, 10, 3, return_complex=True)
    gain = torch.linspace(1, 0, spectrum.shape[-2], dtype=torch.float64)[:, None]
    return gradients(torch, torch.istft(spectrum * gain, 10, 3, length=40, normalized=False), x)


@program
def complex_signals_come_back(torch):
    x = draw_complex(torch, 8, 24)
    return torch.istft(torch.stft(x, 8, return_complex=True), 8, onesided=False, return_complex=True)


@program
def spectra_under_vmap_and_jacobians(torch):
    x = draw(torch, 9, 3, 16)
    f = lambda x: torch.stft(x, 4, return_complex=True).abs().square().sum(-1)
    return torch.func.vmap(f)(x), torch.func.jacrev(f)(x[0]), torch.func.jacfwd(f)(x[0])


@program
def bad_arguments_of_spectra(torch):
    x = draw(torch, 10, 16)
    s = torch.stft(x, 4, return_complex=True)
    return [
        raised(f)
        for f in (
            lambda: torch.stft(x, 4), lambda: torch.stft(x, 40, return_complex=True), lambda: torch.stft(x, 4, 0, return_complex=True),
            lambda: torch.stft(x, 4, win_length=5, return_complex=True), lambda: torch.stft(x, 4, window=x[:3], return_complex=True),
            lambda: torch.stft(x.long(), 4, return_complex=True), lambda: torch.stft(x * 1j, 4, onesided=True, return_complex=True),
            lambda: torch.stft(x, 4, pad_mode="wrong", return_complex=True), lambda: torch.stft(x[None, None], 4, return_complex=True),
            lambda: torch.istft(s.real, 4), lambda: torch.istft(s, 4, hop_length=5), lambda: torch.istft(s, 4, window=torch.zeros(4)),
            lambda: torch.istft(s[:, :0], 4), lambda: torch.istft(s, 4, onesided=False), lambda: torch.istft(s, 4, win_length=7),
        )
    ]  # fmt: skip


@program
def all_windows_of_all_lengths(torch):
    W, options = torch.signal.windows, {"dtype": torch.float64}
    names = "bartlett blackman cosine exponential gaussian general_hamming hamming hann kaiser nuttall".split()
    return [[getattr(W, n)(m, sym=s, **options) for n in names] for m in (0, 1, 2, 5, 8) for s in (True, False)]


@program
def windows_with_parameters(torch):
    W, options = torch.signal.windows, {"dtype": torch.float64}
    return [
        W.exponential(6, tau=2.5, **options), W.exponential(6, center=1.0, sym=False, **options), W.gaussian(7, std=0.5, **options),
        W.general_cosine(6, a=[0.4, 0.3, 0.2, 0.1], **options), W.general_hamming(6, alpha=0.7, **options), W.kaiser(9, beta=3.0,
        **options), W.kaiser(9, beta=0.0, **options),
    ]  # fmt: skip


@program
def older_windows(torch):
    names = "bartlett_window blackman_window hamming_window hann_window kaiser_window".split()
    made = [getattr(torch, n)(m, p, dtype=torch.float64) for n in names for m in (0, 1, 6) for p in (True, False)]
    return made, torch.hamming_window(5, True, 0.5, 0.4), torch.kaiser_window(5, False, 3.0), torch.hann_window(4).dtype == torch.float32


@program
def bad_windows(torch):
    W = torch.signal.windows
    return [
        raised(f)
        for f in (
            lambda: W.hann(-1), lambda: W.hann(5, dtype=torch.int64), lambda: W.exponential(5, tau=-1.0), lambda: W.kaiser(5, beta=-1.0),
            lambda: W.exponential(5, center=1.0), lambda: W.gaussian(5, std=0.0), lambda: W.general_cosine(5, a=[]),
            lambda: W.general_cosine(5, a=0.5), lambda: torch.hann_window(-1), lambda: torch.hann_window(4, dtype=torch.int64),
        )
    ]  # fmt: skip


# ----- grids, histograms, choices -------------------------------------------------------------------------------------


@program
def derivatives_on_even_and_uneven_grids(torch):
    y, x = draw(torch, 11, 6, grad=True), torch.tensor([0.0, 0.5, 0.7, 1.5, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    made = [torch.gradient(y, spacing=s, edge_order=e)[0] for s in (1.0, 0.25, [2.0]) for e in (1, 2)]
    made += [torch.gradient(y, spacing=(x,), edge_order=e)[0] for e in (1, 2)]
    return gradients(torch, made, y, x)


@program
def derivatives_along_several_dimensions(torch):
    y = draw(torch, 12, 3, 4, 5, grad=True)
    return gradients(torch, [*torch.gradient(y), *torch.gradient(y, dim=(2, 0), spacing=[0.5, 2.0]), *torch.gradient(y, dim=-1)], y)


@program
def derivatives_of_integers_and_bad_grids(torch):
    x = torch.arange(6).reshape(2, 3)
    return torch.gradient(x), [
        raised(f)
        for f in (
            lambda: torch.gradient(x, edge_order=3), lambda: torch.gradient(x, edge_order=2), lambda: torch.gradient(x, dim=(1, 1)),
            lambda: torch.gradient(x, spacing=[1.0]), lambda: torch.gradient(x > 2), lambda: torch.gradient(x, spacing=torch.ones(2)),
        )
    ]  # fmt: skip


@program
def histograms_with_weights_and_densities(torch):
    x, w = draw(torch, 13, 40), draw(torch, 14, 40, low=0.0)
    edges = torch.tensor([-1.0, -0.2, 0.0, 0.7], dtype=torch.float64)
    return [
        tuple(torch.histogram(x, 5)), tuple(torch.histogram(x, 5, range=(-0.5, 0.5), weight=w)), tuple(torch.histogram(x, edges,
        density=True)), tuple(x.reshape(5, 8).histogram(7, weight=w.reshape(5, 8), density=True)), tuple(torch.histogram(x[:0], 3)),
        tuple(torch.histogram(torch.ones(3, dtype=torch.float64), 4)),
    ]  # fmt: skip


@program
def histograms_in_several_dimensions(torch):
    x, w = draw(torch, 15, 30, 2), draw(torch, 16, 30, low=0.0)
    edges = [torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), torch.tensor([-0.5, 0.1, 0.5], dtype=torch.float64)]
    results = (
        torch.histogramdd(x, 3),
        torch.histogramdd(x, [2, 4], range=[-1.0, 1.0, -0.5, 0.5], weight=w),
        torch.histogramdd(x, edges, density=True),
    )
    return [(r.hist, *r.bin_edges) for r in results]


@program
def bad_histograms(torch):
    x = draw(torch, 17, 4)
    return [
        raised(f)
        for f in (
            lambda: torch.histogram(x, 0), lambda: torch.histogram(x, 3, range=(3.0, 1.0)), lambda: torch.histogram(x.long(), 4),
            lambda: torch.histogram(x, 3, weight=x[:2]), lambda: torch.histogram(x * float("nan"), 3), lambda: torch.histogramdd(x, 3),
        )
    ]  # fmt: skip


@program
def places_and_indices(torch):
    x = torch.tensor([[0, 3, 0], [5, 0, 7]])
    return (
        torch.unravel_index(torch.tensor([[3], [5]]), (2, 3)), torch.unravel_index(torch.tensor([-1, 6]), (2, 3)),
        torch.unravel_index(torch.tensor(3), 7), torch.nonzero_static(x, size=5), torch.nonzero_static(x, size=2, fill_value=9),
        x.nonzero_static(size=0), torch.nonzero_static(torch.tensor(3), size=2),
    )  # fmt: skip


@program
def bad_places(torch):
    return [
        raised(f)
        for f in (
            lambda: torch.unravel_index(torch.tensor([3.0]), (2, 3)), lambda: torch.unravel_index(torch.tensor(0), (-1, 3)),
            lambda: torch.unravel_index(torch.tensor(0), torch.tensor([2])), lambda: torch.nonzero_static(torch.ones(2), size=-1),
        )
    ]  # fmt: skip


@program
def fixed_numbers_of_places_under_vmap(torch):
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    return torch.stack([torch.nonzero_static(row, size=2) for row in x])


@program
def combinations_of_elements(torch):
    x = draw(torch, 18, 4, grad=True)
    made = [torch.combinations(x, r, replaced) for r in (0, 1, 2, 3, 5) for replaced in (False, True)]
    return gradients(torch, made, x), raised(lambda: torch.combinations(x[None])), raised(lambda: torch.combinations(x, -1))


@program
def common_divisors_and_multiples(torch):
    x, y = torch.tensor([12, -8, 0, 7]), torch.tensor([[8], [6]])
    z = x.clone().gcd_(torch.tensor(4))
    return torch.gcd(x, y), torch.lcm(x, y), z, x.int().lcm(torch.tensor(3)), raised(lambda: torch.gcd(x.double(), x.double()))


@program
def mantissas_and_exponents(torch):
    x = torch.tensor([0.0, 1.0, -3.0, 1e-310, float("inf")], dtype=torch.float64)
    y = draw(torch, 19, 5, grad=True, high=9.0)
    return tuple(torch.frexp(x)), gradients(torch, torch.frexp(y).mantissa, y), raised(lambda: torch.frexp(torch.tensor([1])))


@program
def sums_to_a_size(torch):
    x = draw(torch, 20, 2, 3, 4, grad=True)
    made = [x.sum_to_size(*s) for s in ((1, 3, 1), (4,), (3, 1), (2, 3, 4))]
    return gradients(torch, made, x), (x > 0).sum_to_size(4), raised(lambda: x.sum_to_size(2)), raised(lambda: x.sum_to_size(1, 2, 3, 4))


@program
def segments_reduced(torch):
    x = draw(torch, 21, 6, 2, grad=True)
    lengths = torch.tensor([2, 0, 4])
    made = [torch.segment_reduce(x, r, lengths=lengths, initial=i) for r in ("sum", "mean", "prod", "max", "min") for i in (0.5, 2.0)]
    made.append(torch.segment_reduce(x, "sum", offsets=torch.tensor([0, 1, 6])))
    made.append(torch.segment_reduce(x.reshape(2, 6), "sum", lengths=torch.tensor([[1, 5], [3, 3]]), axis=1))
    return gradients(torch, made, x)


@program
def bad_segments(torch):
    x = draw(torch, 22, 6)
    return [
        raised(f)
        for f in (
            lambda: torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 3])), lambda: torch.segment_reduce(x, "sum"),
            lambda: torch.segment_reduce(x, "wrong", lengths=torch.tensor([6])),
            lambda: torch.segment_reduce(x.reshape(2, 3), "sum", lengths=torch.tensor([1, 1]), axis=1),
        )
    ], torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 3]), unsafe=True)  # fmt: skip


# ----- copies and writes ----------------------------------------------------------------------------------------------


@program
def views_as_copies(torch):
    x = draw(torch, 23, 3, 4, grad=True)
    made = [
        torch.alias_copy(x), torch.as_strided_copy(x, (2, 2), (1, 4), 1), torch.diagonal_copy(x, 1), torch.expand_copy(x[:, :1], (3, 5)),
        torch.narrow_copy(x, 1, 1, 2), x.narrow_copy(0, 0, 1), torch.permute_copy(x, (1, 0)), torch.select_copy(x, 1, 2),
        torch.slice_copy(x, 1, 0, 4, 2), torch.squeeze_copy(x[:1]), torch.t_copy(x), torch.transpose_copy(x, 0, 1),
        torch.unfold_copy(x, 1, 2, 1), torch.unsqueeze_copy(x, 1), torch.view_copy(x, (2, 6)), *torch.split_copy(x, 3, 1),
        *torch.split_with_sizes_copy(x, [1, 3], 1), *torch.unbind_copy(x, 1),
    ]  # fmt: skip
    return gradients(torch, made, x), [m.is_contiguous() for m in made]


@program
def complex_views_as_copies(torch):
    x, z = draw(torch, 24, 3, 2), draw_complex(torch, 24, 3, grad=True)
    return torch.view_as_complex_copy(x), gradients(torch, torch.view_as_real_copy(z), z)


@program
def copies_are_memory_of_their_own(torch):
    x = torch.zeros(3)
    torch.alias_copy(x).add_(1.0)
    torch.detach_copy(x).add_(1.0)
    torch.unsafe_split(x.clone(), 2)[0].add_(1.0)
    return x


@program
def copies_into_given_tensors(torch):
    x, out = torch.arange(6.0).reshape(2, 3), torch.empty(3, 2)
    torch.t_copy(x, out=out)
    outs = [torch.empty(3), torch.empty(3)]
    torch.unbind_copy(x, out=outs)
    return out, outs, torch.frexp(x, out=(torch.empty(2, 3), torch.empty(2, 3, dtype=torch.int32))).exponent


@program
def parts_that_may_be_written(torch):
    x = draw(torch, 25, 5, grad=True)
    y = x * 2
    parts = [p.mul_(3.0) for p in (*torch.unsafe_chunk(y, 2), *y.unsafe_split(2), *torch.unsafe_split_with_sizes(y.clone(), [1, 4]))]
    return torch.autograd.grad(sum(p.square().sum() for p in parts[-2:]), x)


@program
def strided_places_written_out_of_place(torch):
    x, y = draw(torch, 26, 3, 3), draw(torch, 27, 2, 2, grad=True)
    return gradients(torch, torch.as_strided_scatter(x, y, (2, 2), (1, 4), 1), y)


@program
def diagonals_filled(torch):
    x = draw(torch, 28, 7, 3, grad=True)
    return gradients(torch, (x * 2).fill_diagonal_(5.0, wrap=True), x), torch.zeros(2, 2, 2).fill_diagonal_(1.0), [
        raised(lambda: torch.zeros(3).fill_diagonal_(1.0)), raised(lambda: torch.zeros(2, 3, 2).fill_diagonal_(1.0)),
    ]  # fmt: skip


@program
def python_functions_of_elements(torch):
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    return (
        x.clone().apply_(lambda v: v * v),
        x.clone().map_(y, lambda a, b: a - b),
        raised(lambda: torch.ones(1, requires_grad=True).apply_(abs)),
    )


@program
def shared_memory(torch):
    x = torch.ones(3)
    return x.is_shared(), x.share_memory_() is x, x.is_shared(), x.add_(1.0), x.clone().is_shared()


# ----- reductions under masks -----------------------------------------------------------------------------------------


def masked(torch: Any, seed: int) -> tuple[Any, Any]:
    x = draw(torch, seed, 3, 4, grad=True)
    return x, torch.tensor([[True, False, True, True], [False, False, True, True], [True, True, True, True]])


@program
def masked_reductions(torch):
    x, mask = masked(torch, 29)
    M = torch.masked
    made = [
        f(x, d, keepdim=k, mask=m)
        for f in (M.sum, M.mean, M.amax, M.amin, M.prod)
        for d in (0, 1, (0, 1), None)
        for k in (False, True)
        for m in (mask, None)
    ]
    return gradients(torch, made, x)


@program
def masked_statistics(torch):
    x, mask = masked(torch, 30)
    M = torch.masked
    made = [M.var(x, 1, mask=mask), M.var(x, 1, False, mask=mask), M.std(x, 0, correction=0, mask=mask), M.norm(x, 3.0, 1, mask=mask)]
    made += [M.norm(x, float("inf"), 0, mask=mask), M.median(x, 1, mask=mask), M.logsumexp(x, 1, mask=mask)]
    return gradients(torch, made, x)


@program
def masked_normalisations(torch):
    x, mask = masked(torch, 31)
    M = torch.masked
    made = [
        M.softmax(x, 1, mask=mask),
        M.softmin(x, 0, mask=mask),
        M.normalize(x, 2.0, 1, mask=mask),
        M.cumsum(x, 1, mask=mask),
        M.cumprod(x, 0, mask=mask),
    ]
    return gradients(torch, made, x), M.log_softmax(x.detach(), 1, mask=mask)


@program
def masked_lines_without_elements(torch):
    x, mask = torch.tensor([[1.0, 2.0]]), torch.tensor([[False, False]])
    M = torch.masked
    return [
        f(x, 1, mask=mask) for f in (M.sum, M.prod, M.amax, M.amin, M.mean, M.median, M.var, M.softmax, M.logsumexp, M.argmax, M.argmin)
    ]


@program
def masked_sums_of_logarithms(torch):
    x, mask = masked(torch, 32)
    y = draw(torch, 33, 3, 4, grad=True)
    return gradients(torch, torch.masked.logaddexp(x, y, input_mask=mask, other_mask=torch.ones_like(mask)), x, y)


@program
def masks_that_are_broadcast(torch):
    x, mask = masked(torch, 34)
    return torch.masked.sum(x, 1, mask=mask[0]), torch.masked.sum(x, 0, mask=mask.long(), dtype=torch.float32), [
        raised(lambda: torch.masked.sum(x, 1, mask=mask[:, :2])), raised(lambda: torch.masked.sum(x, 1, mask=mask[None])),
        raised(lambda: torch.masked.mean(torch.tensor([1, 2]), 0)),
    ]  # fmt: skip


@program
def masked_means_per_sample(torch):
    x, mask = masked(torch, 35)
    return torch.func.vmap(lambda row, keep: torch.masked.mean(row, 0, mask=keep))(x.detach(), mask)


# ----- special functions ----------------------------------------------------------------------------------------------

POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he "
    "laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
    "shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w"
).split()


@program
def polynomials_of_every_degree(torch):
    x, n = torch.tensor([-1.5, -1.0, -0.3, 0.0, 0.7, 1.0, 2.0], dtype=torch.float64), torch.arange(-1, 12)[:, None]
    return [getattr(torch.special, name)(x, n) for name in POLYNOMIALS]


@program
def polynomials_of_numbers_and_fractions(torch):
    x = torch.tensor([0.3, 0.9], dtype=torch.float64)
    made = [
        (f(x, 4), f(x, torch.tensor(2.7)), f(0.5, torch.tensor([1, 3])), f(torch.tensor([1, 2]), 2))
        for f in (getattr(torch.special, n) for n in POLYNOMIALS)
    ]
    return made, raised(lambda: torch.special.legendre_polynomial_p(0.5, 2))


@program
def airy_function(torch):
    x = torch.tensor([-9.0, -3.0, 0.0, 1.0, 5.0], dtype=torch.float64)
    return torch.special.airy_ai(x).round(decimals=7), torch.special.airy_ai(torch.tensor([1, 2]))


# ----- linear algebra -------------------------------------------------------------------------------------------------


def symmetric(torch: Any, seed: int, *shape: int, hermitian: bool = False) -> Any:
    x = draw_complex(torch, seed, *shape) if hermitian else draw(torch, seed, *shape)
    return x + (x.mH if hermitian else x.mT)


@program
def symmetric_systems_that_are_not_definite(torch):
    made = []
    for seed in range(6):
        A, B = symmetric(torch, seed, 5, 5), draw(torch, seed + 50, 5, 2)
        A.diagonal().mul_(seed % 2)
        LD, pivots = torch.linalg.ldl_factor(A)
        made.append((LD, pivots, torch.linalg.ldl_solve(LD, pivots, B)))
    return made


@program
def hermitian_systems_in_a_batch(torch):
    A, B = symmetric(torch, 60, 3, 4, 4, hermitian=True), draw_complex(torch, 61, 3, 4, 2)
    LD, pivots, info = torch.linalg.ldl_factor_ex(A, hermitian=True)
    return LD, pivots, info, torch.linalg.ldl_solve(LD, pivots, B, hermitian=True), tuple(torch.linalg.ldl_factor_ex(A + A.mT))


@program
def singular_symmetric_matrices(torch):
    return tuple(torch.linalg.ldl_factor_ex(torch.zeros(2, 2))), raised(lambda: torch.linalg.ldl_factor(torch.zeros(2, 2)))


@program
def zero_pivots_are_reported(torch):
    A = torch.tensor([[[0.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [3.0, 4.0]]])
    return tuple(torch.linalg.lu_factor_ex(A)), raised(lambda: torch.linalg.lu_factor_ex(A, check_errors=True))


@program
def factors_through_their_gradient(torch):
    A = draw(torch, 62, 4, 4, grad=True)
    return gradients(torch, torch.linalg.lu_factor_ex(A).LU, A)


@program
def reflections(torch):
    return [
        tuple(torch.geqrf(A))
        for A in (draw(torch, 63, 4, 3), draw(torch, 64, 2, 3, 5), draw_complex(torch, 65, 3, 3), draw(torch, 66, 2, 0))
    ]


@program
def products_with_reflections(torch):
    A, C = draw(torch, 67, 4, 3), draw(torch, 68, 4, 4, grad=True)
    a, tau = torch.geqrf(A)
    made = [torch.ormqr(a, tau, C, left, transpose) for left in (True, False) for transpose in (True, False)]
    return gradients(torch, made, C), raised(lambda: torch.ormqr(a, tau, C[:3]))


@program
def complex_products_with_reflections(torch):
    a, tau = torch.geqrf(draw_complex(torch, 69, 4, 2))
    C = draw_complex(torch, 70, 4, 4)
    return [a.ormqr(tau, C, left, transpose) for left in (True, False) for transpose in (True, False)]


@program
def matrices_of_low_rank(torch):
    A = draw(torch, 71, 8, 2) @ draw(torch, 72, 2, 6)
    made = []
    for U, S, V in (torch.svd_lowrank(A, q=2), torch.svd_lowrank(A.mT, q=2), torch.pca_lowrank(A, q=2, center=False)):
        made += [S, (U * S) @ V.mT]
    U, S, V = torch.pca_lowrank(A, q=2)
    return [*made, S, (U * S) @ V.mT], raised(lambda: torch.pca_lowrank(A, q=9)), raised(lambda: torch.pca_lowrank(A, niter=-1))


@program
def largest_and_smallest_eigenvalues(torch):
    A = symmetric(torch, 73, 9, 9)
    made = []
    for largest in (True, False):
        E, _ = torch.lobpcg(A, k=2, largest=largest, tol=1e-13, niter=1000, X=torch.eye(9, 2, dtype=torch.float64))
        made += [(E * 1e4).round() / 1e4]
    return made, raised(lambda: torch.lobpcg(A, k=4))


@program
def older_norms(torch):
    x = draw(torch, 74, 3, 4, grad=True)
    made = [
        torch.frobenius_norm(x, dim=1),
        torch.frobenius_norm(x, dim=(0, 1), keepdim=True),
        torch.nuclear_norm(x),
        torch.norm_except_dim(x, 2, 1),
    ]
    return gradients(torch, [*made, torch.norm_except_dim(x, 2, -1)], x)


@program
def forward_mode_of_all_singular_vectors(torch):
    A, T = draw(torch, 75, 5, 3), draw(torch, 76, 5, 3)
    f = lambda x: (lambda U, S, Vh: (S, (U[:, :3] * S) @ Vh, U[:, :3] @ U[:, :3].mT))(*torch.linalg.svd(x))
    return torch.func.jvp(f, (A,), (T,))


@program
def powers_of_single_numbers(torch):
    x = torch.tensor(2.0, requires_grad=True)
    return (
        gradients(torch, torch.linalg.vander(x, N=3), x),
        raised(lambda: torch.linalg.vander(x)),
        torch.linalg.vander(torch.zeros(0), N=3),
    )


@program
def systems_without_equations(torch):
    LU, pivots = torch.zeros(0, 0), torch.zeros(0, dtype=torch.int32)
    return torch.lu_solve(torch.zeros(0, 4), LU, pivots), torch.linalg.ldl_factor(LU).LD, tuple(torch.linalg.lu_factor_ex(LU))


# ----- networks under the names of kernels ----------------------------------------------------------------------------


@program
def normalisation_kernels(torch):
    x, w, b = draw(torch, 80, 2, 4, 3, grad=True), draw(torch, 81, 4, grad=True), draw(torch, 82, 4, grad=True)
    made = [torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5), torch.native_group_norm(x, w, b, 2, 4, 3, 2, 1e-5)]
    layer = torch.native_layer_norm(x, (4, 3), None, None, 1e-5)
    return [gradients(torch, m, x, w, b) for m in made], gradients(torch, layer, x), [m.requires_grad for m in (*made[0], *layer)]


@program
def running_statistics_of_kernels(torch):
    x, mean, var = draw(torch, 83, 5, 2), torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    first = torch.native_batch_norm(x, None, None, mean, var, True, 0.5, 1e-5)
    return first, mean, var, torch.native_batch_norm(x, None, None, mean, var, False, 0.5, 1e-5)


@program
def sampling_kernels(torch):
    image, grid = draw(torch, 84, 1, 2, 4, 5, grad=True), draw(torch, 85, 1, 3, 3, 2, grad=True)
    made = [torch.grid_sampler(image, grid, i, p, a) for i in (0, 1) for p in (0, 1, 2) for a in (True, False)]
    volume, places = draw(torch, 86, 1, 1, 2, 3, 3), draw(torch, 87, 1, 2, 2, 2, 3)
    return (
        gradients(torch, made, image, grid),
        torch.grid_sampler_3d(volume, places, 0, 0, True),
        torch.grid_sampler_2d(image, grid, 2, 1, True),
    )


@program
def other_kernels(torch):
    x, w = draw(torch, 88, 1, 2, 5, grad=True), draw(torch, 89, 2, 2, 3, grad=True)
    made = [torch.convolution(x, w, None, [1], [1], [1], t, [0], 1) for t in (False, True)]
    theta = draw(torch, 90, 1, 2, 3)
    return gradients(torch, [*made, torch.constant_pad_nd(x, (1, -2, 0, 1), 3.0)], x, w), torch.affine_grid_generator(
        theta, (1, 1, 2, 2), False
    )


@program
def dropout_kernels_that_drop_nothing(torch):
    x = draw(torch, 91, 2, 3)
    return torch.native_dropout(x, 0.5, False), torch.dropout_(x.clone(), 0.5, False), torch.feature_dropout(x, 0.3, False)


@program
def renormalised_embeddings(torch):
    w = draw(torch, 92, 4, 3, low=1.0, high=2.0)
    return torch.embedding_renorm_(w, torch.tensor([0, 2, 2]), 1.0, 2.0), w


@program
def losses_with_classes_in_several_places(torch):
    x, w, b = draw(torch, 93, 4, 3, grad=True), draw(torch, 94, 2, 5, 3, grad=True), draw(torch, 95, 2, 5, grad=True)
    target = torch.tensor([[0, 1, 0, 1, 1]] * 4)
    f = torch.nn.functional.linear_cross_entropy
    return gradients(torch, [f(x, w, target, linear_bias=b), f(x, w, target, linear_bias=b, reduction="none")], x, w, b)


@program
def edges_of_normalisation(torch):
    F = torch.nn.functional
    z = draw_complex(torch, 96, 2, 3, grad=True)
    empty = torch.zeros(0, 3)
    return (
        gradients(torch, [F.softsign(z), F.rms_norm(z, (3,))], z), F.normalize(torch.tensor(3.0), dim=0), F.normalize(torch.tensor([[0.0,
        2.0]]), p=0.0), F.batch_norm(empty, None, None, training=True), F.batch_norm(torch.zeros(2, 0), torch.zeros(0), torch.ones(0)),
    )  # fmt: skip


@program
def fractions_of_integers_and_bools(torch):
    x = torch.tensor([[1, 2], [3, 5]])
    return (
        torch.cov(x), torch.corrcoef(x), torch.sigmoid(torch.tensor([True, False])), torch.sign(torch.tensor([True, False])),
        torch.nn.functional.relu6(torch.tensor([-1, 3, 9])), torch.nn.functional.hardtanh(torch.tensor([-3, 0, 3])),
        torch.addr(torch.tensor([[True, False]]), torch.tensor([True]), torch.tensor([False, True])), x.__rdiv__(6.0),
        torch.diff(torch.arange(3), n=0, prepend=torch.tensor([9])),
    )  # fmt: skip


@program
def results_in_given_tensors(torch):
    F, x = torch.nn.functional, draw(torch, 97, 1, 4, 4)
    out = lambda: torch.empty(0, dtype=torch.float64)
    return (
        F.gelu(x, out=out()), F.softplus(x, out=out()), F.softshrink(x, out=out()), F.logsigmoid(x, out=out()), F.avg_pool2d(x, 2,
        out=out()), F.linear(x, x[0], out=out()), torch.diag(x[0], out=out()), torch.slice_scatter(x, x[:, :2], 1, 0, 2, out=out()),
        torch.linalg.inv_ex(x[0] + 4 * torch.eye(4), out=(out(), torch.empty(0, dtype=torch.int32))).inverse, torch.geqrf(x[0], out=(out(),
        out())).a,
    )  # fmt: skip


# ----- the comparison -------------------------------------------------------------------------------------------------


def run(f: Callable[[Any], Any], torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(torch)


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=lambda f: f.__name__)
def test_program_gives_the_same_with_ndgrad_as_with_torch(f: Callable[[Any], Any]) -> None:
    before = ndgrad.get_default_dtype()
    ndgrad.set_default_dtype(ndgrad.float32)
    try:
        same(run(f, original), run(f, ndgrad))
    finally:
        ndgrad.set_default_dtype(before)
