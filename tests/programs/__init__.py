"""Random NumPy programs: one grammar, one oracle, every way to a derivative.

A program is source text made from a seed (`grammar` has its sentences, `generate` draws them; `language` says what its
names mean). Plain NumPy and finite differences say what its values and derivatives are (`oracle`); each way of
differentiating (`modes`) must agree or refuse (`check`). What does neither is made as short as it can be and still go
wrong (`minimise`), and printed as a program that can be pasted.

    python -m tests.programs --count 1000 --seed 0

`test_programs` runs a few hundred of them with fixed seeds.
"""
