"""With NDGRAD_STAND_IN set, these tests run over `stand_in` instead of CuPy (see test_stand_in)."""

from __future__ import annotations

import os

if os.environ.get("NDGRAD_STAND_IN"):
    from tests.gpu import stand_in

    stand_in.install()
