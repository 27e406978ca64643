"""The name by which texts call this package: `ndgrad.float32`, and `torch.float32` where `import torch` means it, since
programs compare such texts."""

from __future__ import annotations

package = "ndgrad"
