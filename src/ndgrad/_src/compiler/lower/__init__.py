"""From a program to native code.

    places      views are ways to read memory: a value is a root, an offset and strides                       (places.py)
    steps       what a program consists of then: kernels, products, calls                                     (steps.py)
    group       instructions over one space of indices become one kernel: a list of steps                     (group.py)
    assembling  values that are put together of others                                                        (assembling.py)
    nests       a kernel as nested loops, its innermost one over vectors                                      (nests.py)
    products    matrix products as calls of the kernel library                                                (products.py)
    routines    convolutions, pooling and slices by index, likewise                                           (routines.py)
    orders      images whose channels come last in memory                                                     (orders.py)
    loops       native loops around the steps of their bodies                                                 (loops.py)
    chains      steps that go through a batch together, one index after the other                             (chains.py)
    epilogues   elementwise kernels over the pieces of a convolution, as they are made                        (epilogues.py)
    waves       steps that run at once                                                                        (waves.py)
    plan        where in memory each value lies, by how long it is needed                                     (plan.py)
    run         one function for all steps, called with a table of addresses                                  (native_program.py)
"""
