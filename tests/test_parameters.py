"""Every parameter of a public function is read: a parameter that is accepted and ignored gives wrong results silently.

The source of each public function and method is searched for its parameters. A decorator that takes a parameter by name
reads it too. Other parameters are listed here with the reason why ignoring them changes no result.
"""

from __future__ import annotations

import ast
import functools
import inspect
from fnmatch import fnmatch
from pathlib import Path

import pytest
from docs.reference_pages import namespaces

import ndgrad

ROOT = Path(ndgrad.__file__).parent

#: Parameters that change no result under any function: pattern -> reason.
HINTS = {
    "overwrite_*": "permission to reuse memory",
    "non_blocking": "copies are finished when they return",
    "pin_memory": "all memory can be copied to a device",
    "foreach": "one implementation for all parameters",
    "workers": "the number of threads is a setting of the process",
    "subok": "results are Arrays",
    "check_finite": "NaN and infinity pass through",
    "lapack_driver": "one driver",
    "driver": "one driver",
    "balanced": "conditioning of a solver",
    "_*": "private in torch",
}

#: Parameters of single functions, or of all in a namespace: pattern of name -> (parameters, reason).
IGNORED = {
    "ndgrad.distributed.TCPStore.__init__": ("use_libuv", "an event loop of torch's server"),
    "ndgrad.export.export": ("strict prefer_deferred_runtime_asserts_over_guards", "one way to trace; arguments are checked"),
    "ndgrad.export.ShapesCollection.dynamic_shapes": ("m", "the structure of the arguments decides"),
    "ndgrad.library.Library.impl": ("allow_override", "a later registration replaces an earlier one, as in torch"),
    "ndgrad.fx.*": ("*", "listed below"),
    # messages and processes
    "ndgrad.distributed.*_object_list": ("device use_batch", "objects travel through the host's memory, one by one"),
    "ndgrad.distributed.monitored_barrier": ("wait_all_ranks", "an error always names all missing ranks"),
    "ndgrad.distributed.tensor.DTensor.redistribute": ("async_op", "results are complete when they return"),
    "ndgrad.distributed.optim.ZeroRedundancyOptimizer.join_hook": ("kwargs", "settings of the other objects of the block"),
    "ndgrad.distributed.optim.ZeroRedundancyOptimizer.__init__": (
        "parameters_as_bucket_view", "the memory in which parameters are sent",
    ),
    "ndgrad.distributed.checkpoint.FileSystemWriter.__init__": (
        "per_thread_copy_ahead cache_staged_state_dict", "tuning of copies",
    ),
    "ndgrad.distributed.fsdp.FullyShardedDataParallel.__init__": (
        "backward_prefetch forward_prefetch limit_all_gathers sync_module_states use_orig_params",
        "hints of speed; parameters are DTensors and start from those of the first rank",
    ),
    "ndgrad.distributed.rpc.RRef.__init__": ("type_hint", "for type checkers"),
    "ndgrad.nn.parallel.DistributedDataParallel.__init__": ("check_reduction", "deprecated, and without effect in torch too"),
    # one device of a kind, or none
    "ndgrad.Future.__init__": ("devices", "streams are synchronised by the result itself"),
    "ndgrad.cpu.*": ("stream event priority device", "the CPU has one stream"),
    "ndgrad.mps.*": ("seed", "there is no such device"),
    "ndgrad.mtia.*": ("device including_emulation", "there is no such device"),
    "ndgrad.backends.cuda.can_use_cudnn_attention": ("params debug", "the answer is always False"),
    "ndgrad.accelerator.current_accelerator": ("check_available", "only available ones are known"),
    "ndgrad.cuda.CUDAGraph.*": ("keep_graph pool", "memory of graphs is managed by CuPy"),
    "ndgrad.cuda.graph.__init__": ("pool", "memory of graphs is managed by CuPy"),
    "ndgrad.cuda.memory_summary": ("abbreviated", "the text is short already"),
    "ndgrad.Tensor.is_pinned": ("device", "no memory is pinned"),
    "ndgrad.Tensor.pin_memory": ("device", "no memory is pinned"),
    "ndgrad.nn.DataParallel.__init__": ("output_device", "one process uses one device"),
    "ndgrad.nn.parallel.data_parallel": ("device_ids output_device dim", "one process uses one device"),
    "ndgrad.set_flush_denormal": ("mode", "returns False: not supported, as in torch on such processors"),
    "ndgrad.autograd.graph.save_on_cpu.__init__": ("device_type", "tensors are restored to their own device"),
    "ndgrad.utils.checkpoint.?et_device_states": ("args device_type", "generators of all devices are kept"),
    # the result has the property that is asked for, or is exact
    "ndgrad*.argsort": ("stable", "always stable"),
    "ndgrad*.sort": ("stable", "always stable"),
    "ndgrad*.topk": ("sorted", "always sorted"),
    "ndgrad*.unique": ("sorted", "always sorted"),
    "ndgrad.isin": ("assume_unique", "a hint of speed"),
    "ndgrad.lobpcg": (
        "iK niter tol ortho_iparams ortho_fparams ortho_bparams",
        "eigenvalues are computed exactly, not by iteration",
    ),
    "ndgrad.sparse_*_tensor": ("check_invariants", "always checked"),
    "ndgrad.safetensors.save_model": ("force_contiguous", "always written contiguously"),
    "ndgrad.scipy.optimize.*": ("fprime fprime2 col_deriv band epsfcn", "exact derivatives replace approximations"),
    "ndgrad.scipy.linalg.*": ("lwork blocksize tol max_ev method", "tuning of LAPACK"),
    "ndgrad.scipy.sparse.linalg.sp*": ("permc_spec diag_pivot_thresh relax panel_size options use_umfpack", "tuning"),
    "ndgrad.scipy.sparse.linalg.expm_multiply": ("traceA", "a hint of speed"),
    "ndgrad.scipy.sparse.linalg.ls??": ("args", "tolerances by position; the solution is exact"),
    "ndgrad.scipy.fft.*": ("plan xp device", "one implementation"),
    "ndgrad.scipy.interpolate.*": ("rng random_state maxit solver solver_args copy quiet method", "solved exactly"),
    "ndgrad.scipy.signal.filtfilt": ("irlen", "belongs to method='gust', which is refused"),
    "ndgrad.scipy.signal.gausspulse": ("tpr", "belongs to t='cutoff', which is refused"),
    "ndgrad.numpy.linalg.svd": ("hermitian", "a hint of speed"),
    "ndgrad.numpy.*partition": ("kind", "NumPy has one kind"),
    "ndgrad.numpy.vectorize.__init__": ("cache", "a hint of speed"),
    "ndgrad.numpy.corrcoef": ("bias ddof", "without effect in NumPy too"),
    "ndgrad.numpy.einsum_path": ("einsum_call", "private in NumPy"),
    "ndgrad.compat.autograd.extend.register_notrace": ("trace_type", "one kind of trace"),
    "ndgrad.autograd.gradcheck.get_numerical_jacobian_wrt_specific_input": ("outputs", "computed anew"),
    "ndgrad.nn.functional.gumbel_softmax": ("eps", "deprecated, and without effect in torch too"),
    "ndgrad.nn.functional.linear_cross_entropy": ("options", "tuning of a kernel"),
    "ndgrad.nn.attention.sdpa_kernel": ("set_priority", "one implementation"),
    "ndgrad.nn.attention.flex_attention.*": ("kernel_options head token_q token_kv", "tuning; a mask that masks nothing"),
    "ndgrad.*max_pool?d_with_indices": ("return_indices", "indices are always returned, as in torch"),
    # signatures that a caller or a base class determines
    "ndgrad.hsmm": ("out", "the class of sparse tensors refuses out="),
    "ndgrad*.sspaddmm": ("out", "the class of sparse tensors refuses out="),
    "ndgrad.sparse.sampled_addmm": ("out", "the class of sparse tensors refuses out="),
    "ndgrad.expand_copy": ("implicit", "private in torch"),
    "ndgrad.autograd.Function.__init__": ("args kwargs", "a deprecated call, which warns"),
    "ndgrad.autograd.Function.vjp": ("options", "for type checkers"),
    "ndgrad.autograd.function.FunctionCtx.mark_shared_storage": ("pairs", "a deprecated call, which warns"),
    "ndgrad.autograd.graph.Node.output_metadata": ("number", "a node of one output"),
    "ndgrad.overrides.redispatch_function": ("types", "the signature of __torch_function__"),
    "ndgrad.distributions.*.log_abs_det_jacobian": ("y", "the signature of Transform"),
    "ndgrad.distributions.constraints.dependent_property.__call__": ("known", "torch's decorator passes them twice"),
    "ndgrad.nn.Identity.__init__": ("args kwargs", "ignored by torch too"),
    "ndgrad.nn.utils.*.__call__": ("inputs", "the signature of a forward pre-hook"),
    "ndgrad.nn.utils.prune.*.compute_mask": ("t", "the signature of BasePruningMethod"),
    "ndgrad.compiler.list_backends": ("exclude_tags", "no backend has a tag"),
    "ndgrad.*profile*.__init__": (
        "use_kineto experimental_config acc_events custom_trace_id_callback execution_trace_observer",
        "settings of Kineto",
    ),
    "ndgrad.hub.*": ("force_reload progress skip_validation trust_repo verbose", "nothing is downloaded"),
    "ndgrad.jit.*": (
        "optimize example_inputs strict check_inputs preserved_attrs optimize_numerics other_methods the_type",
        "functions are run as Python",
    ),
}

#: Parameters in fx that are still ignored, by function. Entries only leave this list.
STILL_IGNORED = {
    "ndgrad.fx.Graph.find_nodes": "sort",
    "ndgrad.fx.GraphModule.__new__": "args kwargs",
    "ndgrad.fx.GraphModule.print_readable": "colored",
    "ndgrad.fx.Interpreter.get_attr": "args kwargs",
    "ndgrad.fx.Interpreter.output": "kwargs target",
    "ndgrad.fx.Interpreter.placeholder": "kwargs",
    "ndgrad.fx.Node.is_impure": "impure_random",
    "ndgrad.fx.Tracer.getattr": "attr",
    "ndgrad.fx.Tracer.is_leaf_module": "module_qualified_name",
    "ndgrad.fx.Transformer.placeholder": "kwargs",
    "ndgrad.fx.experimental.proxy_tensor.make_fx": "pre_dispatch record_module_stack",
    "ndgrad.fx.operator_schemas.check_for_mutable_operation": "args",
    "ndgrad.fx.operator_schemas.normalize_function": "arg_types kwarg_types",
    "ndgrad.fx.passes.graph_drawer.DotGraph.write": "prog",
    "ndgrad.fx.passes.graph_drawer.FxGraphDrawer.__init__": "normalize_args",
    "ndgrad.fx.passes.split_module.split_module": "keep_original_input_name",
    "ndgrad.fx.passes.split_utils.split_by_tags": "GraphModuleCls return_tuple",
    "ndgrad.fx.subgraph_rewriter.replace_pattern_with_filters": "node_name_match",
    "ndgrad.fx.traceback.set_current_meta": "pass_name",
}


@functools.cache
def definitions(path: str) -> dict[int, ast.FunctionDef]:
    """Return the functions of a file by their first line, decorators included."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {min([d.lineno for d in n.decorator_list] + [n.lineno]): n for n in nodes}


def wrappers(function):
    """Return a function's decorators, outermost first, and the function itself."""
    chain = [function]
    while hasattr(chain[-1], "__wrapped__"):
        chain.append(chain[-1].__wrapped__)
    return chain[:-1], chain[-1]


def unread(value):
    """Return the parameters of a function that neither it nor a decorator reads."""
    outer, function = wrappers(value)
    code = getattr(function, "__code__", None)
    if code is None or not code.co_filename.startswith(str(ROOT)):
        return []
    node = definitions(code.co_filename).get(code.co_firstlineno)
    if node is None or node.name != code.co_name:
        return []
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if not body or (len(body) == 1 and isinstance(body[0], ast.Raise)):
        return []  # a declaration, or a refusal of every call
    read = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    codes = [w.__code__ for w in outer if hasattr(w, "__code__")]
    by_name = {name for c in codes for name in (*c.co_varnames, *c.co_consts) if isinstance(name, str)}
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return [a.arg for a in every if a.arg not in read | by_name | {"self", "cls"}] if "locals" not in read else []


def public_functions():
    """Yield (name, function) for all public functions, and methods of public classes."""
    seen = set()

    def visit(name, value):
        if id(value) in seen:
            return
        seen.add(id(value))
        if inspect.isclass(value) and str(value.__module__).startswith("ndgrad"):
            for key, member in vars(value).items():
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and (not key.startswith("_") or key in ("__init__", "__new__", "__call__")):
                    yield from visit(f"{name}.{key}", function)
        elif inspect.isfunction(value):
            yield name, value

    for home, namespace in namespaces.namespaces().items():
        for name in namespace.names:
            yield from visit(f"{home}.{name}", namespaces.get(namespace, name))


@functools.cache
def ignored():
    """Return the parameters that no code reads and that are no hints: (function, parameter)."""
    found = [(name, p) for name, function in public_functions() for p in unread(function)]
    return frozenset((name, p) for name, p in found if not any(fnmatch(p, hint) for hint in HINTS))


def is_stated(name, parameter):
    return any(fnmatch(name, pattern) and (names == "*" or parameter in names.split()) for pattern, (names, _) in IGNORED.items())


def test_parameters_of_public_functions_are_read():
    assert sorted((n, p) for n, p in ignored() if not is_stated(n, p)) == []


def test_no_other_parameter_of_fx_is_ignored():
    ours = {(n, p) for n, p in ignored() if n.startswith("ndgrad.fx.")}
    assert sorted((n, p) for n, p in ours if p not in STILL_IGNORED.get(n, "").split()) == []


def test_stated_exceptions_are_needed():
    names = {n for n, _ in ignored()}
    assert [pattern for pattern in IGNORED if not any(fnmatch(n, pattern) for n in names)] == []


def test_a_parameter_that_is_ignored_is_found():
    source = inspect.getsourcefile(ndgrad.sparse.sampled_addmm)
    assert source is not None
    assert "out" in unread(inspect.unwrap(ndgrad.sparse.sampled_addmm))


# ----- parameters that were ignored once ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rand_like", "randn_like", "randint_like"])
def test_random_tensors_take_a_memory_format(name):
    more = (5,) if name == "randint_like" else ()
    made = getattr(ndgrad, name)(ndgrad.zeros(2, 3, 4, 5), *more, memory_format=ndgrad.channels_last)
    assert made.stride() == (60, 1, 15, 3)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ndgrad.scalar_tensor(1.0, layout=ndgrad.sparse_coo), RuntimeError),
        (lambda: ndgrad.zeros(2, 3, 4, 5).resize_(1, 3, 4, 5, memory_format=ndgrad.channels_last), RuntimeError),
        (lambda: ndgrad.numpy.array([1.0]).view(type=int), TypeError),
        (lambda: ndgrad.numpy.array([[1.0]], ndmax=1), NotImplementedError),
    ],
)
def test_values_without_effect_are_refused(call, error):
    with pytest.raises(error, match=r"\[nd-"):
        call()


@pytest.mark.parametrize("kind", ["SequentialLR", "ChainedScheduler"])
def test_compound_schedules_take_no_epoch(kind):
    optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=1.0)
    parts = [ndgrad.optim.lr_scheduler.ExponentialLR(optimizer, 0.5) for _ in range(2)]
    given = (optimizer, parts, [2]) if kind == "SequentialLR" else (parts,)
    scheduler = getattr(ndgrad.optim.lr_scheduler, kind)(*given)
    optimizer.step()
    with pytest.raises(TypeError, match="epoch"):
        scheduler.step(3)
