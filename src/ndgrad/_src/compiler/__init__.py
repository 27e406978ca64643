"""Compiling functions: traced once into a program, then run as native code, as CUDA kernels or on NumPy.

    native    LLVM IR as text, compiled through llvmlite and kept on disk; the pool of worker threads
    program   the program itself: a list of ops, each value defined once; its text form; its run on NumPy
    kernels   kernels written as LLVM IR: vector maths, matrix products, convolutions, rows
    passes    rewrites of a program, one idea per file
    lower     from a program to native code: grouping, memory, loops
    cuda      from a program to CUDA kernels
    capture   tracing: the function runs on arrays without data, and an observer records its ops
    runtime   calls: guards, choice of a specialization, results, backward nodes
    report    explanations, kernel lists, pictures, the roofline of the machine

A folder imports only folders above it in this list, `cuda` and `report` excepted, which nothing below imports at load.
`ndgrad.compile` is in runtime/entry.py.
"""
