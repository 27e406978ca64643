"""The package's name in printed texts: `ndgrad.float32`, or `torch.float32` if `import torch` means this package.

Programs compare such texts.
"""

from __future__ import annotations

package = "ndgrad"
