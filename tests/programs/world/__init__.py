"""The world changes: random programs that read and change many kinds of places, compiled against eager.

A program is the text of a module as a user would write it. It is executed in two fresh modules, one after the other: once
with the function as it is, once with `ndgrad.compile`. Each call is followed by changes of the world, the same in both.
Everything that can be seen is compared after each call (`observe`, `compare`): results, dtypes, strides, gradients, output, the
state of each place, errors.

`places` and `effects` hold the kinds; `generate` draws programs from them; `run` executes them apart from each other;
`shrink` makes a short program of a difference and names its cause.

    python -m tests.programs --world --minutes 10 --seed 0 --workers 2
"""
