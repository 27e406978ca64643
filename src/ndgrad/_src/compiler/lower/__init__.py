"""Lower a program to native code.

    memory_places        views as ways to read memory: a value is a root, an offset and strides
    steps                the steps of a lowered program: kernels, products, calls
    grouping             instructions over one index space become one kernel: a list of steps
    capabilities         the features of kernels that grouping depends on
    components           connected parts of the elementwise ops
    value_assembly       values assembled from other values
    loop_nests           a kernel as nested loops, the innermost over vectors
    pointwise            elementwise ops and their machine instructions
    interleaved_complex  vectors of complex numbers
    products             matrix products as calls of the kernel library
    routines             convolutions, pooling and indexed slices, likewise
    image_layouts        images whose channels come last in memory
    loops                native loops around the steps of their bodies
    chains               steps that pass through a batch together, index by index
    epilogues            elementwise kernels over the pieces of a convolution
    parallel_steps       steps that run at once
    memory_plan          memory offsets of values, by their lifetimes
    in_place             results computed in the memory of inputs
    float_errors         floating-point errors that eager calls would report
    templates            code shared by modules that differ only in numbers
    accounting           bytes and arithmetic of steps
    module_assembly      the functions of all steps, in one module
    native_program       a compiled program, called with a table of addresses
"""
