"""Programs that trace, change and run graphs, on torch.fx and on ndgrad.fx alike.

A program gets the library and returns texts and values. Texts of graphs and code are compared after the package's name
is replaced; see `same_text`.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import importlib
import math
import operator
import pickle
import typing
from typing import Any

from tests.torch_parity.side_by_side import Programs

fx_programs = Programs()
program = fx_programs.enter


def sub(m: Any, name: str) -> Any:
    return importlib.import_module(f"{m.__name__}.fx.{name}")


def show(m: Any, function: Any, **options: Any) -> list[str]:
    """The code and the graph of a function."""
    traced = m.fx.symbolic_trace(function, **options)
    traced.graph.lint()
    return [traced.code, str(traced.graph)]


def graph_facts(graph: Any) -> list[Any]:
    return [
        (n.op, n.name, n.target if isinstance(n.target, str) else n.target.__name__, str(n.args), str(n.kwargs), [u.name for u in n.users])
        for n in graph.nodes
    ]


def model(m: Any) -> Any:
    class Model(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = m.nn.Linear(4, 5)
            self.param = m.nn.Parameter(m.ones(3, 4))
            self.register_buffer("buf", m.ones(5))
            self.seq = m.nn.Sequential(m.nn.ReLU(), m.nn.Linear(5, 2))
            self.list = m.nn.ModuleList([m.nn.Tanh()])

        def forward(self, x: Any, y: Any = None, *, scale: float = 2.0) -> Any:
            z = self.lin(x + self.param).clamp(min=0.0, max=1.0)
            z = self.list[0](self.seq(z + self.buf))
            z = z * scale - 1 / z
            a, b = z.shape[0], z.size(1)
            z = m.cat([z, z], dim=1)[..., 1:3, None]
            z += 1
            return {"out": z.view(a, -1), "more": (m.nn.functional.relu(z, inplace=False), b)}

    Model.forward.__annotations__.clear()
    return Model()


def fill(module: Any) -> Any:
    """The module with the same numbers in both libraries."""
    for i, p in enumerate(module.parameters()):
        p.data = p.data * 0 + 0.1 * (i + 1)
    return module


# ----- tracing --------------------------------------------------------------------------------------------------------


@program
def whole_model(m):
    traced = m.fx.symbolic_trace(fill(model(m)))
    out = traced(m.ones(3, 4))
    return traced.code, str(traced.graph), graph_facts(traced.graph), str(traced), out["out"], out["more"][0]


@program
def every_operator(m):
    def f(x):
        return (
            -x, +x, ~x, abs(x), x < 1, x <= 1, x > 1, x >= 1, x == 1, x != 1, x // 2, x % 2, x**2, 2**x, x @ x, x << 1, x >> 1,
            x & 1, x | 1, x ^ 1, 1 - x, 1 / x, 1 // x, 1 % x, 1 << x, 1 >> x, 1 & x, 1 | x, 1 ^ x, 1 + x, 3 * x, [1] @ x,
        )  # fmt: skip

    return show(m, f)


@program
def attributes_and_methods(m):
    return show(m, lambda x: (x.shape, x.a.b.c(x.d, k=x.e), x.T, x.foo(..., slice(1, 2), [None], {"a": x}), x(1, y=x)))


@program
def calls_have_every_argument(m):
    """As far as both have the same parameters: without torch's deprecated ones."""
    F = m.nn.functional

    def f(x, y):
        found = F.dropout(x, 0.5, training=False), F.pad(x, (1, 1)), F.glu(x), F.relu(x), F.max_pool2d(x, 2)
        native = F.linear(x, y), F.gelu(x), F.conv2d(x, y), F.softplus(x), m.sum(x, 1), m.einsum("ij,jk", (x, y)), m.cdist(x, y)
        return found, native, F.interpolate(x, 2), F.embedding(x, y), F.leaky_relu(x, 0.2), F.layer_norm(x, (2,))

    return [(n.name, n.args, sorted(n.kwargs.items())) for n in m.fx.symbolic_trace(f).graph.nodes if n.op == "call_function"]


@program
def names_that_are_taken(m):
    def f(x, input, self_, print, _add_1, device, inf):
        return (x + 1) + input + x.copy().float().type() + device + inf + print

    return show(m, f)


@program
def names_of_methods(m):
    return show(m, lambda x: x.int().float().bool().len().tensor().inf().nan().NoneType().device().is_().is_1().CamelCase())


@program
def namespaces(m):
    namespace = sub(m, "graph")._Namespace()
    words = "add add add_1 add_1 add add_5 add add_5 1x x.y x-y self torch inf print add_0 add_0 add_01 add_1_1 add_1_1"
    return [namespace.create_name(word, None) for word in f"{words} _ __ _1 a_ a__1 a_ if".split()]


@program
def constants_in_code(m):
    def f(x):
        y = m.zeros(x.shape, dtype=m.float32, device=m.device("cpu")) + x.to(m.int64) + float("inf")
        return y + x.sum(-1, keepdim=True) + x.foo(m.Size([1, 2]), m.strided, m.contiguous_format, 2j, None, True, "a")

    return show(m, f)


@program
def tensors_become_attributes(m):
    def f(x):
        return m.ones(2) + x, m.ones(3).add(x), m.arange(3)[x], m.arange(3) - x, 3 - x

    traced = m.fx.symbolic_trace(f)
    return traced.code, sorted(name for name, _ in traced.named_buffers())


@program
def outputs(m):
    return show(m, lambda x: {"a": x, "b": [x, (x,), slice(x, None), None, "str", True, 1.5, 2j, m.float32]})


@program
def output_none(m):
    return show(m, lambda x: None)


@program
def unpacking(m):
    def f(x):
        a, b, (c, d) = x.split(2)
        return a + b + c + d

    return show(m, f)


@program
def rest_of_arguments(m):
    def f(x, *args, **kwargs):
        return x + args[0] + kwargs["a"]

    traced = m.fx.symbolic_trace(f)
    return traced.code, traced(1, 2, 3, a=4)


@program
def keyword_only(m):
    traced = m.fx.symbolic_trace(lambda x, *, k=1: x + k)
    return traced.code, traced(1, k=5), traced(1)


@program
def annotations(m):
    def f(x, y=3, z=None, w=None, v=None):
        return x * y

    f.__annotations__ = {
        "x": m.Tensor, "y": int, "z": typing.List[m.Tensor], "w": typing.Dict[str, int], "v": list[int], "return": m.Tensor  # noqa: UP006
    }  # fmt: skip
    return show(m, f)


class Point(typing.NamedTuple):
    a: object
    b: object


@dataclasses.dataclass
class Record:
    a: object
    b: object = 3


@program
def named_tuples_and_dataclasses(m):
    traced = m.fx.symbolic_trace(lambda x: (x.foo(Point(x, 1)), Record(x)))
    return traced.code, str(traced.graph), m.fx.symbolic_trace(lambda x: Point(x, 1))(5)


@program
def math_functions_are_wrapped(m):
    traced = m.fx.symbolic_trace(lambda x: math.sqrt(x) + math.floor(x))
    return traced.code, str(traced.graph), traced(2.5), math.sqrt(4.0)


@program
def autowrapped_functions(m):
    def helper(x):
        return x.item() + 1

    class Wrapping(m.fx.Tracer):
        def __init__(self):
            super().__init__(autowrap_functions=(global_helper,))

    return str(Wrapping().trace(lambda x: global_helper(x) * 2))


def global_helper(x):
    return 7 if isinstance(x, float) else x + 1


@program
def concrete_argument(m):
    traced = m.fx.symbolic_trace(lambda x, b: x if b else -x, concrete_args={"b": True})
    return traced.code, traced(1, True)


@program
def concrete_argument_is_checked(m):
    return m.fx.symbolic_trace(lambda x, b: x if b else -x, concrete_args={"b": True})(1, False)


@program
def concrete_none(m):
    traced = m.fx.symbolic_trace(lambda x, b: x if b else -x, concrete_args={"b": None})
    return traced.code, traced(1, None)


@program
def concrete_default(m):
    traced = m.fx.symbolic_trace(lambda x, b=True, k=3: x + k if b else -x, concrete_args={"b": True})
    return traced.code, traced(1), traced(1, k=4)


@program
def concrete_tree(m):
    places = {"d": {"a": m.fx.PH, "b": [m.fx.PH, 3]}}
    traced = m.fx.symbolic_trace(lambda d, x: d["a"] + d["b"][0] * x + d["b"][1], concrete_args=places)
    return traced.code, traced({"a": 1, "b": [2, 3]}, 5), m.fx.Interpreter(traced).run({"a": 1, "b": [2, 3]}, 5)


@program
def concrete_tree_output(m):
    traced = m.fx.symbolic_trace(lambda d: {"x": (d[0], d[1])}, concrete_args={"d": (m.fx.PH, m.fx.PH)})
    return traced.code, traced((1, 2))


@program
def shapes_of_parameters_are_constant(m):
    class Branching(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = m.nn.Parameter(m.ones(2, 3))

        def forward(self, x):
            return x + self.p if self.p.shape[0] == 2 and self.p.dim() == 2 and self.p.numel() == 6 else x

    return str(m.fx.Tracer(param_shapes_constant=True).trace(Branching()))


@program
def modules_are_inlined(m):
    class Deep(m.fx.Tracer):
        proxy_buffer_attributes = True

        def is_leaf_module(self, mod, name):
            return isinstance(mod, m.nn.Linear)

    class Outer(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.l = m.nn.Linear(3, 3)
            self.act = m.nn.Sequential(m.nn.Softplus(), m.nn.Flatten())
            self.register_buffer("b", m.ones(3))

        def forward(self, x):
            return self.act(self.l(x)) + self.b + self.b

    return str(Deep().trace(Outer()))


@program
def shared_modules_have_one_path(m):
    class Shared(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.l = m.nn.Linear(3, 3)
            self.l2 = self.l

        def forward(self, x):
            return self.l2(self.l(x))

    return show(m, Shared())


@program
def module_stacks(m):
    traced = m.fx.symbolic_trace(m.nn.Sequential(m.nn.Sequential(m.nn.ReLU()), m.nn.Tanh()))
    return [[(k, v[0], v[1].__name__) for k, v in n.meta.get("nn_module_stack", {}).items()] for n in traced.graph.nodes]


@program
def traced_module_is_traced_again(m):
    inner = m.fx.symbolic_trace(m.nn.Sequential(m.nn.ReLU()))
    return show(m, m.nn.Sequential(inner, m.nn.ReLU())) + show(m, inner)


@program
def proxies_of_a_graph(m):
    graph = m.fx.Graph()
    x = m.fx.Proxy(graph.placeholder("x"))
    y = m.sum(x.float() * 2, dim=0) + m.relu(x)
    graph.output(y.node)
    return str(graph), repr(x), repr(y), m.fx.GraphModule({}, graph)(m.ones(2))


@program
def proxyable_classes(m):
    class Pair(metaclass=m.fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

    made = m.fx.symbolic_trace(lambda x: Pair(x, 2 * x))(3)
    return made.left, made.right


@program
def a_tracer_decides_about_truth_and_items(m):
    class Deciding(m.fx.Tracer):
        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter([obj[0], obj[1], obj[2]])

        def create_arg(self, a):
            return "set" if isinstance(a, set) else super().create_arg(a)

    return str(Deciding().trace(lambda x: [y.foo({1}) for y in x] if x.sum() > 0 else x))


@program
def features_are_extracted(m):
    """As torchvision and timm do: a tracer that notes the path of each node, and a graph cut after named layers."""

    class PathTracer(m.fx.Tracer):
        def __init__(self):
            super().__init__(autowrap_functions=(global_helper,))
            self.paths = collections.OrderedDict()
            self.path = ""

        def call_module(self, mod, forward, args, kwargs):
            before, self.path = self.path, self.path_of_module(mod)
            try:
                if not self.is_leaf_module(mod, self.path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", self.path, args, kwargs)
            finally:
                self.path = before

        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *rest):
            proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr)
            self.paths[proxy.node.name] = self.path or str(proxy.node)
            return proxy

    class Body(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = m.nn.Sequential(m.nn.Conv2d(1, 2, 3, padding=1), m.nn.BatchNorm2d(2), m.nn.ReLU())
            self.layer = m.nn.Sequential(m.nn.Conv2d(2, 2, 3, padding=1), m.nn.ReLU())
            self.head = m.nn.Linear(2, 3)

        def forward(self, x):
            x = self.stem(x)
            x = self.layer(x) + global_helper(x)
            return self.head(m.flatten(m.nn.functional.adaptive_avg_pool2d(x, 1), 1))

    body = fill(Body()).eval()
    tracer = PathTracer()
    graph = tracer.trace(body)
    traced = m.fx.GraphModule(tracer.root, graph, "Body")
    wanted = {"stem": "first", "layer": "second"}
    found = {}
    for node in traced.graph.nodes:
        top = tracer.paths.get(node.name, "").split(".")[0]
        if top in wanted:
            found[wanted[top]] = node
    traced.graph.erase_node(traced.graph.output_node())
    with traced.graph.inserting_after(list(traced.graph.nodes)[-1]):
        traced.graph.output(found)
    traced.graph.eliminate_dead_code()
    traced.delete_all_unused_submodules()
    traced.recompile()
    return list(tracer.paths.items()), traced.code, traced(m.ones(1, 1, 4, 4)), [n for n, _ in traced.named_modules()]


# ----- refusals -------------------------------------------------------------------------------------------------------


@program
def branch(m):
    return m.fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)


@program
def loop(m):
    return m.fx.symbolic_trace(lambda x: [y + 1 for y in x])


@program
def star(m):
    return m.fx.symbolic_trace(lambda x: [*x])


@program
def length(m):
    return m.fx.symbolic_trace(lambda x: len(x))


@program
def membership(m):
    return m.fx.symbolic_trace(lambda x: 3 in x)


@program
def item_assignment(m):
    def f(x):
        x[0] = 1
        return x

    return m.fx.symbolic_trace(f)


@program
def conversion_to_int(m):
    return m.fx.symbolic_trace(lambda x: int(x))


@program
def unknown_class_of_argument(m):
    return m.fx.symbolic_trace(lambda x: x.foo({1, 2}))


@program
def node_as_key(m):
    return m.fx.symbolic_trace(lambda x: {x: 1})


@program
def foreign_module(m):
    linear = m.nn.Linear(2, 2)
    return m.fx.symbolic_trace(lambda x: linear(x))


@program
def foreign_parameter(m):
    weight = m.nn.Parameter(m.ones(2))
    return m.fx.symbolic_trace(lambda x: x + weight)


@program
def wrap_inside_a_function(m):
    return m.fx.wrap("len")


@program
def wrap_of_a_number(m):
    return m.fx.wrap(3)


@program
def mutation_of_arguments(m):
    list(m.fx.symbolic_trace(lambda x: m.cat([x, x])).graph.nodes)[1].args[0].append(1)


@program
def mutation_of_keywords(m):
    list(m.fx.symbolic_trace(lambda x: m.cat([x, x])).graph.nodes)[1].kwargs["a"] = 1


@program
def erasing_a_node_in_use(m):
    graph = m.fx.symbolic_trace(lambda x: x + 1).graph
    graph.erase_node(list(graph.nodes)[1])


@program
def lint_of_a_wrong_order(m):
    graph = m.fx.symbolic_trace(lambda x: m.relu(x)).graph
    x, relu, _ = graph.nodes
    x.prepend(relu)
    graph.lint()


@program
def lint_of_a_repeated_name(m):
    graph = m.fx.symbolic_trace(lambda x: m.relu(x)).graph
    next(iter(graph.nodes)).name = "relu"
    graph.lint()


@program
def unknown_opcode(m):
    m.fx.Graph().create_node("foo", "x")


@program
def text_as_function(m):
    m.fx.Graph().create_node("call_function", "abc")


@program
def function_as_method(m):
    m.fx.Graph().create_node("call_method", m.relu)


@program
def missing_target_in_module(m):
    graph = m.fx.Graph()
    graph.output(graph.call_module("foo", (graph.placeholder("x"),)))
    m.fx.GraphModule(m.nn.Module(), graph)


@program
def missing_target_in_dictionary(m):
    graph = m.fx.Graph()
    graph.output(graph.get_attr("foo"))
    m.fx.GraphModule({}, graph)


@program
def interpreter_without_an_argument(m):
    m.fx.Interpreter(m.fx.symbolic_trace(lambda x, y: x + y)).run(1)


@program
def proxies_of_two_graphs(m):
    x, y = (m.fx.Proxy(m.fx.Graph().placeholder("x")) for _ in range(2))
    m.add(x, y)


# ----- graphs and nodes -----------------------------------------------------------------------------------------------


@program
def nodes_are_inserted(m):
    traced = m.fx.symbolic_trace(lambda x: m.relu(x) + 1)
    graph = traced.graph
    relu = list(graph.nodes)[1]
    with graph.inserting_after(relu):
        tanh = graph.call_function(m.tanh, (relu,))
    with graph.inserting_before(relu):
        graph.call_method("foo", (relu,), {"a": [relu]})
    with graph.inserting_before():
        graph.placeholder("first")
    graph.inserting_before(relu)
    graph.create_node("get_attr", "abc.def.1")
    places = [n.name for n in reversed(graph.nodes)], len(graph.nodes), tanh.next.name, tanh.prev.name, relu < tanh
    return graph_facts(graph), str(graph), places


@program
def uses_are_replaced(m):
    graph = m.fx.symbolic_trace(lambda x, y: (x + 1) * x + [x, x][1]).graph
    x, y, *_ = graph.nodes
    changed = x.replace_all_uses_with(y, delete_user_cb=lambda user: user.name != "mul")
    mul = next(n for n in graph.nodes if n.name == "mul")
    mul.replace_input_with(x, y)
    mul.update_arg(0, 5)
    mul.insert_arg(1, y)
    mul.update_kwarg("k", [x])
    return [c.name for c in changed], graph_facts(graph), [n.name for n in mul.all_input_nodes]


@program
def arguments_are_assigned(m):
    graph = m.fx.symbolic_trace(lambda x, y: m.cat([x, y], dim=1)).graph
    x, y, cat, _ = graph.nodes
    cat.args, cat.kwargs = ([y, {"a": (x, slice(None, y))}],), {}
    return graph_facts(graph), type(cat.args[0]).__name__, type(cat.args[0][1]).__name__


@program
def dead_code(m):
    def f(x):
        y = x * 2
        m.sin(y)
        m._assert(x, "kept")
        return x + 1

    traced = m.fx.symbolic_trace(f)
    changed = traced.graph.eliminate_dead_code()
    return changed, traced.graph.eliminate_dead_code(), str(traced.graph), traced.recompile().src


@program
def dead_modules(m):
    class Unused(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = m.nn.ReLU(), m.nn.ReLU()

        def forward(self, x):
            self.a(x)
            return self.b(x)

    traced = m.fx.symbolic_trace(Unused())
    traced.graph.eliminate_dead_code()
    traced.delete_all_unused_submodules()
    traced.recompile()
    return str(traced)


@program
def graphs_are_copied(m):
    source = m.fx.symbolic_trace(lambda x, y=2: (x + y, {"a": x})).graph
    graph = m.fx.Graph()
    values = {next(iter(source.nodes)): graph.placeholder("other")}
    result = graph.graph_copy(source, values)
    graph.output(result)
    copied = copy.deepcopy(source)
    return str(graph), graph_facts(copied), str(copied) == str(source), graph.output_node().name


@program
def nodes_are_found(m):
    graph = m.fx.symbolic_trace(lambda x: m.relu(x).sum() + m.relu(x).sum().max()).graph
    found = graph.find_nodes(op="call_function", target=m.relu), graph.find_nodes(op="call_method")
    return [[n.name for n in nodes] for nodes in (*found, graph.find_nodes(op="call_method", target="sum"))]


@program
def arguments_are_mapped(m):
    node = m.fx.Graph().placeholder("x")
    tree = (node, [node, 1], {"a": Point(node, slice(node, None))})
    mapped = m.fx.map_arg(tree, lambda n: n.name)
    leaves = []
    sub(m, "node").map_aggregate(tree, lambda leaf: leaves.append(str(leaf)) or leaf)
    return str(mapped), leaves, type(mapped[1]).__name__, type(mapped[2]).__name__


@program
def operators_in_place(m):
    graph = m.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(operator.iadd, (x, 1))
    graph.call_function(operator.setitem, (y, 0, x))
    w = graph.call_function(getattr, (y, "a b"))
    graph.call_function(getattr, (y, "a", "b"))
    graph.output((y, w))
    return graph.python_code("self").src


@program
def readable_code(m):
    traced = m.fx.symbolic_trace(lambda x: m.relu(x) + 1)
    sub(m, "passes.shape_prop").ShapeProp(traced).propagate(m.ones(2, 3))
    return traced.print_readable(print_output=False)


@program
def code_is_transformed(m):
    traced = m.fx.symbolic_trace(lambda x: m.relu(x) + 1)
    with traced.graph.on_generate_code(lambda current: lambda body: ["pass\n", *(current(body) if current else body)]):
        traced.recompile()
        inside = traced.code
    traced.recompile()
    return inside, traced.code


@program
def code_has_another_signature(m):
    class Listed(m.fx.graph.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return f"def forward(self, args_list){maybe_return_annotation}:\n    {', '.join(free_vars)} = args_list"

        def additional_globals(self):
            return [("List", list)]

        def process_inputs(self, *inputs):
            return inputs[0]

    traced = m.fx.symbolic_trace(lambda x, y: x - y)
    traced.graph.set_codegen(Listed())
    traced.recompile()
    return traced.code, traced([5, 3]), m.fx.Interpreter(traced).run([5, 3])


# ----- modules --------------------------------------------------------------------------------------------------------


def nested(m):
    class Nested(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = m.nn.Module()
            self.a.b = m.nn.Module()
            self.a.b.lin = m.nn.Linear(2, 2)
            self.a.b.p = m.nn.Parameter(m.ones(2))
            self.gone = m.nn.Linear(2, 2)

        def forward(self, x):
            return self.a.b.lin(x) + self.a.b.p

    return fill(Nested())


@program
def only_parts_in_use_are_taken(m):
    traced = m.fx.symbolic_trace(nested(m))
    return sorted(n for n, _ in traced.named_parameters()), [n for n, _ in traced.named_modules()], traced(m.ones(1, 2))


@program
def submodules_are_added_and_deleted(m):
    traced = m.fx.symbolic_trace(nested(m))
    found = [
        traced.add_submodule("a.c.d", m.nn.ReLU()), traced.add_submodule("a.b.p.x", m.nn.ReLU()), traced.delete_submodule("a.c.d"),
        traced.delete_submodule("zz"), [n for n, _ in traced.named_modules()],
    ]  # fmt: skip
    traced.delete_all_unused_submodules()
    return found, [n for n, _ in traced.named_modules()]


@program
def copies_and_pickles(m):
    traced = m.fx.symbolic_trace(m.nn.Sequential(m.nn.Linear(2, 2), m.nn.ReLU()).eval())
    fill(traced)
    copies = [copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))]
    x = m.ones(1, 2)
    return [(c.code == traced.code, c.training, str(c.graph), c.graph.owning_module is c, c(x)) for c in copies]


@program
def pickles_of_functions(m):
    traced = pickle.loads(pickle.dumps(m.fx.symbolic_trace(uses_math)))
    return traced.code, traced(4.0)


def uses_math(x):
    return math.sqrt(x) + 1


@program
def a_deep_copy_is_independent(m):
    traced = m.fx.symbolic_trace(lambda x: x + 1)
    copied = copy.deepcopy(traced)
    list(copied.graph.nodes)[1].update_arg(1, 10)
    copied.recompile()
    return traced(1), copied(1)


@program
def module_of_a_dictionary(m):
    graph = m.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(operator.add, (graph.call_module("a.act", (x,)), graph.get_attr("a.w"))))
    made = m.fx.GraphModule({"a.act": m.nn.ReLU(), "a.w": m.ones(2)}, graph, "Made")
    return type(made).__name__, made.code, made(-m.ones(2)), [n for n, _ in made.named_buffers()]


@program
def gradients_pass_through(m):
    traced = m.fx.symbolic_trace(nested(m))
    traced(m.ones(1, 2)).sum().backward()
    return [(n, p.grad) for n, p in sorted(traced.named_parameters())]


# ----- interpreters ---------------------------------------------------------------------------------------------------


@program
def interpreter_runs_every_kind_of_node(m):
    seen = []

    class Log(m.fx.Interpreter):
        def run_node(self, n):
            seen.append((n.op, n.name))
            return super().run_node(n)

        def call_function(self, target, args, kwargs):
            seen.append(("function", target.__name__, len(args), sorted(kwargs)))
            return super().call_function(target, args, kwargs)

    out = Log(m.fx.symbolic_trace(fill(model(m)))).run(m.ones(3, 4))
    return seen, out["out"]


@program
def interpreter_options(m):
    traced = m.fx.symbolic_trace(lambda x, y=3: x * 2 + y)
    mul = list(traced.graph.nodes)[2]
    run = m.fx.Interpreter(traced, garbage_collect_values=False)
    values = [run.run(1), run.run(1, 2), run.run(1, initial_env={mul: 100}), m.fx.Interpreter(traced).boxed_run([5, 3])]
    return values, m.fx.Interpreter(m.fx.symbolic_trace(lambda x, *a: x - a[1])).run(5, 3, 1)


@program
def transformer(m):
    class Swap(m.fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(m.sigmoid if target is m.relu else target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("cos" if target == "sin" else target, args, kwargs)

    traced = m.fx.symbolic_trace(lambda x, y=2.0: (m.relu(x) + 1).sin() * y)
    made = Swap(traced).transform()
    return made.code, made(m.ones(2))


@program
def transformer_keeps_modules(m):
    return m.fx.Transformer(m.fx.symbolic_trace(fill(model(m)))).transform().code


# ----- passes ---------------------------------------------------------------------------------------------------------


@program
def shapes(m):
    traced = m.fx.symbolic_trace(fill(model(m)))
    sub(m, "passes.shape_prop").ShapeProp(traced).propagate(m.ones(3, 4))
    found = []
    for n in traced.graph.nodes:
        meta = n.meta.get("tensor_meta")
        if hasattr(meta, "shape"):
            # The stride of a dimension of size one has no meaning.
            strides = [stride for stride, size in zip(meta.stride, meta.shape, strict=True) if size > 1]
            found.append((n.name, tuple(meta.shape), str(meta.dtype), meta.requires_grad, strides, str(meta.memory_format)))
    return found, traced.graph.nodes.__len__()


def splittable(m):
    class Splittable(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.l1, self.l2 = m.nn.Linear(3, 3), m.nn.Linear(3, 3)
            self.p = m.nn.Parameter(m.ones(3))
            self.register_buffer("b", m.ones(3))

        def forward(self, x, y):
            a = self.l1(x) + self.p
            b = m.relu(a) * y
            c = self.l2(b) + a + self.b
            return c.sum(), b, self.p * 2

    return fill(Splittable())


def split(m, callback, **options):
    module = splittable(m)
    made = sub(m, "passes.split_module").split_module(m.fx.symbolic_trace(module), module, callback, **options)
    x = m.ones(2, 3)
    parts = [(n, c.code) for n, c in made.named_children()]
    return made.code, parts, [n for n, _ in made.named_parameters()], made(x, x), module(x, x)


@program
def split_in_order(m):
    count = iter(range(100))
    paths = {}
    return split(m, lambda node: next(count) // 3, qualname_map=paths), paths


@program
def split_by_name(m):
    return split(m, lambda node: "first" if node.name in ("l1", "add") else "second")


@program
def split_in_a_cycle(m):
    return split(m, lambda node: "first" if node.name in ("l1", "add", "sum_1") else "second")


def replace(m, function, pattern, replacement):
    traced = m.fx.symbolic_trace(function)
    matches = m.fx.replace_pattern(traced, pattern, replacement)
    facts = [(match.anchor.name, [(a.name, b.name) for a, b in match.nodes_map.items()]) for match in matches]
    return traced.code, facts


@program
def pattern_twice(m):
    def f(x, w1, w2):
        return m.stack([m.cat([w1, w2]).sum(), m.cat([w1, w2]).sum()]) + x

    return replace(m, f, lambda w1, w2: m.cat([w1, w2]).sum(), lambda w1, w2: m.stack([w1, w2]))


@program
def pattern_in_a_chain(m):
    return replace(m, lambda x: m.relu(m.relu(m.relu(x))) + 1, lambda x: m.relu(x), lambda x: x.tanh())


@program
def overlapping_pattern(m):
    return replace(m, lambda x: m.relu(m.relu(m.relu(x))) + 1, lambda x: m.relu(m.relu(x)), lambda x: x.tanh())


@program
def pattern_with_constants(m):
    return replace(m, lambda x: (x.clamp(0, 1), x.clamp(0, 2), x.clamp(min=0)), lambda a: a.clamp(0, 1), lambda a: a.foo())


@program
def pattern_whose_inner_value_is_used(m):
    def f(x, y):
        s = x + y
        return s, s * 2

    return replace(m, f, lambda a, b: (a + b) * 2, lambda a, b: a - b)


@program
def pattern_with_two_results(m):
    def f(x, y):
        s = x + y
        return s, s * 2

    def pattern(a, b):
        s = a + b
        return s, s * 2

    return replace(m, f, pattern, lambda a, b: (a - b, a * b))


@program
def different_inputs_match_different_values(m):
    return replace(m, lambda x: x + x, lambda a, b: a + b, lambda a, b: a * b)


@program
def pattern_of_modules(m):
    class Pattern(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin, self.act = m.nn.Linear(2, 2), m.nn.ReLU()

        def forward(self, x):
            return self.act(self.lin(x))

    class Replacement(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.new, self.lin = m.nn.Linear(2, 2), m.nn.Linear(2, 2)

        def forward(self, x):
            return self.new(self.lin(x))

    traced = m.fx.symbolic_trace(Pattern())
    found = m.fx.replace_pattern(traced, Pattern(), Replacement())
    return traced.code, len(found), [n for n, _ in traced.named_modules()]


@program
def pattern_with_filters(m):
    traced = m.fx.symbolic_trace(lambda x: (x.add(1), x.add(2), x.mul(3)))
    rewrite = sub(m, "subgraph_rewriter").replace_pattern_with_filters
    accept = [lambda match, graph, pattern: match.returning_nodes[0].args[1] == 2]
    found = rewrite(traced, lambda x: x.add(1), lambda x: x.sub(1), accept, ignore_literals=True)
    return traced.code, [[n.name for n in f.replacements] for f in found]


@program
def normalised_arguments(m):
    normalize = sub(m, "operator_schemas").normalize_function
    relu = m.nn.functional.relu
    found = [normalize(relu, (1,)), normalize(relu, (1,), normalize_to_only_use_kwargs=True), normalize(operator.add, (1, 2))]
    layer = m.nn.Sequential(m.nn.Linear(2, 2))
    found.append(sub(m, "operator_schemas").normalize_module(layer, "0", (1,), normalize_to_only_use_kwargs=True))
    return [None if f is None else (f.args, f.kwargs) for f in found]


@program
def batch_norm_is_folded(m):
    model = m.nn.Sequential(m.nn.Conv2d(2, 3, 3), m.nn.BatchNorm2d(3), m.nn.ReLU(), m.nn.Conv2d(3, 1, 1)).eval()
    fill(model)
    made = sub(m, "experimental.optimization").fuse(model)
    x = m.ones(1, 2, 5, 5)
    return made.code, bool(m.allclose(made(x), model(x), atol=1e-5)), [n for n, _ in made.named_modules()]


@program
def dropout_is_removed(m):
    made = sub(m, "experimental.optimization").remove_dropout(m.nn.Sequential(m.nn.Dropout(), m.nn.ReLU()))
    return made.code, made(-m.ones(2))


@program
def pass_manager(m):
    infra = sub(m, "passes.infra.pass_manager")
    order = []

    def first(gm):
        order.append("first")
        return sub(m, "passes.infra.pass_base").PassResult(gm, True)

    def second(gm):
        order.append("second")
        return sub(m, "passes.infra.pass_base").PassResult(gm, False)

    manager = infra.PassManager([second, first], [infra.this_before_that_pass_constraint(first, second)], steps=2)
    result = manager(m.fx.symbolic_trace(lambda x: x))
    return order, result.modified


@program
def ops_of_a_function(m):
    """The values of `make_fx`; its ops have other names in each library."""
    make_fx = sub(m, "experimental.proxy_tensor").make_fx
    x = m.arange(4.0).reshape(2, 2)
    first = make_fx(lambda x, y: (m.sin(x) + y * 2).sum())(x, x + 5)
    second = make_fx(lambda x: m.func.grad(lambda x: m.sin(x @ x).sum())(x))(x)
    third = make_fx(lambda d: {"a": d["b"] + m.ones(2)})({"b": x})
    return first(x + 1, x), second(x + 1), third({"b": x + 1})["a"], [n.op for n in first.graph.nodes if n.op == "placeholder"]


@program
def immutable_collections(m):
    kinds = sub(m, "immutable_collections")
    a, b = kinds.immutable_list([1, [2]]), kinds.immutable_dict({"a": 1})
    return a == [1, [2]], b == {"a": 1}, type(copy.copy(b)).__name__, type(pickle.loads(pickle.dumps(a))).__name__, str(a), dict(b)


@program
def ordered_dictionaries(m):
    return m.fx.symbolic_trace(lambda x: collections.OrderedDict(a=x, b=x + 1)).code
