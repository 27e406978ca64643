"""Settings of `ndgrad.fx` that torch has, too. None of them changes a graph."""

from __future__ import annotations

disable_progress = True
verbose_progress = False
do_not_emit_stack_traces = False
