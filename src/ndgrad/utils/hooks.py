"""The handle that registering a hook returns, under the name that torch programs import it by."""

from __future__ import annotations

from ndgrad.absent import refuse_absent as _refuse_absent
from ndgrad.autograd.hooks import RemovableHandle

__all__ = ["RemovableHandle"]

_refuse_absent(__name__)
