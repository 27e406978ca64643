"""The op table: the definition of an op, and the language in which its rules are written.

One block per op holds everything known about it:

    exp = elementwise("exp", "exp", x=lambda t, out: t * out)

    matmul = op("matmul", "x y", forward=..., vjp=dict(x=..., y=...), jvp="multilinear", batch=...)

**Arguments.** Array arguments are positional and come first. With `variadic`, the last name stands for any number of
arrays. Settings are keyword-only and already normalised by the public functions: a `dim` is a non-negative int or
tuple, a dtype is a NumPy dtype.

**Forward** takes raw arrays and settings. A string names a function of the array library: "exp" is `numpy.exp` or
`cupy.exp`. A function whose first parameter is `np` receives the array library.

**Rules** name the values that they need, and exactly these values are saved for them:
  * an array argument or `out` (`out0`, `out1`, ... for several outputs),
  * `x_shape`, `x_dtype`, `x_ndim` for an array argument `x`, when its values are not needed,
  * any setting,
  * `ops`, the vocabulary: the table's own ops, on the same kind of values as the rule. These are raw arrays in an
    ordinary backward pass, and tensors under create_graph or inside a transform. Operators and indexing work on both.

**Reverse** (`vjp`): a dict, argument name -> rule of `g`, the gradient of the output. With several outputs the
gradients are `g0`, `g1`, ...; if the settings decide their number (`outputs=VARIABLE`), `gs` is the tuple of all. The
alternative is one function for all arguments together, which also names `needs` (a tuple of bools) and returns a tuple.
The engine reduces a gradient to the shape and dtype of its input (sum over broadcast dimensions, real part for a real
input), so rules do not.

**Elementwise** rules are the partial derivative times `t`, without conjugates. They serve both modes: forward mode as
they stand, and reverse mode through conj(rule(conj(g))), which for real numbers is the rule itself. A factor that the
rules of several arguments have in common can be given as `shared`, a function of the same names. Rules that name
`shared` get its value, which an ordinary backward pass computes once.

**Forward mode** (`jvp`): "elementwise"; "linear" (jointly linear: apply the op to the tangents); "multilinear" (linear
in each argument: one term per tangent); or a dict, argument name -> rule of `t`, whose terms are added.

**Batching** (`batch`) is one of:
  * "elementwise": align the ranks, then apply the op itself,
  * "leading": the op already treats leading dimensions as a batch,
  * "dims": the setting `dim` or `dims` moves up by one,
  * a function of the arguments with a batch dimension in front of each. Unbatched arguments are expanded, which is
    free. The function names the values it needs, `ops`, and `batched` (a bool per argument; naming it leaves unbatched
    arguments unexpanded). It returns the result with the batch in front.

**Bodies.** An op that can be written in terms of other ops is defined by that formula (ndgrad._src.ops.composite).

**Parts.** An op that reads a part of `x` declares how the gradient of that part is added to the gradient of `x` in
place. So n reads of one array cost only the elements read. The declaration is `partial_view` (the op's own view of the
gradient is the part), `copies_part`, or `adjoint_write`. The last is a function of `g` and of the names of the reverse
rule, which returns the in-place op: (name, arguments, settings).

An op that writes a part `consumes` its gradient: a rule `ops.index_put_(g, 0.0, ...)` for `x` may change `g` itself, if
the engine owns it. Rules run from the last argument to the first, so this rule comes last. See
ndgrad._src.core.part_gradients.

**Half precision.** Forward functions receive float16 and bfloat16 as float32, and their results are rounded; the same
holds for rules (Note [Half precision] in _src.arrays.precision). `halves=True` marks a forward function that takes
halves as they are, such as views and single ufuncs. `halves_on_device=True` marks a forward function and rules that do
so on a GPU, whose kernels (cuBLAS or ndgrad's own) accumulate in single precision.

**Without data.** On the meta device the forward runs on arrays that have only a shape and a dtype, and again on zeros
if it has read values. So blocks contain no shape functions. `needs_values` and `DATA_DEPENDENT` mark ops that the meta
device must refuse.

**Facts.** The block also holds other facts about an op (`Facts`): torch's names for saved values, the op's kind, the
way in which it moves elements, the reduction that it is, its cost. Other modules ask the op (`op.movement`) and keep no
lists of names. Rules that only one layer needs (Taylor series, index sets, counts of operations) are kept in that
layer, in a `RulesOfOps`.

`NOT_DIFFERENTIABLE` and `DATA_DEPENDENT` are values in the table, never absences.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypedDict, TypeVar, Unpack

import numpy

from ndgrad._src.arrays import library as arrays
from ndgrad._src.arrays.device_kernels import device_forward
from ndgrad._src.foundations import registry

if TYPE_CHECKING:
    from ndgrad._src.ops.composite import Body


class _Word:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


#: The op has no derivative: its output is discrete or does not depend smoothly on its inputs.
NOT_DIFFERENTIABLE = _Word("NOT_DIFFERENTIABLE")
#: The shape of the result depends on values, so there is no batching rule; vmap raises.
DATA_DEPENDENT = _Word("DATA_DEPENDENT")
#: A random op: batching follows vmap's `randomness`.
RANDOM = _Word("RANDOM")
#: The number of outputs of an op whose settings and shapes decide how many there are (split, unbind).
VARIABLE = 0

#: Name -> op, in order of definition.
table: dict[str, Op] = {}

#: Replacements for functions that do not take complex numbers in CuPy.
_CUPY_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "logical_not": lambda x: x == 0,
    "logical_xor": lambda x, y: (x != 0) ^ (y != 0),
}

#: Arguments of elementwise ops that keep their own dtype: masks, and orders, which may be integers.
_UNPROMOTED = frozenset(["condition", "mask", "k", "v"])

#: NumPy's ufuncs for Python's operators, which also accept arrays of other libraries.
_UFUNCS: dict[Callable[..., Any], str] = {
    operator.add: "add",
    operator.sub: "subtract",
    operator.mul: "multiply",
    operator.truediv: "true_divide",
    operator.neg: "negative",
    operator.eq: "equal",
    operator.ne: "not_equal",
    operator.lt: "less",
    operator.le: "less_equal",
    operator.gt: "greater",
    operator.ge: "greater_equal",
}

_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv)

_TORCH_NAMES = {"x": "self", "y": "other", "out": "result"}


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    if isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class Facts(TypedDict, total=False):
    """Facts about an op in addition to its rules."""

    #: torch's names for saved values, if they are not self, other and result: {"a": "mat1"} is shown as `_saved_mat1`.
    saved_names: Mapping[str, str]
    #: One of KINDS: the reason for a zero derivative, as `explain` reports it.
    kind: str
    #: True if the op consists of linear pieces. A Taylor series then follows one of them.
    piecewise_linear: bool
    #: The name that users know, if it differs from the op's name (without `_all`).
    known_as: str
    #: The name in a profile, if it differs from the op's name (without `_all`).
    aten_name: str
    #: The error message for bool arguments, which NumPy refuses.
    refuses_bool: str
    #: The arguments promoted to a common dtype in torch's namespace ("x y"). Default for elementwise ops: all.
    promotes: str
    #: The arguments whose dtypes must be equal in torch's namespace.
    one_dtype: str
    #: Its function raises for some values, such as an index out of range. So a program computes it even if its result
    #: is not read. A string has the kinds of dtypes of results for which it does ("iu").
    may_raise: bool | str
    #: Its results hold elements of its arguments, or their signs, whole parts, truths or places: it makes no
    #: floating-point error of real numbers.
    moves_values: bool
    #: One of MOVEMENTS: the way in which it moves elements, if it does nothing else.
    movement: str
    #: It adds elements of its argument with equal weights, so that it treats the parts of complex numbers separately.
    adds_values: bool
    #: Its results are booleans, for arguments of every dtype.
    returns_bool: bool
    #: Its arguments count as truths (logical_and).
    of_truths: bool
    #: The exact result, rounded once as IEEE 754 demands, so that it is the same for one element as in an array.
    rounds_once: bool
    #: f(x, y) equals f(y, x) to the last bit.
    commutes: bool
    #: Plain numbers alone are accepted, and the first one becomes a tensor, as in torch.
    takes_numbers: bool
    #: Approximate number of machine instructions per element.
    cost: int
    #: The reduction over `dim` that the op is: "sum", "prod", "max", "min", "any", "all", "mean" or "logsumexp".
    reduces: str
    #: The reduction that joins the results for pieces of the reduced dimensions: "sum", "product", "max" or "min".
    joins_pieces_by: str
    #: The real arguments in which the op never falls while the others are fixed ("x y"), and those in which it never
    #: rises.
    rises_in: str
    falls_in: str
    #: "max" or "min" if the op is the larger or the smaller of its arguments.
    extreme_of: str
    #: Sets of arguments in which the op is jointly linear while the others are fixed: ["x y"] for a sum, ["x", "y"] for
    #: a product. Default: as `jvp` says.
    linear_in: Sequence[str]
    #: Number of last dimensions of each argument that belong to one problem (2 for a matrix, 0 if each element is a
    #: problem of its own). The dimensions before them are a batch. One number stands for all arguments.
    core_dims: Sequence[int]
    #: The memory order of the result for arguments in C order or in another order: "C" (C order if the arguments are),
    #: "kept" (that of the arguments), or "contiguous" (C order always). Default for elementwise ops: "kept".
    memory_order: str
    #: Its results have the dimensions of its setting `dim` elsewhere, or its arguments differ in them.
    moves_dims: bool


class Traits(Facts, total=False):
    """Properties of an op in addition to its functions and `Facts`.

    Omitted entries are False, None or empty; `outputs` is 1.
    """

    #: Number of results; VARIABLE if settings and shapes decide it.
    outputs: int
    #: Positions of the results without a derivative.
    discrete_outputs: Sequence[int]
    #: The last argument stands for any number of arrays.
    variadic: bool
    #: The result is a view of the first argument.
    view: bool
    #: Each element of the result is one element of the base, but some elements of the base are missing.
    partial_view: bool
    #: The result has all elements of the base, each once.
    whole_view: bool
    #: The view op with the same settings, whose result this op copies.
    copies_part: Op | None
    adjoint_write: Callable[..., Any] | None
    consumes: bool
    #: The reverse rule takes None for a result without a gradient, instead of zeros.
    takes_undefined: bool
    #: The result shares memory with the argument, but is no differentiable view (detach).
    shares_storage: bool
    #: In-place kernel (np, target, *others, **settings), which changes as few elements as possible.
    write_kernel: Callable[..., Any] | None
    elementwise: bool
    inplace: bool
    #: The name of the op's node, if it is not derived from the op's name in torch's way (MulBackward0).
    backward_name: str | None
    may_be_discrete: bool
    #: Without values the result has no shape or no meaning.
    needs_values: bool
    shared: Callable[..., Any] | None
    #: The forward function takes float16 and bfloat16 as they are.
    halves: bool | None
    halves_on_device: bool
    #: Array arguments of a joint rule that get no gradient (index arrays, masks).
    constant: str
    #: Array arguments that may be None.
    optional: str


#: The kinds of ops, with the reason why a derivative of each can be zero.
KINDS = {
    "choice": "the branch that depends on x is chosen nowhere",
    "clamp": "its argument lies beyond the bound everywhere, so the result does not depend on it",
    "extreme": "other values are the extreme ones",
    "join": "only other parts of its result matter to y",
    "overwrite": "it overwrites the value, so the old value does not matter",
    "product": "the other factor is zero",
    "rectifier": "its argument is nowhere positive",
    "saturating": "it is saturated: its argument is so large that the derivative underflows",
    "step": "it is constant between its jumps, so its derivative is zero everywhere",
}

#: The ways in which ops move elements without computing.
MOVEMENTS = {
    "copy": "the elements of the argument, converted to a dtype or repeated",
    "reshape": "the elements of the argument in order, possibly in another shape",
    "rearrange": "elements of the argument in another order, possibly repeated, left out or with zeros in between",
    "fill": "one value everywhere",
    "place": "a part at an index, and zeros elsewhere",
    "pad": "the argument inside a border",
    "join": "the arguments, next to each other",
    "overwrite": "an argument, with another one written over a part",
    "gather": "the elements at the positions that an index array holds",
    "scatter": "the elements added to, or written at, the positions that an index array or a window holds",
}

_Rule = TypeVar("_Rule", bound=Callable[..., Any])


class RulesOfOps(Generic[_Rule]):
    """Rules for one subject, by op name, kept outside the table because only that subject needs them.

    A decorator adds a rule for the ops that it names:

        @recurrence("sinh", "cosh")
        def _sinh_cosh(...): ...

    Families of ops are loaded on first use, so rules refer to ops by name. A test checks that each name is an op.
    A rule may also apply to all ops with a fact that have no rule of their own:

        @recurrence(where=lambda op: op.movement == "rearrange")
        def _same(...): ...
    """

    every: ClassVar[list[RulesOfOps[Any]]] = []

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.by_name: dict[str, _Rule] = {}
        self.by_fact: list[tuple[Callable[[Op], bool], _Rule]] = []
        RulesOfOps.every.append(self)

    def __call__(self, *names: str, where: Callable[[Op], bool] | None = None) -> Callable[[_Rule], _Rule]:
        def add(function: _Rule) -> _Rule:
            duplicates = [name for name in names if name in self.by_name]
            if duplicates:
                raise ValueError(
                    f"{self.subject}: {', '.join(duplicates)} has a rule already. Change that one. [nd-op-block]"
                )
            self.by_name.update(dict.fromkeys(names, function))
            if where is not None:
                self.by_fact.append((where, function))
            return function

        return add

    def get(self, name: str) -> _Rule | None:
        return self.by_name.get(name)

    def get_by_fact(self, op: Op) -> _Rule | None:
        return next((rule for condition, rule in self.by_fact if condition(op)), None)


class OpFacts:
    """Facts and traits that a block gives as they are, with their values for blocks that omit them (see `Traits`)."""

    outputs = 1
    variadic = False
    view = False
    partial_view = False
    whole_view = False
    copies_part: Op | None = None
    adjoint_write: Callable[..., Any] | None = None
    consumes = False
    takes_undefined = False
    shares_storage = False
    write_kernel: Callable[..., Any] | None = None
    elementwise = False
    inplace = False
    may_be_discrete = False
    needs_values = False
    shared: Callable[..., Any] | None = None
    halves_on_device = False

    kind: str | None = None
    piecewise_linear = False
    refuses_bool: str | None = None
    may_raise: bool | str = False
    moves_values = False
    movement: str | None = None
    adds_values = False
    returns_bool = False
    of_truths = False
    rounds_once = False
    commutes = False
    takes_numbers = False
    cost = 12
    reduces: str | None = None
    joins_pieces_by: str | None = None
    rises_in = ""
    falls_in = ""
    extreme_of: str | None = None
    core_dims: Sequence[int] | None = None
    memory_order: str | None = None
    moves_dims = False
    #: Elementwise with two arguments and a bool result, which is exact when integers are compared with floats.
    compares = False
    #: One of Python's operators + - * /, which take numbers as they are.
    is_arithmetic = False

    def set_facts(self, facts: Mapping[str, Any]) -> None:
        """Set the facts among the keywords of a block."""
        own = vars(self)
        for fact, value in facts.items():
            if fact in _PLAIN_FACTS:
                known = _WORDS.get(fact)
                if known is not None and value not in known:
                    raise ValueError(
                        f"{self!r} is of no {fact} {value!r}; the {fact}s are {', '.join(known)} [nd-op-block]"
                    )
                own[fact] = value


_PLAIN_FACTS = frozenset(fact for fact in Traits.__annotations__ if hasattr(OpFacts, fact))
#: Default values of traits. An op has them as attributes of its own, which are quicker to read than those of a class.
_DEFAULTS = {fact: getattr(OpFacts, fact) for fact in _PLAIN_FACTS if fact not in Facts.__annotations__}
#: The values of facts that are words.
_WORDS = {"kind": KINDS, "movement": MOVEMENTS}


def _check_block(name: str, vjp: Any, traits: Traits) -> None:
    """Raise if a block has a known name, unknown keywords, or a shared value that some of its rules do not name."""
    if name in table:
        raise ValueError(f"op {name!r} is already in the table; choose another name [nd-op-block]")
    if unknown := traits.keys() - Traits.__annotations__.keys():
        raise TypeError(f"op {name!r}: a block has no {', '.join(unknown)}; see _src.ops.table [nd-op-block]")
    if traits.get("shared") is None or not isinstance(vjp, Mapping):
        return
    if not all("shared" in parameter_names(rule) for rule in vjp.values()):
        raise TypeError(
            f"op {name!r} has a shared value that not all of its rules name: "
            "compute it in those that need it instead [nd-op-block]"
        )


class Op(OpFacts):
    """A primitive: a forward function and its rules. Calling an op runs it on tensors and records it."""

    def __init__(
        self,
        name: str,
        args: Sequence[str],
        settings: Mapping[str, Any],
        forward: str | Callable[..., Any],
        *,
        vjp: Mapping[str, Callable[..., Any]] | Callable[..., Any] | _Word,
        jvp: str | Mapping[str, Callable[..., Any]] | Callable[..., Any] | _Word,
        batch: str | Callable[..., Any] | _Word,
        **traits: Unpack[Traits],
    ) -> None:
        _check_block(name, vjp, traits)
        vars(self).update(_DEFAULTS)
        self.name = name
        self.__name__ = name.removesuffix("_all")  # the name shown by profilers and modes
        self.args = tuple(args)
        self.settings = dict(settings)
        self.forward = forward
        self.vjp = vjp
        self.jvp = jvp
        self.batch = batch
        if traits.get("elementwise"):
            self.memory_order = "kept"
        self.set_facts(traits)
        self.needs_values = self.needs_values or batch is DATA_DEPENDENT
        self.discrete_outputs = frozenset(traits.get("discrete_outputs", ()))
        self.constant_args = frozenset(traits.get("constant", "").split())
        self.optional_args = frozenset(traits.get("optional", "").split())
        ufunc = self.elementwise and not hasattr(forward, "__code__")
        halves = traits.get("halves")
        self.halves = self.view or self.shares_storage or ufunc if halves is None else halves
        #: NumPy promotes bfloat16 with a Python float to float32.
        self.rounds_numbers = self.halves and ufunc and len(self.args) > 1
        self.differentiable = vjp is not NOT_DIFFERENTIABLE
        #: One result, which shares no memory, of a fixed number of arguments: the fast recorders take such calls.
        self.has_one_result = self.outputs == 1 and not (self.shares_storage or self.variadic)
        self.backward_name = traits.get("backward_name") or _camel(name) + "Backward0"
        self.saved_names = traits.get("saved_names", {})
        self.known_as = traits.get("known_as", name.removesuffix("_all"))
        self.aten_name = traits.get("aten_name", name.removesuffix("_all"))
        self.one_dtype = "one_dtype" in traits
        #: The op in terms of other ops (ndgrad._src.ops.composite); None for a primitive.
        self.body: Body | None = None
        self.promotes = self._find_promoted(traits)
        #: True if the op may turn integers into floats.
        self.narrows = self.elementwise and self.outputs == 1 and self.differentiable and not self._keeps_integers()
        self.compares = self.elementwise and self.returns_bool and len(self.args) == 2
        self.is_arithmetic = forward in _ARITHMETIC
        self._linear_in = traits.get("linear_in")
        _give_defaults(forward, self.settings)
        self._forwards: dict[Any, Callable[..., Any]] = {}
        self._bare_forwards: dict[Any, Callable[..., Any]] = {}
        self._compiled: dict[str, Any] = {}
        self._positions: dict[int, tuple[int, ...]] = {}
        table[name] = self

    def _find_promoted(self, traits: Traits) -> tuple[int, ...]:
        """Return the positions of the arguments that are promoted to a common dtype in torch's namespace."""
        default = " ".join(a for a in self.args if a not in _UNPROMOTED) if self.elementwise else ""
        promoted = traits.get("promotes", traits.get("one_dtype", default)).split()
        found = tuple(i for i, a in enumerate(self.args) if a in promoted)
        return found if len(found) > 1 or self.variadic else ()

    def promoted_positions(self, count: int) -> Sequence[int]:
        """Return the positions, among `count` arguments, that are promoted to a common dtype in torch's namespace."""
        return range(self.promotes[0], count) if self.variadic and self.promotes else self.promotes

    @functools.cached_property
    def number_settings(self) -> tuple[str, ...]:
        """Settings that are numbers given by the user. No derivative passes through them, so tensors that require a
        gradient are refused.
        """
        return tuple(name for name, default in self.settings.items() if default.__class__ is float or name in _NUMBERS)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> Any:
        return _lookup, (self.name,)

    def __call__(self, /, *args: Any, **settings: Any) -> Any:
        try:
            return self.eager(*args, **settings)
        except TypeError:
            if Op.torch_form is None or self.has_own_form(args, settings):
                raise
        return Op.torch_form(self, args, settings)

    #: Calls an op with the arguments of torch's schema; set by `ndgrad.ops.aten`, where such programs get their ops.
    torch_form: ClassVar[Callable[..., Any] | None] = None

    def has_own_form(self, args: tuple[Any, ...], settings: Mapping[str, Any]) -> bool:
        """True if a call has the op's own form: tensors, and settings by name. torch's schemas have other ones."""
        if not settings.keys() <= self.settings.keys() or any(isinstance(a, (list, tuple)) for a in args):
            return False
        return self.variadic or len(args) <= len(self.args)

    @functools.cached_property
    def ufunc(self) -> numpy.ufunc | None:
        """The NumPy ufunc that implements the forward function, or None."""
        name = self.forward if isinstance(self.forward, str) else _UFUNCS.get(self.forward)
        found = getattr(numpy, name, None) if name else None
        return found if isinstance(found, numpy.ufunc) else None

    def _keeps_integers(self) -> bool:
        """True if integers of any width give integers, as in a sum or a product."""
        kinds = [] if self.ufunc is None else self.ufunc.types
        return bool(kinds) and all(f"{c * len(self.args)}->{c}" in kinds for c in "bBhHiIlLqQ")

    # The functions below are generated on first use, since generating all of them would dominate the import time.

    @functools.cached_property
    def eager(self) -> Callable[..., Any]:
        return registry.recorder.make_eager(self)

    @functools.cached_property
    def strict(self) -> Callable[..., Any]:
        """`eager` for calls by users: dtypes must be equal if torch requires it."""
        return registry.recorder.make_eager(self, strict=True) if self.one_dtype else self.eager

    @functools.cached_property
    def plain(self) -> Callable[..., Any]:
        """`eager` without mode checks, for callers that know that no mode is active."""
        return registry.recorder.make_eager(self, plain=True)

    @functools.cached_property
    def unrecorded(self) -> Callable[..., Any]:
        """`plain` for calls under no_grad as the only mode: nothing is recorded."""
        return registry.recorder.make_eager(self, plain=True, unrecorded=True)

    @functools.cached_property
    def in_level(self) -> Callable[..., Any]:
        """`plain`, recorded in the graph of the transform level with number `level`; NotImplemented for unsupported
        arguments.
        """
        return registry.recorder.make_eager(self, plain=True, level=True)

    @functools.cached_property
    def level_node_class(self) -> type[Any]:
        """The node class for graphs of function transforms."""
        return type(self.backward_name, (self.node_class,), {"__slots__": ("level",), "__module__": "ndgrad.autograd"})

    @functools.cached_property
    def node_class(self) -> type[Any]:
        return registry.recorder.make_node_class(self)

    def forward_for(self, library: Any) -> Callable[..., Any]:
        """Return the forward function for an array library."""
        bound = self._forwards.get(library)
        if bound is None:
            bound = self.bare_forward_for(library)
            if not self.halves and (library.__name__ == "numpy" or not self.halves_on_device):
                bound = registry.recorder.make_widening(self, bound)
            if library is arrays.device_library:
                bound = device_forward(self, library, bound)
            self._forwards[library] = bound
        return bound

    def bare_forward_for(self, library: Any) -> Callable[..., Any]:
        """Return the forward function for an array library, for arguments that are never of half precision."""
        bound = self._bare_forwards.get(library)
        if bound is None:
            bound = self._bare_forwards[library] = self._bind(library)
        return bound

    def _bind(self, library: Any) -> Callable[..., Any]:
        forward = self.forward
        if isinstance(forward, str):
            made: Callable[..., Any] = getattr(library, forward)
            return made if library.__name__ == "numpy" else _CUPY_REPLACEMENTS.get(forward, made)
        code = getattr(forward, "__code__", None)
        if code is not None and code.co_argcount and code.co_varnames[0] == "np":
            return functools.partial(forward, library)
        return forward

    # ----- names in the rules -----

    @functools.cached_property
    def written_rules(self) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
        """The reverse rule of each differentiable argument with the names it takes, as written in the table."""
        if isinstance(self.vjp, Mapping):
            return {a: (self.vjp[a], parameter_names(self.vjp[a])) for a in self.args if a in self.vjp}
        return {}

    @functools.cached_property
    def rules(self) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
        """The reverse rules as independent functions: a rule that names `shared` takes the arguments of `shared`
        instead.
        """
        if self.shared is None:
            return self.written_rules
        return {a: _make_standalone(rule, names, self.shared) for a, (rule, names) in self.written_rules.items()}

    @functools.cached_property
    def joint_rule(self) -> tuple[Callable[..., Any], tuple[str, ...]] | None:
        if callable(self.vjp):
            return self.vjp, parameter_names(self.vjp)
        return None

    @functools.cached_property
    def differentiable_args(self) -> tuple[str, ...]:
        """The array arguments with gradients, in order."""
        if not self.differentiable:
            return ()
        if self.joint_rule is not None:
            return tuple(a for a in self.args if a not in self.constant_args)
        return tuple(a for a in self.args if a in self.rules)

    # ----- arguments by name: with `variadic`, the last name collects all remaining ones -----

    def bind(self, args: Sequence[Any]) -> dict[str, Any]:
        """Return the array arguments by their names in the rules."""
        if not self.variadic:
            return dict(zip(self.args, args, strict=True))
        fixed = len(self.args) - 1
        return {**dict(zip(self.args, args[:fixed])), self.args[-1]: tuple(args[fixed:])}

    def differentiable_positions(self, count: int) -> tuple[int, ...]:
        """Return the positions, among `count` actual arguments, that have gradients."""
        known = self._positions.get(count)
        if known is None:
            names = (
                self.args if not self.variadic else (*self.args[:-1], *(self.args[-1],) * (count - len(self.args) + 1))
            )
            wanted = self.differentiable_args
            known = self._positions[count] = tuple(i for i, name in enumerate(names) if name in wanted)
        return known

    def linear_in(self, count: int) -> tuple[frozenset[int], ...]:
        """Return the sets of positions, among `count` arguments, in which the op is jointly linear."""
        if self._linear_in is not None:
            return tuple(frozenset(map(self.args.index, names.split())) for names in self._linear_in)
        if self.jvp == "linear":
            return (frozenset(range(count)),)
        return tuple(frozenset((i,)) for i in range(count)) if self.jvp == "multilinear" else ()

    def is_monotone_in(self, position: int, *, rising: bool) -> bool:
        """True if the op never falls (or never rises) in an argument while the others are fixed."""
        names = (self.rises_in if rising else self.falls_in).split()
        return position < len(self.args) and self.args[position] in names

    def torch_name(self, name: str) -> str:
        """Return torch's name for a saved value, as in `_saved_self`."""
        return self.saved_names.get(name) or _TORCH_NAMES.get(name, name)


def _make_standalone(
    rule: Callable[..., Any], names: tuple[str, ...], shared: Callable[..., Any]
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return a rule that computes the shared value from its arguments, and the names that it takes."""
    parts = parameter_names(shared)
    every = tuple(dict.fromkeys((*(n for n in names if n != "shared"), *parts)))

    def standalone(*values: Any) -> Any:
        env = dict(zip(every, values, strict=True))
        env["shared"] = shared(*[env[n] for n in parts])
        return rule(*[env[n] for n in names])

    return standalone, every


def _give_defaults(forward: Any, settings: Mapping[str, Any]) -> None:
    """Set the defaults of settings on the forward function, so that rules may omit them on raw arrays at no cost per
    call.
    """
    code = getattr(forward, "__code__", None)
    if code is not None and settings:
        names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        given = {n: settings[n] for n in names if n in settings}
        forward.__kwdefaults__ = {**given, **(forward.__kwdefaults__ or {})}


#: Float settings whose default is an int (which preserves integer dtypes) or None.
_NUMBERS = frozenset(("alpha", "beta", "correction", "divisor_override", "eps", "neginf", "posinf", "value"))


def _lookup(name: str) -> Op:
    return table[name]


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.strip("_").split("_"))


def op(
    name: str,
    args: str,
    forward: str | Callable[..., Any],
    *,
    vjp: Mapping[str, Callable[..., Any]] | Callable[..., Any] | _Word,
    jvp: str | Mapping[str, Callable[..., Any]] | Callable[..., Any] | _Word | None = None,
    batch: str | Callable[..., Any] | _Word,
    settings: Mapping[str, Any] | None = None,
    **traits: Unpack[Traits],
) -> Op:
    """Define an op. `args` names its array arguments, `settings` its keyword settings with defaults."""
    if jvp is None:
        if vjp is not NOT_DIFFERENTIABLE:
            raise ValueError(f"op {name!r} has a reverse rule and no forward-mode rule; give jvp= [nd-op-block]")
        jvp = NOT_DIFFERENTIABLE
    return Op(name, args.split(), settings or {}, forward, vjp=vjp, jvp=jvp, batch=batch, **traits)


def elementwise(
    name: str,
    forward: str | Callable[..., Any],
    *,
    args: str = "x",
    settings: Mapping[str, Any] | None = None,
    vjp: Mapping[str, Callable[..., Any]] | None = None,
    jvp: Mapping[str, Callable[..., Any]] | None = None,
    backward_name: str | None = None,
    inplace: bool = True,
    shared: Callable[..., Any] | None = None,
    halves: bool | None = None,
    halves_on_device: bool = False,
    **partials: Any,
) -> Op:
    """Define an elementwise op by its partial derivatives times `t`, one keyword per argument, and its `Facts`.

    Functions that are not holomorphic on complex numbers (abs, real, angle) give `vjp` and `jvp` instead.
    """
    facts: Any = {fact: partials.pop(fact) for fact in Facts.__annotations__ if fact in partials}
    if partials:
        rules: Any = partials
        jvp_rule: Any = "elementwise"
    else:
        rules, jvp_rule = vjp, jvp
    return Op(
        name,
        args.split(),
        settings or {},
        forward,
        vjp=rules if rules is not None else NOT_DIFFERENTIABLE,
        jvp=jvp_rule if rules is not None else NOT_DIFFERENTIABLE,
        batch="elementwise",
        elementwise=True,
        inplace=inplace,
        backward_name=backward_name,
        shared=shared,
        halves=halves,
        halves_on_device=halves_on_device,
        **facts,
    )
