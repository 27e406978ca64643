"""The Tensor class, its storage and text, and torch's functions (`functions/`, one file per family)."""
