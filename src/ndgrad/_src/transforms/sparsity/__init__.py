"""Sparse Jacobians and Hessians: detect the pattern, colour it, evaluate it with one product per colour.

`sets` and `trace` find the inputs on which each output depends, by `rules` per kind of op (`moves`, `reductions`,
`contractions`); `coloring` groups columns; `products` has the public functions.
"""
