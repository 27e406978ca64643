"""Loops and branches as functions: scan, fori_loop, while_loop, cond, map, associative_scan."""
