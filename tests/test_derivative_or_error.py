"""Each public function of both tensor classes, called with an argument at stake: what depends on it carries its
derivative, or the call raises.

No function is listed with the answer that it should give. Each is called with arguments that fit it, found by trying; then one floating
argument after the other is put at stake (it requires grad, or carries a tangent), and each floating result must be at stake too,
unless it stays the same when the argument changes a little. Results that jump, or that are outside of the graph by their meaning, are
in CONSTANT_BY_NATURE with the reason. Whether derivatives are right is the business of the tests of values.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.variable import Variable
from ndgrad._src.interpreters import forward_ad

# ----- what is called ------------------------------------------------------------------------------------------------------

SPACES: dict[str, tuple[str, Callable[..., Any]]] = {
    "numpy": ("ndgrad.numpy", dnp.array),
    "numpy.linalg": ("ndgrad.numpy.linalg", dnp.array),
    "numpy.fft": ("ndgrad.numpy.fft", dnp.array),
    "numpy.emath": ("ndgrad.numpy.emath", dnp.array),
    "torch": ("ndgrad", ndgrad.tensor),
    "linalg": ("ndgrad.linalg", ndgrad.tensor),
    "fft": ("ndgrad.fft", ndgrad.tensor),
    "special": ("ndgrad.special", ndgrad.tensor),
    "functional": ("ndgrad.nn.functional", ndgrad.tensor),
}

#: Results that depend on an argument and carry nothing of it, and why.
CONSTANT_BY_NATURE = {
    **dict.fromkeys(("empty", "empty_like"), "memory that nobody has written"),
    **dict.fromkeys(("detach", "detach_"), "the way out of the graph, by name"),
    **dict.fromkeys(("tensor", "as_tensor", "asarray", "scalar_tensor"), "a list of tensors is copied, as torch does, with a warning"),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), "answers jump; here they fill out="),
    **dict.fromkeys(("intersect1d", "setdiff1d"), "elements of the first argument, among which the second decides"),
    "dist": "of order 0 it counts differences",
    "detach_copy": "the way out of the graph, by name",
}

#: Functions that take no floating tensor (numbers, or none), change a mode, or read a file.
NOT_CALLED = frozenset(
    """
    autocast compile fork lift load manual_seed save savetxt savez savez_compressed seed set_autocast_enabled set_default_device
    set_default_dtype set_default_tensor_type set_flush_denormal set_grad_enabled set_num_interop_threads set_num_threads set_printoptions
    clear_autocast_cache set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype
    set_autocast_gpu_dtype set_deterministic_debug_mode set_float32_matmul_precision set_warn_always
    use_deterministic_algorithms install_as_torch uninstall_as_torch
    set_retained_memory set_rng_state setbufsize seterr seterrcall printoptions errstate test show_config show_runtime info
    sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum
    """.split()
)

#: Functions that none of the arguments fit: they want many things at once, or write in place, and are tried where they are at home.
AT_HOME_ELSEWHERE = frozenset(
    """
    functional.affine_grid functional.bilinear functional.channel_shuffle functional.conv_tbc functional.ctc_loss
    torch.fake_quantize_per_channel_affine torch.fake_quantize_per_tensor_affine
    functional.fractional_max_pool2d functional.fractional_max_pool2d_with_indices functional.fractional_max_pool3d
    functional.fractional_max_pool3d_with_indices torch.affine_grid_generator torch.as_strided_scatter torch.cond torch.conv_tbc
    torch.convolution torch.embedding_renorm_ torch.grid_sampler torch.grid_sampler_2d torch.grid_sampler_3d torch.hsmm torch.hspmm
    torch.istft torch.native_batch_norm torch.native_channel_shuffle torch.native_group_norm torch.native_layer_norm
    torch.segment_reduce torch.smm torch.sparse_bsc_tensor torch.sparse_bsr_tensor torch.sparse_compressed_tensor
    torch.sparse_coo_tensor torch.sparse_csc_tensor torch.sparse_csr_tensor torch.sspaddmm torch.stft torch.values_copy torch.while_loop
    functional.conv_transpose1d functional.conv_transpose3d functional.cosine_embedding_loss functional.fold
    functional.group_norm functional.lp_pool1d functional.lp_pool2d functional.lp_pool3d functional.max_unpool1d
    functional.max_unpool2d functional.max_unpool3d functional.multi_head_attention_forward
    functional.native_channel_shuffle functional.pixel_shuffle linalg.solve_triangular numpy.copyto
    numpy.fill_diagonal numpy.fromfunction numpy.place numpy.put numpy.put_along_axis numpy.putmask torch.bilinear
    torch.channel_shuffle torch.conv_transpose1d torch.conv_transpose3d torch.cosine_embedding_loss torch.group_norm
    torch.index_put torch.index_put_ torch.index_reduce torch.lu_solve torch.pixel_shuffle torch.vmap
    """.split()
)

#: Functions without floating results, or that take nothing floating.
NOTHING_FLOATING = frozenset(
    """
    functional.one_hot numpy.allclose numpy.array2string numpy.array_equal numpy.array_equiv numpy.array_repr
    numpy.array_str numpy.base_repr numpy.binary_repr numpy.bitwise_and numpy.bitwise_left_shift numpy.bitwise_or
    numpy.bitwise_right_shift numpy.bitwise_xor numpy.broadcast_shapes numpy.can_cast numpy.common_type
    numpy.datetime_as_string numpy.datetime_data numpy.einsum_path numpy.eye numpy.format_float_positional
    numpy.format_float_scientific numpy.frombuffer numpy.fromfile numpy.fromregex numpy.fromstring numpy.gcd
    numpy.genfromtxt numpy.get_include numpy.get_printoptions numpy.getbufsize numpy.geterr numpy.geterrcall
    numpy.iscomplexobj numpy.isdtype numpy.isfortran numpy.isnat numpy.isrealobj numpy.isscalar numpy.issubdtype
    numpy.iterable numpy.lcm numpy.left_shift numpy.loadtxt numpy.mask_indices numpy.may_share_memory numpy.ndim
    numpy.packbits numpy.promote_types numpy.ravel_multi_index numpy.result_type numpy.right_shift numpy.shape
    numpy.shares_memory numpy.size numpy.tri numpy.typename numpy.unpackbits numpy.unravel_index torch.allclose
    torch.bitwise_and torch.bitwise_left_shift torch.bitwise_not torch.bitwise_or torch.bitwise_right_shift
    torch.are_deterministic_algorithms_enabled torch.ccol_indices_copy torch.col_indices_copy torch.compiled_with_cxx11_abi
    torch.crow_indices_copy torch.gcd torch.gcd_ torch.get_autocast_cpu_dtype torch.get_autocast_dtype torch.get_autocast_gpu_dtype
    torch.get_deterministic_debug_mode torch.get_device_module torch.get_float32_matmul_precision torch.indices_copy
    torch.is_autocast_cache_enabled torch.is_autocast_cpu_enabled torch.is_autocast_enabled
    torch.is_deterministic_algorithms_warn_only_enabled torch.is_vulkan_available torch.is_warn_always_enabled torch.lcm torch.lcm_
    torch.nonzero_static torch.row_indices_copy torch.to_dlpack torch.unravel_index
    torch.bitwise_xor torch.broadcast_shapes torch.can_cast torch.empty torch.empty_permuted torch.empty_strided
    torch.equal torch.explain torch.eye torch.from_numpy torch.frombuffer torch.get_default_device
    torch.get_default_dtype torch.get_device torch.get_num_interop_threads torch.get_num_threads
    torch.get_printoptions torch.get_retained_memory torch.get_rng_state torch.initial_seed
    torch.is_anomaly_check_nan_enabled torch.is_anomaly_enabled torch.is_complex torch.is_conj
    torch.is_floating_point torch.is_grad_enabled torch.is_inference torch.is_inference_mode_enabled torch.is_neg
    torch.is_nonzero torch.is_same_size torch.is_signed torch.is_storage torch.is_tensor torch.numel torch.ones
    torch.promote_types torch.rand torch.randn torch.randperm torch.result_type torch.typename torch.zeros
    """.split()
)

r = np.random.default_rng(0)
V, W = np.array([0.31, 0.72, 0.15, 0.58]), np.array([0.43, 0.21, 0.87, 0.66])
SIGNED = np.array([0.5, -0.8, 1.7, -2.2])
M = np.array([[2.1, 0.3, 0.2], [0.4, 1.9, 0.1], [0.25, 0.15, 2.4]])
S = M @ M.T
B, IMAGES, KERNEL = r.random((2, 3, 4)), r.random((2, 3, 4, 4)), r.random((4, 3, 2, 2))
A, P = np.float64(0.37), np.float64(1.4)
Z = V + 1j * W
PLACES, MASK = np.array([0, 2, 1, 1]), np.array([True, False, True, True])

#: Arguments to try: numbers, vectors, matrices, images; with axes, places, masks, weights, functions.
ARGUMENTS: list[tuple[Any, ...]] = [
    (V,), (A,), (M,), (S,), (SIGNED,), (B,), (IMAGES,), (Z,), (V, W), (M, S), (M, V[:3]), (A, P), (V, A), (SIGNED, W, V), (M, M.T, S),
    (A, P, 5), (V, 2), (M, 0), (M, 1, 0), (M, (1, 0)), (V, PLACES), (V, 0, PLACES), (V, MASK), (MASK, V, W), (MASK, V), (V, PLACES, W),
    (V, MASK, W), (V, 0, PLACES, W), (V, 0, 2), ([V, W],), ([V, W], 0), (V, (2, 2)), (IMAGES, KERNEL), (V, 0.2, 0.6), (V, A, P),
    (A, P, A), (PLACES, V), (5, A), (2, V), ((2, 2),), ((4,), A), (B, 0, 1), (B, 2), (B, (1, 2)), (IMAGES, 2), (IMAGES, (2, 2)),
    (V, [0.3, 0.6]), (V, [0.3, 0.6], W), ("ij,jk->ik", M, S), (V, W, 3), (M, V[:3], W[:3]), (V, None), (M, [1, 2]), (V, 1, PLACES),
    (V, [1, 1], 0), (V, [MASK, ~MASK], [V, W]), (lambda t: t * 2, V), (lambda t: t * 2, 0, M), (A, 3, V), (V, 4), (V, 0, 1, 2),
    (M, M[0], 0), ([MASK, ~MASK], [V, W]), (PLACES % 2, [V, W]), (SIGNED, MASK, 0.4), (V, 0, PLACES, 0.4), (M, V[:3], M),
    (B, B.swapaxes(1, 2)),
    (M, 2, 0, 1.0), (V, 0, PLACES, W, "sum"), (M, V[:3], 0, 1), (V, 0, (2, 2)), (B[..., :2],), (M, S, True),
    (np.array([[0, 1], [1, 2]]), M),
    (M, PLACES[:3]), (IMAGES, np.zeros((2, 4, 4, 2))), (lambda t, a: t.sum(a), M, [0]), (M, PLACES[:3, None], V[:3, None], 1),
    (IMAGES[:, :, 0], KERNEL[:, :, 0]), (IMAGES[..., None], KERNEL[..., None]), (V.reshape(1, 4, 1), (2, 2), (1, 1)),
    (B, B.swapaxes(1, 2), B @ B.swapaxes(1, 2)),
    (B @ B.swapaxes(1, 2), B, B.swapaxes(1, 2)), (M[0], M, W[:3]), (M, B[:, :, :3], B[:, :3, :3]), (IMAGES, KERNEL.swapaxes(0, 1)),
]  # fmt: skip


def functions() -> list[Any]:
    return list(_functions())


def _functions() -> Iterator[Any]:
    for space, (module, make) in SPACES.items():
        found = importlib.import_module(module)
        names = set(found.__all__) | ({n for n in dir(found) if n == n.lower()} if space == "torch" else set())
        for name in sorted(names - NOT_CALLED):
            function = getattr(found, name, None)
            if not name.startswith("_") and callable(function) and not isinstance(function, (type, types.ModuleType)):
                yield pytest.param(f"{space}.{name}", function, make, id=f"{space}.{name}")


# ----- putting one argument at stake ---------------------------------------------------------------------------------------


def is_floating(a: Any) -> bool:
    return isinstance(a, float) or (isinstance(a, (np.ndarray, np.generic)) and a.dtype.kind in "fc")


def places_of(args: tuple[Any, ...]) -> Iterator[tuple[int, ...]]:
    """Return the positions of floating numbers among the arguments and the lists in them."""
    for i, a in enumerate(args):
        if is_floating(a):
            yield (i,)
        elif isinstance(a, (list, tuple)):
            yield from ((i, j) for j, b in enumerate(a) if is_floating(b))


def prepared(args: Any, place: tuple[int, ...], make: Callable[..., Any], change: Callable[[Any], Any]) -> Any:
    """The arguments as tensors, with `change` made to the one at a place."""
    out = []
    for i, a in enumerate(args):
        if place and place[0] == i:
            out.append(change(np.array(a)) if len(place) == 1 else type(a)(prepared(a, place[1:], make, change)))
        elif isinstance(a, (np.ndarray, np.generic)):
            out.append(make(np.array(a)))
        else:
            out.append(type(a)(prepared(a, (), make, change)) if isinstance(a, (list, tuple)) else a)
    return out


def results_of(made: Any) -> list[Any]:
    """The tensors, arrays and numbers in a result."""
    if isinstance(made, (Variable, float, complex)) or (isinstance(made, np.ndarray) and made.dtype != object):
        return [made]
    if isinstance(made, (list, tuple)) or (isinstance(made, np.ndarray) and made.ndim):
        return [leaf for part in made for leaf in results_of(part)]
    return []


def values_of(leaf: Any) -> Any:
    return np.asarray(leaf.detach().numpy() if isinstance(leaf, Variable) else leaf)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def outcome(function: Any, args: Any) -> list[Any] | None:
    """The values of what a function gives; None if it does not take these arguments."""
    ndgrad.manual_seed(0)
    np.random.seed(0)
    try:
        return [values_of(leaf) for leaf in results_of(function(*args))]
    except Exception as error:
        if "[nd-install]" in str(error):
            raise  # skips the test
        return None


def lost(function: Any, args: Any, place: tuple[int, ...], make: Any, before: list[Any], forward: bool) -> list[int]:
    """The numbers of the results that change with an argument, and do not carry its derivative."""

    def dual(value: Any) -> Any:
        return forward_ad.make_dual(make(value), make(np.ones_like(value)))

    def leaf(value: Any) -> Any:
        return make(value).requires_grad_()

    ndgrad.manual_seed(0)
    np.random.seed(0)
    with forward_ad.dual_level() if forward else contextlib.nullcontext():
        try:
            made = results_of(function(*prepared(args, place, make, dual if forward else leaf)))
        except Exception:
            return []  # refused
        carried = [isinstance(m, Variable) and at_stake(m) for m in made]
    after = outcome(function, prepared(args, place, make, lambda v: make(v * (1 + 1e-6))))
    if after is None or len(after) != len(before):
        return []
    moved = [b.dtype.kind in "fc" and not np.array_equal(a, b, equal_nan=True) for b, a in zip(before, after, strict=True)]
    return [i for i, (m, c) in enumerate(itertools.zip_longest(moved, carried)) if m and not c]


@pytest.mark.parametrize(("name", "function", "make"), functions())
def test_what_depends_on_an_argument_carries_its_derivative(name: str, function: Any, make: Any) -> None:
    tried = 0
    with quietly():
        for args in ARGUMENTS:
            places = list(places_of(args))
            before = outcome(function, prepared(args, (), make, make)) if places else None
            if not before:
                continue
            for place, forward in itertools.product(places, (False, True)):
                dropped = lost(function, args, place, make, before, forward)
                assert not dropped or name.split(".")[-1] in CONSTANT_BY_NATURE, (
                    f"{name}({', '.join(map(str, args))}): with argument {place} at stake in {'forward' if forward else 'reverse'} mode, "
                    f"the results {dropped} depend on it and do not carry it"
                )
            tried += 1
            if tried == 3:
                return
    assert tried or name in AT_HOME_ELSEWHERE | NOTHING_FLOATING, f"none of the arguments above fit {name}: add some that do"


# ----- tensors in the place of numbers ---------------------------------------------------------------------------------------


def number_parameters(function: Any) -> list[str]:
    """The parameters whose default is a float: slopes, orders, tolerances, bounds."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if isinstance(p.default, float) and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]


@pytest.mark.parametrize(("name", "function", "make"), [p for p in functions() if number_parameters(p.values[1])])
def test_a_tensor_in_the_place_of_a_number_is_not_dropped(name: str, function: Any, make: Any) -> None:
    for parameter in number_parameters(function):
        default = inspect.signature(function).parameters[parameter].default
        for value, args in itertools.product([v for v in (default, 0.37, 1.3) if np.isfinite(v)], ARGUMENTS[:12]):
            number = np.float64(value)

            def call(*given: Any) -> Any:
                return function(*given[:-1], **{parameter: given[-1]})  # noqa: B023  # called before the loop goes on

            with quietly():
                before = outcome(call, [*prepared(args, (), make, make), float(number)])
                if before is None:
                    continue
                for forward in (False, True):
                    dropped = lost(call, (*args, number), (len(args),), make, before, forward)
                    assert not dropped, f"{name}({parameter}=tensor): the results {dropped} depend on it and do not carry it"
            break
