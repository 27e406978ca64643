"""Tensors whose dimensions have names: their class, and how names go through functions (docs/named.md)."""
