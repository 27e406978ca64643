"""`pipeline`: divide a module into stages by tracing it, at given submodules.

The graph of the module (`ndgrad.fx`) is cut into consecutive runs of nodes. A stage receives the values that are made
before it and used in it or after it, so connections may skip stages. Modules that contain a split point are traced
into; all others are single nodes, so that their code is not restricted.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ndgrad._src.foundations.pytree import tree_leaves
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.pipelining.stage import PipelineStage
from ndgrad.fx import GraphModule, Node, Tracer
from ndgrad.fx.node import map_arg
from ndgrad.nn.modules.module import Module


class SplitPoint(enum.Enum):
    """The place of a cut: before a submodule, or after it."""

    BEGINNING = 1
    END = 2


#: Function that notes a call of `pipe_split` in this context, or None.
_note_split: ContextVar[Callable[[], None] | None] = ContextVar("note_split", default=None)


def pipe_split() -> None:
    """Mark the end of a stage in the forward of a module that `pipeline` divides. It does nothing elsewhere.

    >>> import ndgrad
    >>> from ndgrad.distributed.pipelining import pipe_split, pipeline
    >>> class Net(ndgrad.nn.Module):
    ...     def forward(self, x):
    ...         y = x.exp()
    ...         pipe_split()
    ...         return y + x
    >>> pipeline(Net(), (ndgrad.ones(2),)).num_stages
    2
    """
    note = _note_split.get()
    if note is not None:
        note()


@contextmanager
def _noting(note: Callable[[], None]) -> Iterator[None]:
    token = _note_split.set(note)
    try:
        yield
    finally:
        _note_split.reset(token)


class _ChosenLeaves(Tracer):
    """Traces into the modules that contain a split point; others are leaves."""

    def __init__(self, inside: set[str]) -> None:
        super().__init__()
        self._inside = inside

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return module_qualified_name not in self._inside

    def note_split(self) -> None:
        """Record a call of `pipe_split` as a node of the graph."""
        self.create_proxy("call_function", pipe_split, (), {})


class _Stage(Module):
    """A run of nodes of a graph. Its submodules have the names that they have in the whole module."""

    def __init__(self, nodes: Sequence[Node], takes: Sequence[Node], gives: Any, single: bool) -> None:
        super().__init__()
        object.__setattr__(self, "_nodes", tuple(nodes))
        object.__setattr__(self, "_takes", tuple(takes))
        object.__setattr__(self, "_gives", gives)
        self._single = single

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the nodes, and return the values that later stages need."""
        nodes, takes = self.__dict__["_nodes"], self.__dict__["_takes"]
        known: dict[Node, Any] = dict(zip(takes, args, strict=False))
        for node in takes[len(args) :]:
            known[node] = kwargs[node.target] if node.target in kwargs else node.args[0]
        for node in nodes:
            given = map_arg(node.args, lambda n: known[n])
            named = map_arg(node.kwargs, lambda n: known[n])
            if node.op == "call_module":
                known[node] = self.get_submodule(node.target)(*given, **named)
            elif node.op == "call_function":
                known[node] = node.target(*given, **named)
            elif node.op == "call_method":
                known[node] = getattr(given[0], node.target)(*given[1:], **named)
            else:  # get_attr
                known[node] = _attribute(self, node.target)
        out = map_arg(self.__dict__["_gives"], lambda n: known[n])
        return out[0] if self._single else out


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


class Pipe:
    """Module divided into stages. Created by `pipeline`.

    Args:
        stages: modules of the stages.
        split_gm: traced module that calls the stages one after the other.
    """

    def __init__(self, stages: list[Module], split_gm: GraphModule) -> None:
        self._stages, self.split_gm = stages, split_gm
        self.num_stages = len(stages)

    def get_stage_module(self, stage_idx: int) -> Module:
        """Return the module of a stage.

        Args:
            stage_idx: number of the stage.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}: there are {self.num_stages} stages. [nd-range]")
        return self._stages[stage_idx]

    def build_stage(self, stage_index: int, device: Any = None, group: Any = None) -> PipelineStage:
        """Return the stage of this rank, for a schedule.

        Args:
            stage_index: number of the stage.
            device: device to which inputs are moved.
            group: group whose ranks have the stages. The default is the world.
        """
        return PipelineStage(self.get_stage_module(stage_index), stage_index, self.num_stages, device, group=group)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run all stages in this process, one after the other.

        Args:
            args, kwargs: arguments of the module.

        Returns:
            The results of the module, always a tuple.
        """
        found: Any = self.get_stage_module(0)(*args, **kwargs)
        for i in range(1, self.num_stages):
            found = self.get_stage_module(i)(*(found if isinstance(found, tuple) else (found,)))
        return found if isinstance(found, tuple) else (found,)

    def __repr__(self) -> str:
        return f"Pipe of {self.num_stages} stages"


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:
    """Trace a module and divide it into stages: at the submodules in `split_spec`, or at calls of `pipe_split`.

    Args:
        module: module to divide.
        mb_args: arguments of one micro-batch. The stages are run on them once, and must give the module's result.
        mb_kwargs: keyword arguments of one micro-batch.
        split_spec: places to cut, before or after submodules, by their names.
        split_policy: must be None.

    >>> import ndgrad
    >>> from ndgrad.distributed.pipelining import SplitPoint, pipeline
    >>> net = ndgrad.nn.Sequential(ndgrad.nn.Linear(2, 3), ndgrad.nn.ReLU(), ndgrad.nn.Linear(3, 1))
    >>> pipe = pipeline(net, (ndgrad.ones(4, 2),), split_spec={"2": SplitPoint.BEGINNING})
    >>> pipe.num_stages, list(pipe.get_stage_module(1).state_dict())
    (2, ['2.weight', '2.bias'])
    """
    if split_policy is not None:
        raise NotImplementedError(
            "pipeline(split_policy=...) is not here: name the submodules at which to cut in split_spec. "
            "[nd-unsupported]"
        )
    spec = split_spec or {}
    known = dict(module.named_modules())
    missing = [name for name in spec if name not in known]
    if missing:
        raise ValueError(f"pipeline: no submodule is called {missing[0]!r}. There are {', '.join(known)}. [nd-key]")
    inside, wanted = _run_whole(module, mb_args, mb_kwargs or {})
    if spec and inside:
        raise ValueError(
            "pipeline: the module calls pipe_split, and split_spec names places too. Give one of the two. "
            "[nd-arguments]"
        )
    inside |= {""} | {".".join(name.split(".")[:i]) for name in spec for i in range(1, name.count(".") + 1)}
    tracer = _ChosenLeaves(inside)
    with _noting(tracer.note_split):
        graph = tracer.trace(module)
    whole = GraphModule(module, graph)
    runs: list[list[Node]] = [[]]
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    output = next(n for n in graph.nodes if n.op == "output")
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.target is pipe_split:
            runs.append([])
            continue
        at = spec.get(str(node.target)) if node.op == "call_module" else None
        if at is SplitPoint.BEGINNING and runs[-1]:
            runs.append([])
        runs[-1].append(node)
        if at is SplitPoint.END:
            runs.append([])
    runs = [run for run in runs if run] or [[]]
    stages = _make_stages(module, runs, inputs, output)
    pipe = Pipe(stages, whole)
    _check_result(pipe, wanted, mb_args, mb_kwargs or {})
    return pipe


def _run_whole(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[set[str], list[Any]]:
    """Run the module on its arguments. Return the names of the modules that call `pipe_split`, with those around them,
    and the shapes of the results.
    """
    running: list[str] = []
    found: set[str] = set()
    handles: list[Any] = []

    def enter(name: str, *_: Any) -> None:
        running.append(name)

    def leave(*_: Any) -> None:
        running.pop()

    for name, part in module.named_modules():
        handles += [part.register_forward_pre_hook(functools.partial(enter, name)), part.register_forward_hook(leave)]
    was = module.training
    module.eval()
    try:
        with _noting(lambda: found.update(running)):
            wanted = _shapes(module(*args, **kwargs))
    finally:
        module.train(was)
        for handle in handles:
            handle.remove()
    return found, wanted


def _shapes(values: Any) -> list[Any]:
    return [tuple(t.shape) for t in tree_leaves(values) if isinstance(t, Tensor)]


def _make_stages(module: Module, runs: list[list[Node]], inputs: list[Node], output: Node) -> list[Module]:
    stages: list[Module] = []
    takes: list[Node] = inputs
    for i, run in enumerate(runs):
        later = [n for following in runs[i + 1 :] for n in following]
        made = {*takes, *run}
        if i + 1 == len(runs):
            gives: Any = (output.args[0],)
            single = True
        else:
            needed = dict.fromkeys(n for user in (*later, output) for n in user.all_input_nodes if n in made)
            # An attribute of the module is read again by the stage that needs it.
            gives, single = tuple(n for n in needed if n.op != "get_attr"), False
        stage = _Stage(_with_attributes(run, takes), takes, gives, single)
        for node in stage.__dict__["_nodes"]:
            if node.op in ("call_module", "get_attr"):
                _adopt(stage, module, str(node.target))
        stages.append(stage)
        takes = list(gives) if not single else []
    return stages


def _with_attributes(run: list[Node], takes: list[Node]) -> list[Node]:
    """Return the nodes of a stage, after the attributes of the module that it needs and an earlier stage has read."""
    own = {*run, *takes}
    needed = dict.fromkeys(n for node in run for n in node.all_input_nodes if n not in own and n.op == "get_attr")
    return [*needed, *run]


def _adopt(stage: Module, module: Module, path: str) -> None:
    """Give a stage a submodule or an attribute of the whole module, under its path."""
    *folders, last = path.split(".")
    home, source = stage, module
    for name in folders:
        source = getattr(source, name)
        if name not in home._modules:
            home.add_module(name, Module())
        home = home._modules[name]  # added just now
    value = getattr(source, last)
    if last in source._buffers:
        home.register_buffer(last, value, persistent=last not in source._non_persistent_buffers_set)
    else:
        setattr(home, last, value)


def _check_result(pipe: Pipe, wanted: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Compare the shapes of the last stage's results with those of the module."""
    modules = [pipe.get_stage_module(i) for i in range(pipe.num_stages)]
    modes = [(part, part.training) for stage in modules for part in stage.modules()]
    for stage in modules:
        stage.eval()
    try:
        found = _shapes(pipe(*args, **kwargs))
    finally:
        for part, mode in modes:
            part.training = mode
    if found != wanted:
        raise RuntimeError(
            f"pipeline: the stages give results of shapes {found}, and the module {wanted}. Its forward depends on "
            "more than its arguments. [nd-shape]"
        )
