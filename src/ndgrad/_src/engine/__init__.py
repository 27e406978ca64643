"""Backward passes: roots, order, accumulation into leaves, callbacks, threads, streams."""
