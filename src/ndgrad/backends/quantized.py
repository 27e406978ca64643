"""Quantised kernels: there are none, so no engine can be chosen."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

engine = "none"
supported_engines = ["none"]

_refuse_absent(__name__)
