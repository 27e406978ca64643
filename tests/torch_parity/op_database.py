"""torch's own database of ops, with its sample inputs, run through torch and through ndgrad.

    python -m tests.torch_parity.op_database                  every op, and how many are right
    python -m tests.torch_parity.op_database stft linalg.     the ops whose names begin so, with what is wrong

The database is part of torch's testing package, which promises nothing about its names; where it cannot be imported, there is nothing to
run. An op is *absent* if its name is, *raises* or is *wrong* if one of its samples does or is: values and dtypes, gradients, second
derivatives, forward mode (against reverse mode), `out=` and vmap (against a loop).
"""

from __future__ import annotations

import collections
import inspect
import sys
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import ndgrad

#: Of each op and dtype, so many samples.
SAMPLES = 25

#: Namespaces of both, in which a function of torch is looked up to find ours of the same name.
_NAMESPACES = ("", "Tensor", "linalg", "special", "fft", "nn.functional", "signal.windows", "masked")

#: Ops of the database that are no functions of a torch program: who asks for one is given the reason.
NOT_OURS = {
    **dict.fromkeys(
        (
            "jiterator_unary",
            "jiterator_binary",
            "jiterator_4inputs_with_extra_args",
            "jiterator_binary_return_by_ref",
            "jiterator_2inputs_2outputs",
        ),
        "CUDA source, compiled at run time",
    ),
    **dict.fromkeys(
        (
            "_softmax_backward_data",
            "_batch_norm_with_update",
            "_native_batch_norm_legit",
            "_upsample_bilinear2d_aa",
            "torch.ops.aten._safe_softmax.default",
            "torch.ops.aten._flash_attention_forward",
            "torch.ops.aten._efficient_attention_forward",
            "torch._scaled_mm",
            "torch._scaled_mm_v2",
            "_chunk_cat",
            "_segment_reduce",
            "max_pool2d_with_indices_backward",
            "native_dropout_backward",
            "_unsafe_masked_index",
            "_unsafe_masked_index_put_accumulate",
        ),
        "a private kernel of torch's, under a public function that ndgrad has",
    ),
    "chalf": "NumPy has no complex numbers of two halves",
    "hash_tensor": "a checksum of torch's own making",
    **dict.fromkeys(("sparse.sampled_addmm", "sparse.mm"), "its samples are sparse; test_sparse.py compares them"),
}


#: Reason of each op's difference that is on the list of differences, or has no meaning.
KNOWN = {
    **dict.fromkeys(("addmv", "addbmm", "baddbmm"), "refused-beyond"),
    **dict.fromkeys(("cholesky", "cholesky_inverse", "cholesky_solve", "linalg.cholesky", "linalg.cholesky_ex"), "unread-triangles"),
    "as_strided_scatter": "strided-scatter",
    "logcumsumexp": "complex-logarithms",
    **dict.fromkeys(("nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d"), "repeated-writes"),
    "__rpow__": "refused-beyond",
    "nn.functional.ctc_loss": "ctc-gradient",
    "linalg.norm": "limits",
    "cov": "weights of single precision beside doubles, which torch rounds on the way",
    "masked.logaddexp": "limits",
    **dict.fromkeys(("special.bessel_j0", "special.bessel_y1", "special.airy_ai", "matrix_exp"), "extreme-numbers"),
    **dict.fromkeys(("topk", "kthvalue", "argsort", "sort", "msort"), "the order of equal elements is anybody's"),
    **dict.fromkeys(("as_strided",), "samples are views, whose memory the translation does not keep"),
    "slice": "an op under torch.ops.aten, whose settings have names here",
    "square": "numpy-domains",
    "nn.functional.hinge_embedding_loss": "sums in bfloat16, rounded more often in torch",
    "istft": "not explained yet: torch gives two samples' windows no gradient; differences and a like call say there is one",
}


class Absent(Exception):
    """ndgrad has no such name."""


def load_database() -> list[Any]:
    """torch's list of ops; ImportError where its testing package cannot be imported."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:  # it is needed for tests of torch itself, not for the list
            stand_in: Any = types.ModuleType("expecttest")
            stand_in.TestCase = __import__("unittest").TestCase
            sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


# ----- torch's things as ours -----------------------------------------------------------------------------------------


def attribute(root: Any, path: str) -> Any:
    for part in path.split("."):
        if part:
            root = getattr(root, part)
    return root


def _paths() -> dict[int, str]:
    found: dict[int, str] = {}
    for space in _NAMESPACES:
        home = attribute(torch, space)
        for name in sorted(dir(home), key=lambda n: n.startswith("_") and not n.endswith("_")):
            thing = inspect.getattr_static(home, name) if space == "Tensor" else getattr(home, name)
            if callable(thing):
                found.setdefault(id(thing), f"{space}.{name}".strip("."))
    return found


_PATHS = _paths()


def ours(path: str) -> Any:
    try:
        return attribute(ndgrad, path)
    except AttributeError as error:
        raise Absent(path) from error


def translated_function(function: Any, seen: dict[int, Any] | None = None) -> Any:
    """The same function over ndgrad: one of a namespace by its name; one written in Python, its globals exchanged."""
    seen = {} if seen is None else seen
    if id(function) in seen:
        return seen[id(function)]
    if id(function) in _PATHS:
        return ours(_PATHS[id(function)])
    if getattr(function, "__name__", "") == "wrapper_set_seed":  # random numbers differ, whatever the seed
        return lambda op, *args, **kwargs: op(*args, **kwargs)
    if isinstance(function, types.FunctionType) and function.__module__.startswith("torch.testing"):
        names = set(function.__code__.co_names)
        names.update(n for c in function.__code__.co_consts if isinstance(c, types.CodeType) for n in c.co_names)
        space: dict[str, Any] = {"__builtins__": __builtins__}
        made = types.FunctionType(
            function.__code__,
            space,
            function.__name__,
            function.__defaults__,
            None if not function.__closure__ else tuple(types.CellType(translated(c.cell_contents, seen)) for c in function.__closure__),
        )
        made.__kwdefaults__ = function.__kwdefaults__
        seen[id(function)] = made
        space.update({n: translated(function.__globals__[n], seen) for n in names if n in function.__globals__})
        return made
    name = str(function)
    if name.startswith("aten."):
        return ours("ops." + name)
    return function


def translated(value: Any, seen: dict[int, Any] | None = None) -> Any:
    """A value of torch as one of ndgrad."""
    if isinstance(value, torch.nn.Parameter):
        return ndgrad.nn.Parameter(translated(value.data), requires_grad=value.requires_grad)
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise Absent("sparse tensors")
        array = _as_array(value)
        made = ndgrad.tensor(array) if value.dtype is not torch.bfloat16 else ndgrad.tensor(array).to(ndgrad.bfloat16)
        if value.dtype is torch.complex32:
            made = made.to(ndgrad.complex32)
        if value.ndim and not value.is_contiguous() and value.numel() and value.storage_offset() == 0:
            made = _strided_like(value, made)
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return ours(str(value).partition(".")[2])
    if isinstance(value, (torch.memory_format, torch.layout)):
        return ours(str(value).partition(".")[2])
    if isinstance(value, torch.device):
        return ndgrad.device(value.type)
    if isinstance(value, torch.Generator):
        return ndgrad.Generator()
    if isinstance(value, torch.Size):
        return ndgrad.Size(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(translated(v, seen) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(translated(v, seen) for v in value)
    if isinstance(value, dict):
        return {k: translated(v, seen) for k, v in value.items()}
    if value is torch:
        return ndgrad
    if isinstance(value, types.ModuleType) and value.__name__.startswith("torch."):
        return ours(value.__name__.partition(".")[2])
    if isinstance(value, types.FunctionType) or id(value) in _PATHS:
        return translated_function(value, seen)
    if value is torch.Tensor:
        return ndgrad.Tensor
    if isinstance(value, torch.nn.Module):
        return ours(f"nn.{type(value).__name__}")()
    return value


def _as_array(value: torch.Tensor) -> np.ndarray:
    value = value.detach().clone().resolve_conj().resolve_neg()
    if value._is_zerotensor():
        value = torch.zeros(value.shape, dtype=value.dtype)
    if value.dtype is torch.bfloat16:
        value = value.float()
    if value.dtype is torch.complex32:
        value = value.to(torch.complex64)
    return value.contiguous().numpy().copy()


def _strided_like(value: torch.Tensor, made: Any) -> Any:
    """The values in memory laid out as torch's."""
    if 0 in value.stride():
        return made
    size = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride()))
    buffer = ndgrad.zeros(size, dtype=made.dtype)
    view = buffer.as_strided(tuple(value.shape), value.stride())
    view.copy_(made)
    return view.detach()


# ----- comparing ------------------------------------------------------------------------------------------------------


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in a result or in arguments, in order."""
    if isinstance(value, (torch.Tensor, ndgrad.Tensor)):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from tensors(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from tensors(v)


def is_differentiable(t: Any) -> bool:
    return bool(t.is_floating_point() or t.is_complex())


class Wrong(Exception):
    """A result that is not torch's."""


_TOLERANCES = {"float16": 1e-2, "complex32": 1e-2, "bfloat16": 3e-2, "float32": 1e-4, "complex64": 1e-4}


def require_same(what: str, got: Any, want: Any, *, rough: bool = False, exact_dtype: bool = True, loose: float = 0.0) -> None:
    a, b = list(tensors(got)), list(tensors(want))
    if len(a) != len(b):
        raise Wrong(f"{what}: {len(a)} tensors for {len(b)}")
    for x, y in zip(a, b):
        if exact_dtype and str(x.dtype).partition(".")[2] != str(y.dtype).partition(".")[2]:
            raise Wrong(f"{what}: {x.dtype} for {y.dtype}")
        if tuple(x.shape) != tuple(y.shape):
            raise Wrong(f"{what}: {tuple(x.shape)} for {tuple(y.shape)}")
        if rough or not str(y.layout).endswith("strided"):
            continue
        left, right = _numbers(x), _as_array(y) if isinstance(y, torch.Tensor) else _numbers(y)
        near = max(loose, _TOLERANCES.get(str(y.dtype).partition(".")[2], 1e-7))
        finite = np.abs(right[np.isfinite(right)]) if near > 1e-3 else ()
        try:
            np.testing.assert_allclose(left, right, rtol=near, atol=near * max(1.0, *finite, 0.0))
        except AssertionError as error:
            raise Wrong(f"{what}: {' '.join(str(error).split())[:160]}") from None
    if not a and not isinstance(want, (tuple, list, dict)) and got != want and not (got != got and want != want):
        raise Wrong(f"{what}: {got} for {want}")


def _numbers(x: Any) -> np.ndarray:
    x = x.detach()
    if str(x.dtype).endswith("bfloat16"):
        x = x.float()
    if str(x.dtype).endswith("complex32"):
        x = x.to(ndgrad.complex64)
    return np.asarray(x.resolve_conj().numpy())


def weights(library: Any, out: Any, number: int) -> Any:
    """A cotangent for an output, the same in both libraries."""
    w = np.cos(np.arange(int(np.prod(tuple(out.shape)))) * 0.7 + number).reshape(tuple(out.shape))
    if out.is_complex():
        w = w + 0.3j * w**2
    return library.tensor(w).to(out.dtype)


def loss_of(library: Any, outs: list[Any]) -> Any:
    total = None
    for number, o in enumerate(outs):
        part = o * weights(library, o, number)
        part = (part.real if part.is_complex() else part).sum()
        total = part if total is None else total + part
    return total


def gradients(library: Any, result: Any, inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """First and second derivatives with respect to the inputs: zeros where nothing depends on them."""
    outs = [o for o in tensors(result) if is_differentiable(o) and o.requires_grad]
    if not outs or not inputs:
        return [], []
    first = library.autograd.grad(loss_of(library, outs), inputs, create_graph=True, allow_unused=True, materialize_grads=True)
    again = [o for o in first if o.requires_grad]
    if not again:
        return list(first), []
    try:
        second = library.autograd.grad(loss_of(library, again), inputs, allow_unused=True, materialize_grads=True)
    except (RuntimeError, NotImplementedError):
        if library is torch:
            return list(first), []
        raise
    return list(first), list(second)


# ----- one op ---------------------------------------------------------------------------------------------------------


class Report:
    """The findings about one op."""

    def __init__(self, name: str) -> None:
        self.name, self.verdict, self.samples = name, "right", 0
        self.problems: list[str] = []
        self.kinds: collections.Counter[str] = collections.Counter()

    def add(self, verdict: str, text: str) -> None:
        order = ("right", "wrong", "raises", "absent")
        self.verdict = max(self.verdict, verdict, key=order.index)
        kind = text.partition(") ")[2][:90]
        self.kinds[kind] += 1
        if self.kinds[kind] <= 2:
            self.problems.append(text)


def dtypes_of(op: Any) -> list[torch.dtype]:
    supported = op.supported_dtypes("cpu")
    chosen = [d for d in (torch.float64, torch.complex128, torch.int64, torch.float32, torch.bool, torch.bfloat16) if d in supported]
    return chosen or list(supported)[:1]


def check(op: Any, limit: int = SAMPLES) -> Report:
    name = op.name + (f" ({op.variant_test_name})" if op.variant_test_name else "")
    report = Report(name)
    if op.name in NOT_OURS:
        report.verdict, report.problems = "not ours", [NOT_OURS[op.name]]
        return report
    try:
        mine = _function(op)
    except Absent as error:
        report.add("absent", f"no {error}")
        return report
    for dtype in dtypes_of(op):
        differentiable = (
            (dtype.is_floating_point or dtype.is_complex) and op.supports_autograd and dtype in (torch.float64, torch.complex128)
        )
        torch.manual_seed(0)
        np.random.seed(0)
        try:
            samples = iter(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
        except Exception as error:  # the database's own trouble
            report.problems.append(f"no samples of {dtype}: {error}")
            continue
        count = limit if dtype in (torch.float64, torch.complex128) else max(4, limit // 8)
        for _ in range(count):
            try:
                sample = next(samples)
            except StopIteration:
                break
            except Exception as error:
                report.problems.append(f"no sample of {dtype}: {error}")
                break
            _check_sample(op, mine, sample, dtype, differentiable, report)
            report.samples += 1
            if len(report.problems) > 12:
                return report
    return report


def _function(op: Any) -> Any:
    if id(op.op) in _PATHS or (isinstance(op.op, types.FunctionType) and op.op.__module__.startswith("torch.testing")):
        return translated_function(op.op)
    for path in (op.name, f"Tensor.{op.name}"):
        try:
            return ours(path)
        except Absent:
            continue
    return translated_function(op.op) if str(op.op).startswith("aten.") else ours(op.name)


def _leaves(sample: Any) -> list[Any]:
    return [t for t in tensors((sample.input, sample.args, sample.kwargs)) if t.requires_grad]


def _describe(sample: Any) -> str:
    def short(v: Any) -> str:
        if isinstance(v, (torch.Tensor, ndgrad.Tensor)):
            return f"{str(v.dtype).partition('.')[2]}{list(v.shape)}"
        if isinstance(v, (tuple, list)):
            return "(" + ", ".join(map(short, v)) + ")"
        return repr(v)

    parts = [short(sample.input), *map(short, sample.args), *(f"{k}={short(v)}" for k, v in sample.kwargs.items())]
    return ", ".join(parts)[:200]


def _check_sample(op: Any, mine: Any, sample: Any, dtype: torch.dtype, differentiable: bool, report: Report) -> None:
    what = _describe(sample)
    try:
        a = types.SimpleNamespace(input=translated(sample.input), args=translated(tuple(sample.args)), kwargs=translated(sample.kwargs))
        process = translated_function(sample.output_process_fn_grad) if sample.output_process_fn_grad else None
    except Absent as error:
        report.add("absent", f"{what}: no {error}")
        return
    a_leaves, b_leaves = _leaves(a), _leaves(sample)
    try:
        torch.manual_seed(1)
        want = op.op(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        want = error
    if isinstance(want, Exception):
        try:
            mine(a.input, *a.args, **a.kwargs)
        except Exception:
            return
        return  # accepted beyond torch
    try:
        got = mine(a.input, *a.args, **a.kwargs)
    except Exception as error:
        report.add("raises", f"({what}) {type(error).__name__}: {' '.join(str(error).split())[:220]}")
        return
    rough = "randint" in op.name or _is_random(op, mine, a, process)
    try:
        if process is not None:
            want, got = sample.output_process_fn_grad(want), process(got)
        require_same(f"({what}) values", got, want, rough=rough)
        if differentiable and not rough:
            try:
                first, second = gradients(torch, want, b_leaves)
            except Exception:
                first, second = None, None
            if first is not None:
                first_, second_ = gradients(ndgrad, got, a_leaves)
                if first_ or any(bool((f != 0).any()) for f in first):
                    require_same(f"({what}) gradients", first_, first)
                if second_ and second:
                    require_same(f"({what}) second derivatives", second_, second)
            _check_forward(mine, process, a, a_leaves, got, what)
            _check_vmap(op, mine, process, sample, a, a_leaves, what)
        if op.supports_out and dtype is torch.float64:
            _check_out(mine, op, sample, a, what, rough)
    except Wrong as error:
        report.add("wrong", str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        report.add(
            "raises",
            f"({what}) {type(error).__name__}: {' '.join(str(error).split())[:260]} [{place.filename.rpartition('/')[2]}:{place.lineno}]",
        )


def _is_random(op: Any, mine: Any, a: Any, process: Any) -> bool:
    """Whether only shapes and dtypes can be compared: the memory is not filled, or twice the same call gives two results."""
    if "empty" in op.name or op.name in ("resize_", "resize_as_"):
        return True
    if isinstance(op.op, types.FunctionType) and "wrapper_set_seed" in op.op.__code__.co_names and "lowrank" not in op.name:
        return any(bool(a.kwargs.get(k, True)) for k in ("training", "train"))
    try:
        with ndgrad.no_grad():
            once, again = ([t.clone() for t in tensors(_result(mine, a, process))] for _ in range(2))
            require_same("", once, again)
    except Wrong:
        return True
    except Exception:  # in-place functions of leaves, and the like
        return False
    return False


def _result(mine: Any, a: Any, process: Any) -> Any:
    result = mine(a.input, *a.args, **a.kwargs)
    return result if process is None else process(result)


def _functional(mine: Any, process: Any, a: Any, leaves: list[Any]) -> Callable[..., Any]:
    """The call as a function of its differentiable tensors, with its differentiable results as a tuple."""

    def put(value: Any, given: dict[int, Any]) -> Any:
        if isinstance(value, (ndgrad.Tensor, torch.Tensor)):
            return given.get(id(value), value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(put(v, given) for v in value))
        if isinstance(value, (tuple, list)):
            return type(value)(put(v, given) for v in value)
        if isinstance(value, dict):
            return {k: put(v, given) for k, v in value.items()}
        return value

    def call(*values: Any) -> Any:
        given = {id(leaf): v for leaf, v in zip(leaves, values)}
        result = mine(put(a.input, given), *put(a.args, given), **put(a.kwargs, given))
        if process is not None:
            result = process(result)
        return tuple(o for o in tensors(result) if is_differentiable(o))

    return call


def _check_forward(mine: Any, process: Any, a: Any, leaves: list[Any], got: Any, what: str) -> None:
    """Forward mode against reverse mode."""
    if not leaves or not any(o.requires_grad for o in tensors(got) if is_differentiable(o)):
        return
    call = _functional(mine, process, a, leaves)
    values = tuple(leaf.detach() for leaf in leaves)
    tangents = tuple(weights(ndgrad, v, 3 + i) for i, v in enumerate(values))
    outs, moved = ndgrad.func.jvp(call, values, tangents)
    cotangents = tuple(weights(ndgrad, o, 11 + i) for i, o in enumerate(outs))
    _, pull = ndgrad.func.vjp(call, *values)
    pulled = pull(cotangents)

    def inner(xs: Any, ys: Any) -> Any:
        return sum(np.sum((_numbers(x).conj() * _numbers(y)).real) for x, y in zip(xs, ys))

    left, right = inner(cotangents, moved), inner(pulled, tangents)
    narrow = any(str(o.dtype).endswith(("float16", "float32", "complex64")) for o in outs)
    if not np.isclose(left, right, rtol=1e-2 if narrow else 1e-6, atol=1e-6) and np.isfinite(left) and np.isfinite(right):
        raise Wrong(f"({what}) forward mode {left} and reverse mode {right}")


def _check_vmap(op: Any, mine: Any, process: Any, sample: Any, a: Any, leaves: list[Any], what: str) -> None:
    """vmap over two equal samples against one; what torch refuses may be refused."""
    if not leaves:
        return
    call = _functional(mine, process, a, leaves)
    values = tuple(leaf.detach() for leaf in leaves)
    try:
        batched = ndgrad.func.vmap(call)(*(ndgrad.stack([v, v]) for v in values))
    except Exception:
        theirs = _leaves(sample)
        of_torch = _functional(op.op, sample.output_process_fn_grad, sample, theirs)
        try:
            torch.func.vmap(of_torch)(*(torch.stack([v.detach(), v.detach()]) for v in theirs))
        except Exception:
            return
        raise
    require_same(f"({what}) vmap", batched, tuple(ndgrad.stack([o, o]) for o in call(*values)))


def _check_out(mine: Any, op: Any, sample: Any, a: Any, what: str, rough: bool) -> None:
    with torch.no_grad():
        result = op.op(sample.input, *sample.args, **sample.kwargs)
        outs = [torch.empty_like(o) for o in tensors(result)]
        try:
            op.op(sample.input, *sample.args, **sample.kwargs, out=outs[0] if isinstance(result, torch.Tensor) else tuple(outs))
        except Exception:  # not every op that says it takes out= does
            return
    with ndgrad.no_grad():
        alone = mine(a.input, *a.args, **a.kwargs)
        outs = [ndgrad.empty(0, dtype=o.dtype) for o in tensors(alone)]
        if not outs:
            return
        target = outs[0] if isinstance(alone, ndgrad.Tensor) else tuple(outs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mine(a.input, *a.args, **a.kwargs, out=target)
    require_same(f"({what}) out=", tuple(outs), tuple(tensors(alone)), rough=rough)


# ----- all ops --------------------------------------------------------------------------------------------------------


def main(prefixes: list[str]) -> None:
    counts: collections.Counter[str] = collections.Counter()
    start = time.time()
    for op in load_database():
        name = op.name
        if prefixes and not any(name.startswith(p) for p in prefixes):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"):
                report = check(op)
        if report.verdict in ("wrong", "raises") and name in KNOWN:
            report.verdict = "known"
            report.problems.insert(0, KNOWN[name])
        counts[report.verdict] += 1
        if report.verdict not in ("right", "not ours", "known") or (prefixes and report.problems):
            print(f"{report.verdict:8} {report.name} ({report.samples} samples)", flush=True)
            for problem in report.problems[: 6 if prefixes else 4]:
                print(f"         {problem}", flush=True)
    print(dict(counts), f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
