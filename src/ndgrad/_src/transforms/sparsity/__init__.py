"""Sparse Jacobians and Hessians: detect the pattern, colour it, evaluate it with as many products as there are colours.

`sets` and `trace` find which outputs depend on which inputs, by `rules` per kind of op (`moves`, `reductions`,
`contractions`); `coloring` groups columns; `products` is what users call.
"""
