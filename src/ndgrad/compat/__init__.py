"""Interfaces of other libraries over ndgrad, for programs written for them."""
