"""Names of jax that have another name here. Errors for missing attributes of modules mention the name to use."""

from __future__ import annotations

#: Last part of jax's name -> the alternative, as a sentence.
_ALTERNATIVES = {
    "jit make_jaxpr": "Use `ndgrad.compile(f)`, and `ndgrad.compile(f).graph(*args)` to see the program.",
    "grad": "Use `ndgrad.func.grad(f)` for functions, or `ndgrad.autograd.grad(y, x)` for tensors.",
    "value_and_grad jacfwd jacrev hessian jvp vjp linearize": "Use the function of this name in `ndgrad.func`.",
    "jacobian": "Use `ndgrad.func.jacrev`, or `ndgrad.func.jacfwd` for functions with few inputs.",
    "stop_gradient": "Use `x.detach()`.",
    "custom_vjp custom_jvp custom_gradient": "Write a `ndgrad.autograd.Function` with `backward` or `jvp`.",
    "remat checkpoint checkpoint_policies": "Use `ndgrad.utils.checkpoint.checkpoint(f, *args)`.",
    "tree tree_flatten tree_leaves tree_map tree_structure tree_unflatten tree_util": "Use `ndgrad.pytree`.",
    "lax": "Use `scan`, `cond`, `while_loop` and `fori_loop` of `ndgrad.func`, or Python's own loops.",
    "PRNGKey key split fold_in": "There are no keys: set `ndgrad.manual_seed(n)`, or pass a `ndgrad.Generator`.",
    "pmap shard_map": "Use `ndgrad.func.vmap` in one process, and `ndgrad.distributed` for several.",
    "device_put": "Use `x.to(device)`.",
    "block_until_ready": "Results on the CPU are ready; `ndgrad.cuda.synchronize()` waits for a GPU.",
    "ravel_pytree": "Use `ndgrad.nn.utils.parameters_to_vector`, or `ndgrad.pytree.tree_flatten` and `ndgrad.cat`.",
}
#: Namespaces in which users of jax look for these names.
_HOMES = frozenset("ndgrad ndgrad.func ndgrad.numpy ndgrad.random ndgrad.autograd".split())


def find_alternative(namespace: str, name: str) -> str:
    """Return the alternative to a name of jax that a namespace does not have, or an empty string."""
    if namespace not in _HOMES:
        return ""
    return next((f": {text}" for names, text in _ALTERNATIVES.items() if name in names.split()), "")
