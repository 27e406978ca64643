"""Whether results must be the same in every run (`ndgrad.use_deterministic_algorithms`).

On the CPU they are. On a GPU, numbers that are added at repeated indices are added in whatever order threads come;
where that is not wanted, the host adds them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Demand: TypeAlias = Literal["no", "warn", "error"]

demand: Demand = "no"
