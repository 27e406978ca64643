"""Passes: functions that compute facts about a graph, split it, or rewrite it."""
