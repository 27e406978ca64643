"""Matching of subgraphs, and other parts of passes."""

from ndgrad.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["InternalMatch", "SubgraphMatcher"]
