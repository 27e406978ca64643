"""Calls of compiled functions: guards, specializations, native calls, results, backward nodes."""
