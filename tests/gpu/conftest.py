"""With NDGRAD_STAND_IN set, these tests run over `stand_in` instead of CuPy (see test_stand_in)."""

from __future__ import annotations

import os

if os.environ.get("NDGRAD_STAND_IN"):
    from tests.gpu import stand_in

    stand_in.install()

    from ndgrad._src.compiler.capture.trace_watch import trust

    trust(stand_in.__file__ or "")  # it counts as a library, as CuPy does
