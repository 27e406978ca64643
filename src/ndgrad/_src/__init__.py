"""The implementation of ndgrad, in layers. A layer imports only layers above it in this list.

    foundations       locks, hooks between layers, devices, sizes, pytrees, error codes
    arrays            array libraries (NumPy, CuPy), dtypes, random generators, kernels on bare arrays
    ops               the op table: each op's forward function, derivative rules and facts
    core              tensors' metadata, nodes, saved tensors, views, in-place writes, modes, dispatch
    interpreters      forward mode and vmap: what an open transform does to an op
    engine            backward passes
    custom_functions  autograd.Function
    debug             anomaly mode, explanations, source lines, pictures of graphs
    tensor            the Tensor class and torch's functions
    transforms        grad, vjp, jvp, vmap, Jacobians, Taylor mode, sparsity
    checkpoint        recomputation instead of saved tensors
    control_flow      scan, cond, while_loop
    compiler          tracing, programs, passes, native and CUDA code
    lifting           existing NumPy code on ndgrad
    command_line      the command `ndgrad`

Everything beside this folder is a name that users import: torch's namespaces (`nn`, `optim`, `autograd`, ...),
NumPy's and SciPy's (`numpy`, `scipy`, `array_api`), and a few of ndgrad's own (`implicit`, `viz`, `compat`).
Modules of this folder may move in any release.

Start with ops/table.py (what an op is), core/variable.py and core/node.py (what a tensor and a graph are),
core/record.py (how a call becomes a node) and engine/engine.py (how a graph runs backward).
"""
