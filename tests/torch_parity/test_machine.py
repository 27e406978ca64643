"""Queries of the machine and settings of the library (`cuda`, `backends`, `version`, `jit`, ...), on torch and on ndgrad alike, where
there is no GPU."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, on_both

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
PROGRAMS = Programs()
program = PROGRAMS.enter


def module(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


@program
def questions_about_gpus(m):
    cuda = m.cuda
    return (
        cuda.is_available(), cuda.device_count(), cuda.is_initialized(), cuda.is_bf16_supported(), cuda.get_arch_list(),
        cuda.memory_allocated(), cuda.memory_reserved(), cuda.max_memory_allocated(), cuda.max_memory_reserved(),
        dict(cuda.memory_stats()), cuda.get_rng_state_all(), cuda.get_gencode_flags(), list(cuda.default_generators), cuda.has_half,
    )  # fmt: skip


@program
def calls_that_need_no_gpu(m):
    cuda = m.cuda
    return [
        f()
        for f in (
            cuda.empty_cache, lambda: cuda.manual_seed(0), lambda: cuda.manual_seed_all(0), cuda.seed, cuda.seed_all,
            lambda: cuda.set_device(-1), lambda: cuda.set_stream(None), lambda: cuda.set_rng_state_all([]),
        )
    ]  # fmt: skip


@program
def blocks_without_a_gpu(m):
    with m.cuda.device(-1), m.cuda.stream(None):
        return m.ones(1).device.type


@program
def other_devices(m):
    found = []
    for name in ("mps", "xpu", "mtia"):
        device = module(m, name)
        found.append((device.is_available(), device.device_count()))
    return found, attempt(m.mps.synchronize), attempt(m.mps.empty_cache), m.xpu.memory_allocated(), m.xpu.is_bf16_supported()


@program
def the_accelerator(m):
    a = m.accelerator
    return (
        a.is_available(), a.device_count(), a.current_accelerator(), attempt(a.synchronize), attempt(a.current_device_index),
        attempt(a.memory_allocated), attempt(lambda: a.set_device_index(0)),
    )  # fmt: skip


@program
def switches_of_cudnn(m):
    cudnn = m.backends.cudnn
    found = [cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.is_available(), cudnn.version()]
    with cudnn.flags(enabled=False, benchmark=True, deterministic=True):
        found += [cudnn.enabled, cudnn.benchmark, cudnn.deterministic]
    found += [cudnn.enabled, cudnn.benchmark, cudnn.deterministic]
    cudnn.benchmark = True
    found.append(cudnn.benchmark)
    cudnn.benchmark = False
    return [*found, attempt(lambda: setattr(cudnn, "benchmark", "yes"))]


@program
def switches_of_products_and_attention(m):
    cuda = m.backends.cuda
    found = [cuda.is_built(), cuda.matmul.allow_tf32, cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.mem_efficient_sdp_enabled()]
    cuda.matmul.allow_tf32 = True
    cuda.enable_flash_sdp(False)
    found += [cuda.matmul.allow_tf32, cuda.flash_sdp_enabled()]
    cuda.matmul.allow_tf32 = False
    cuda.enable_flash_sdp(True)
    return [*found, attempt(lambda: setattr(cuda.matmul, "nonsense", 1)), cuda.is_flash_attention_available()]


@program
def answers_of_backends(m):
    b = m.backends
    found = b.mps.is_available(), b.mps.is_built(), b.cudnn.is_acceptable(m.ones(1)), b.cusparselt.is_available()
    return *found, b.mha.get_fastpath_enabled()


@program
def scripted_and_traced_functions(m):
    x = m.tensor([1.0, -2.0], requires_grad=True)
    f = m.jit.trace(lambda v: v.sin() * 2, m.zeros(2))
    f(x).sum().backward()
    numbers = [round(v, 5) for t in (f(x), x.grad) for v in t.tolist()]
    return numbers, m.jit.is_scripting(), m.jit.is_tracing(), m.jit.annotate(int, 3), m.jit.wait(m.jit.fork(m.exp, m.zeros(1)))


@program
def names_of_the_compiler(m):
    c = m.compiler
    asked = c.is_compiling(), c.is_dynamo_compiling(), c.is_exporting(), "inductor" in c.list_backends()
    return asked, c.disable(lambda x: x + 1)(1), c.reset()


@program
def a_module_that_asks_for_several_devices(m):
    net = m.nn.DataParallel(m.nn.Linear(2, 1))
    x = m.ones(3, 2)
    return sorted(net.state_dict()), tuple(net(x).shape), m.equal(net(x), net.module(x)), isinstance(net.module, m.nn.Linear)


@program
def parts_of_a_dataset_for_several_processes(m):
    sampler = module(m, "utils.data").DistributedSampler
    found = []
    for size in (0, 1, 5, 6, 7):
        for drop in (False, True):
            parts = [sampler(range(size), 3, rank, shuffle=False, drop_last=drop) for rank in range(3)]
            found.append([(list(part), len(part)) for part in parts])
    shuffled = [sampler(range(8), 2, rank, seed=3) for rank in (0, 1)]
    whole = sorted(i for part in shuffled for i in part)
    shuffled[0].set_epoch(4)
    return found, whole, attempt(lambda: sampler(range(4), 2, 2)), attempt(lambda: sampler(range(4)))


@program
def several_processes_that_are_not_there(m):
    return m.distributed.is_initialized(), module(m, "distributed").is_torchelastic_launched()


@program
def names_of_multiprocessing(m):
    mp = module(m, "multiprocessing")
    strategies = "file_system" in mp.get_all_sharing_strategies()
    return mp.get_all_start_methods(), strategies, attempt(lambda: mp.get_context("nowhere")), mp.cpu_count()


@program
def branches_and_loops_at_the_top_level(m):
    return [m.cond(m.tensor(p), lambda x: x + 1, lambda x: x - 1, (m.ones(2),)) for p in (True, False)]


@program
def what_tensors_inside_transforms_are(m):
    f = module(m, "_C._functorch") if m is ndgrad else m._C._functorch
    seen = []

    def note(x):
        found = f.is_batchedtensor(x), f.is_gradtrackingtensor(x), f.is_functorch_wrapped_tensor(x)
        seen.append((found, f.maybe_get_level(x), f.maybe_get_bdim(x), tuple(f.get_unwrapped(x).shape), f.current_level()))
        return x.sum()

    m.func.vmap(note)(m.ones(2, 3))
    m.func.grad(note)(m.ones(2))
    m.func.vmap(m.func.grad(note))(m.ones(2, 3))
    x = m.ones(2)
    return seen, f.is_batchedtensor(x), f.maybe_get_level(x), f.maybe_get_bdim(x)


@program
def nodes_by_class(m):
    functions = module(m, "_C._functions") if m is ndgrad else m._C._functions
    x = m.ones(2, requires_grad=True)
    delayed = functions.DelayedError("no second derivative", 1)(x * 2)
    nothing = functions.UndefinedGrad()(x * 1)
    nothing.sum().backward()
    of_class = isinstance((x * x).grad_fn, functions.MulBackward0), isinstance(x.exp().grad_fn, functions.ExpBackward0)
    return of_class, attempt(delayed.sum().backward), x.grad


@program
def the_older_vmap(m):
    old = module(m, "_vmap_internals")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = old.vmap(lambda x: x * 2)(m.ones(3))
    return found, [w.category.__name__ for w in caught], old._vmap(lambda x: x.sum(), 1)(m.ones(2, 3))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_gives_the_same_with_ndgrad_as_with_torch(name: str) -> None:
    ndgrad.set_default_dtype(ndgrad.float32)
    theirs, ours = on_both(PROGRAMS[name])
    assert ours == theirs


# ----- deliberate differences ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["current_device", "synchronize", "get_device_name", "current_stream", "init", "initial_seed"])
def test_what_needs_a_gpu_is_a_runtime_error(call: str) -> None:
    deliberate("absent-device")
    with pytest.raises(AssertionError):
        getattr(torch.cuda, call)()
    with pytest.raises(RuntimeError, match="CuPy"):
        getattr(ndgrad.cuda, call)()


def _autocast_after_a_pass_without_gradients(m: Any) -> Any:
    w = m.ones(2, 2, requires_grad=True)
    with m.autocast("cpu"):
        with m.no_grad():
            m.ones(1, 2) @ w
        y = m.ones(1, 2) @ w
    return y.requires_grad


def _autocast_after_a_write(m: Any) -> Any:
    w = m.ones(2, 2, requires_grad=True)
    with m.autocast("cpu"):
        m.ones(1, 2) @ w
        with m.no_grad():
            w.mul_(3.0)
        return (m.ones(1, 2) @ w).tolist()


def test_kept_casts_are_looked_at_again() -> None:
    deliberate("autocast-cache")
    ndgrad.set_default_dtype(ndgrad.float32)
    found = [[f(m) for m in MODULES] for f in (_autocast_after_a_pass_without_gradients, _autocast_after_a_write)]
    assert found[1] == [[[2.0, 2.0]], [[6.0, 6.0]]]
    assert found[0][1] is True


def test_traces_follow_the_function() -> None:
    deliberate("jit-programs")

    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x * 3

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.jit.trace(f, torch.ones(1))
    assert theirs(-torch.ones(1)).tolist() == [-2.0]  # the branch of the example
    assert ndgrad.jit.trace(f, ndgrad.ones(1))(-ndgrad.ones(1)).tolist() == [-3.0]
    net = ndgrad.nn.Linear(1, 1)
    assert isinstance(ndgrad.jit.script(net), ndgrad.jit.ScriptModule)


def test_tensors_sent_to_processes_are_the_receivers_own() -> None:
    deliberate("sent-tensors")
    x = ndgrad.ones(200, 200)
    receiver, sender = ndgrad.multiprocessing.Pipe(duplex=False)
    sender.send(x)
    receiver.recv().zero_()
    assert x.sum().item() == 40000
    y = torch.ones(4)
    receiver, sender = module(torch, "multiprocessing").Pipe(duplex=False)
    sender.send(y)
    receiver.recv().zero_()
    assert y.sum().item() == 0
