"""Tracing a function: its ops, the state that it reads, and its side effects."""
