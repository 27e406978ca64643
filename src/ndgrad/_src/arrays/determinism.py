"""The setting of `ndgrad.use_deterministic_algorithms`: True if results must be the same in every run.

On the CPU they always are. On a GPU, numbers added at repeated indices are added in the order in which threads arrive.
If the setting is on, the host adds them instead.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Demand: TypeAlias = Literal["no", "warn", "error"]

demand: Demand = "no"
