"""Torch's functions of tensors, one file per family."""
