"""`torch.autograd.forward_ad`: dual tensors by hand."""

from __future__ import annotations

from ndgrad._src.interpreters.forward_ad import (
    Environment as Environment,
)
from ndgrad._src.interpreters.forward_ad import (
    Interpreter as Interpreter,
)
from ndgrad._src.interpreters.forward_ad import (
    UnpackedDualTensor as UnpackedDualTensor,
)
from ndgrad._src.interpreters.forward_ad import (
    current_level as current_level,
)
from ndgrad._src.interpreters.forward_ad import (
    dual_level as dual_level,
)
from ndgrad._src.interpreters.forward_ad import (
    dual_op as dual_op,
)
from ndgrad._src.interpreters.forward_ad import (
    dual_view as dual_view,
)
from ndgrad._src.interpreters.forward_ad import (
    enter_dual_level as enter_dual_level,
)
from ndgrad._src.interpreters.forward_ad import (
    exit_dual_level as exit_dual_level,
)
from ndgrad._src.interpreters.forward_ad import (
    forget_closed as forget_closed,
)
from ndgrad._src.interpreters.forward_ad import (
    hand_down as hand_down,
)
from ndgrad._src.interpreters.forward_ad import (
    has_saved_tangents as has_saved_tangents,
)
from ndgrad._src.interpreters.forward_ad import (
    hidden_tangents as hidden_tangents,
)
from ndgrad._src.interpreters.forward_ad import (
    jvp as jvp,
)
from ndgrad._src.interpreters.forward_ad import (
    kept_tangent as kept_tangent,
)
from ndgrad._src.interpreters.forward_ad import (
    make_dual as make_dual,
)
from ndgrad._src.interpreters.forward_ad import (
    save_tangents as save_tangents,
)
from ndgrad._src.interpreters.forward_ad import (
    saved_tangents as saved_tangents,
)
from ndgrad._src.interpreters.forward_ad import (
    strip as strip,
)
from ndgrad._src.interpreters.forward_ad import (
    tangent_of as tangent_of,
)
from ndgrad._src.interpreters.forward_ad import (
    transform_level as transform_level,
)
from ndgrad._src.interpreters.forward_ad import (
    unpack_dual as unpack_dual,
)
from ndgrad._src.interpreters.forward_ad import (
    with_saved_tangents as with_saved_tangents,
)
from ndgrad._src.interpreters.forward_ad import (
    with_tangent as with_tangent,
)
from ndgrad._src.interpreters.forward_ad import (
    zero_tangent as zero_tangent,
)

__all__ = [
    "Environment",
    "Interpreter",
    "UnpackedDualTensor",
    "current_level",
    "dual_level",
    "dual_op",
    "dual_view",
    "enter_dual_level",
    "exit_dual_level",
    "forget_closed",
    "hand_down",
    "has_saved_tangents",
    "hidden_tangents",
    "jvp",
    "kept_tangent",
    "make_dual",
    "save_tangents",
    "saved_tangents",
    "strip",
    "tangent_of",
    "transform_level",
    "unpack_dual",
    "with_saved_tangents",
    "with_tangent",
    "zero_tangent",
]
