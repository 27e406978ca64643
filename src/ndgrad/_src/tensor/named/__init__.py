"""Tensors with named dimensions: their class, and name inference for functions (docs/named.md)."""
