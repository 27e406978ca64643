"""Passes as objects, and managers that run several of them."""
