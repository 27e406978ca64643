"""Debugging: the user's lines, errors about saved values, guard and anomaly mode, why a gradient is
missing, pictures of graphs.

Users reach it as `ndgrad.autograd.detect_anomaly`, `ndgrad.explain`, `ndgrad.autograd.graph.draw`; this
room is where the files are.
"""
