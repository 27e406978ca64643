"""Random NumPy programs: one grammar, one oracle, every way to a derivative.

A program is source text made from a seed (`grammar` has its sentences, `generate` draws them, `language` defines its
names). Plain NumPy and finite differences give its values and derivatives (`oracle`). Each way of differentiating
(`modes`) must agree or refuse (`check`). A program that does neither is shortened as long as it still fails
(`minimise`), and printed so that it can be pasted.

    python -m tests.programs --count 1000 --seed 0

`test_programs` runs a few hundred of them with fixed seeds.
"""
