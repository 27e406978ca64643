"""torch's `distributed.algorithms._checkpoint`: modules that recompute their activations."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

_refuse_absent(__name__)
