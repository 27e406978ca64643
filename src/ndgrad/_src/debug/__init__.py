"""Debugging: source lines, errors about saved values, guard and anomaly mode, reasons for missing gradients,
pictures of graphs.

The public names are `ndgrad.autograd.detect_anomaly`, `ndgrad.explain`, `ndgrad.autograd.graph.draw`; this
folder holds the implementation.
"""
