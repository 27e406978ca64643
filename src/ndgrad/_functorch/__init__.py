"""`torch._functorch`: parts of transforms that libraries import."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

_refuse_absent(__name__)
