"""Modules apart from their results: hooks, state dicts, attributes and texts of containers, on torch and on ndgrad alike."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

import ndgrad
import ndgrad.nn
from tests.torch_parity.differences import deliberate
from tests.torch_parity.errors import without_code
from tests.torch_parity.side_by_side import MODULES, attempt

pytestmark = [pytest.mark.usefixtures("float64_torch"), pytest.mark.filterwarnings("ignore")]

# ----- order of events -------------------------------------------------------------------------------------------------


def hook_program(t):
    nn, events = t.nn, []

    def note(name):
        def hook(module, *rest):
            events.append((name, type(module).__name__, *(described(r) for r in rest)))

        return hook

    def described(value):
        if isinstance(value, (tuple, list)):
            return tuple(described(v) for v in value)
        if isinstance(value, dict):
            return {k: described(v) for k, v in value.items()}
        return tuple(value.shape) if hasattr(value, "shape") else value

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.second = nn.Sequential(nn.Tanh(), nn.Linear(4, 2))

        def forward(self, x, scale=1.0, *, extra=None):
            h = self.first(x)
            return self.second(h) * scale, h

    module = Two()
    everywhere = nn.modules.module
    handles = [
        everywhere.register_module_forward_pre_hook(note("all pre")),
        everywhere.register_module_forward_hook(note("all post")),
        everywhere.register_module_full_backward_pre_hook(note("all backward pre")),
        everywhere.register_module_full_backward_hook(note("all backward")),
    ]
    try:
        for part in (module, module.first, module.second):
            part.register_forward_pre_hook(note("pre"))
            part.register_forward_pre_hook(note("pre first"), prepend=True)
            part.register_forward_pre_hook(note("pre kwargs"), with_kwargs=True)
            part.register_forward_hook(note("post"))
            part.register_forward_hook(note("post kwargs"), with_kwargs=True)
            part.register_forward_hook(note("post first"), prepend=True, always_call=True)
            part.register_full_backward_hook(note("backward"))
            part.register_full_backward_hook(note("backward first"), prepend=True)
            part.register_full_backward_pre_hook(note("backward pre"))
        x = t.ones(5, 3, requires_grad=True)
        out, h = module(x, 2.0, extra=7)
        (out.sum() + h.sum()).backward()
        events.append(("input without gradients",))
        out, h = module(t.ones(5, 3))
        out.sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events


def test_hooks_run_in_the_same_order_with_the_same_arguments():
    want, got = (hook_program(t) for t in MODULES)
    assert got == want
    assert len(want) > 60


HOOKS = [
    "m.register_forward_hook(lambda m, a, o: o * 2); m(x)",
    "m.register_forward_pre_hook(lambda m, a: a[0] * 2); m(x)",
    "m.register_forward_pre_hook(lambda m, a: (a[0] * 2,)); m(x)",
    "m.register_forward_pre_hook(lambda m, a, k: ((), {'input': a[0] * 3}), with_kwargs=True); m(x)",
    "m.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True); m(x)",
    "m.register_forward_hook(lambda m, a, k, o: o + a[0].sum(), with_kwargs=True); m(x)",
    "m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,)); m(x)",
    "m.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0])); m(x)",
    "m.register_full_backward_hook(lambda m, gi, go: gi); m(x.detach())",
    "m.register_full_backward_hook(lambda m, gi, go: (go[0],)); m(x.detach())",
    "m.register_full_backward_pre_hook(lambda m, go: (go[0] * 5,)); m(x)",
    "m.register_full_backward_pre_hook(lambda m, go: (go[0], None)); m(x)",
    "m.register_full_backward_hook(lambda m, gi, go: None); m.register_backward_hook(lambda m, gi, go: None); m(x)",
    "m.register_full_backward_hook(lambda m, gi, go: None); m(x).mul_(2)",
    "m.register_full_backward_hook(lambda m, gi, go: None); m(x) + 1",
    "m.register_forward_hook(lambda m, a, o: 1 / 0); m(x)",
    "m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,)); t.autograd.grad((m(x) ** 3).sum(), x, create_graph=True)[0]",
    "h = m.register_forward_hook(lambda m, a, o: o * 2); h.remove(); m(x)",
    "m.register_forward_hook(lambda m, a, o: o * 2); m._forward_hooks.clear(); m(x)",
    "m.forward = lambda y: y * 7; m(x)",
]


@pytest.mark.parametrize("program", HOOKS)
def test_what_hooks_return_takes_effect(program):
    def outcome(t):
        x = t.tensor([[1.0, 2.0]], requires_grad=True)
        m = t.nn.Linear(2, 2)
        m.load_state_dict({"weight": t.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": t.tensor([0.5, -0.5])})
        *first, last = program.split("; ")
        names = {"m": m, "x": x, "t": t}
        exec("\n".join(first), names)
        out = eval(last, names) if " = " not in last else exec(last, names)
        out.sum().backward()
        return out.tolist(), None if x.grad is None else x.grad.tolist(), m.weight.grad is None or m.weight.grad.tolist()

    want, got = (attempt(lambda t=t: outcome(t)) for t in MODULES)
    assert got == want


def test_bare_tensors_from_hooks_and_arrays_as_weights_are_taken():
    assert deliberate("accepted-beyond")
    module = ndgrad.nn.Linear(2, 2)
    x = ndgrad.ones(1, 2, requires_grad=True)
    module.register_full_backward_hook(lambda m, grad_input, grad_output: grad_input[0] * 0 + 7.0)
    module(x).sum().backward()
    assert x.grad.tolist() == [[7.0, 7.0]]
    module.load_state_dict({"weight": np.eye(2), "bias": np.zeros(2)})
    assert module.weight.tolist() == [[1.0, 0.0], [0.0, 1.0]]


# ----- state dicts -------------------------------------------------------------------------------------------------------


def state_program(t):
    nn, events = t.nn, []

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(t.zeros(2))
            self.register_buffer("kept", t.ones(2))
            self.register_buffer("dropped", t.ones(2), persistent=False)
            self.plain = nn.Buffer(t.ones(1), persistent=False)
            self.shared = self.weight
            self.none = None
            self.register_parameter("absent", None)
            self.part = nn.BatchNorm1d(2)
            self.count = 5

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    module = Counting()
    module.register_state_dict_pre_hook(lambda m, prefix, keep: events.append(("pre", prefix, keep)))
    module.register_state_dict_post_hook(lambda m, state, prefix, meta: events.append(("post", list(state), prefix, dict(meta))))
    module.part.register_load_state_dict_pre_hook(lambda m, *rest: events.append(("load pre", type(m).__name__, rest[1], dict(rest[2]))))
    module.register_load_state_dict_post_hook(lambda m, keys: events.append(("load post", list(keys[0]), list(keys[1]))))
    state = module.state_dict()
    other = Counting()
    other.count = 6
    answer = other.load_state_dict(state)
    events.append((repr(answer), other.count, list(state), {k: dict(v) for k, v in state._metadata.items()}))
    answer = module.load_state_dict({"weight": t.ones(2), "more.less": t.ones(1), "part.odd": t.ones(1)}, strict=False)
    events.append((sorted(answer.missing_keys), sorted(answer.unexpected_keys), module.weight.tolist()))
    kept = module.state_dict(keep_vars=True, prefix="a.")
    events.append((list(kept), kept["a.weight"] is module.weight, kept["a.weight"].requires_grad))
    given = t.full((2,), 9.0)
    module.load_state_dict({**module.state_dict(), "weight": given}, assign=True)
    events.append((module.weight.data_ptr() == given.data_ptr(), module.weight.requires_grad, type(module.weight).__name__))
    events.append(([n for n, _ in module.named_parameters()], [n for n, _ in module.named_parameters(remove_duplicate=False)]))
    events.append([n for n, _ in module.named_buffers()])
    return events


def test_state_dicts_and_their_hooks_are_the_same():
    want, got = (state_program(t) for t in MODULES)
    assert got == want


def test_messages_of_load_state_dict_name_the_same_keys():
    messages = []
    for t in MODULES:
        module = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
        with pytest.raises(RuntimeError) as error:
            module.load_state_dict({"0.weight": t.ones(3), "zz": t.ones(1)})
        messages.append(without_code(str(error.value)).replace("torch.Size", "Size").replace("ndgrad.Size", "Size"))
    assert messages[0] == messages[1]


# ----- attributes --------------------------------------------------------------------------------------------------------

ATTRIBUTES = [
    "m.p = t.ones(1)", "m.p = 3", "m.p = None", "m.b = 3", "m.b = None", "m.b = t.zeros(2)", "m.c = 3", "m.c = None",
    "m.b = nn.Parameter(t.ones(1))", "m.p = nn.Linear(1, 1)", "m.c = nn.Parameter(t.ones(1))", "m.plain = nn.Linear(1, 1)", "m.nope",
    "del m.nope", "del m.p", "del m.b", "del m.c", "del m.nb", "m.nb = nn.Buffer(t.ones(1))",
    "m.b = nn.Buffer(t.ones(1), persistent=False)", "m.register_parameter('a.b', None)", "m.register_parameter('', None)",
    "m.register_parameter(3, None)", "m.register_parameter('training', None)", "m.register_parameter('q', t.ones(1))",
    "m.register_parameter('q', None)", "m.register_buffer('a.b', None)", "m.register_buffer('', None)", "m.register_buffer(3, None)",
    "m.register_buffer('p', t.ones(1))", "m.register_buffer('z', 3)", "m.add_module('a.b', None)", "m.add_module('', None)",
    "m.add_module(3, None)", "m.add_module('training', None)", "m.add_module('z', 3)", "m.register_module('z', nn.ReLU())",
    "m.c.weight = None", "m.to(t.float32)", "m.double()", "m.half()", "m.type(t.float32)", "m.requires_grad_(False)", "m.eval()",
    "m.c.train(False)", "m.apply(lambda k: setattr(k, 'seen', True))", "m.zero_grad()", "m.to_empty(device='cpu')",
    "m.set_submodule('c', nn.Linear(2, 2))",
]  # fmt: skip


@pytest.mark.parametrize("program", ATTRIBUTES)
def test_attributes_are_registered_alike(program):
    def outcome(t):
        nn = t.nn
        m = nn.Module()
        m.p, m.plain = nn.Parameter(t.ones(2)), 1
        m.register_buffer("b", t.ones(2))
        m.register_buffer("nb", t.ones(2), persistent=False)
        m.c = nn.Linear(1, 1)

        def go():
            exec(program, {"m": m, "t": t, "nn": nn})

        result = attempt(go)
        known = {n for n in vars(m) if not n.startswith("_")}
        dtypes = {n: (str(v.dtype).partition(".")[2], v.requires_grad) for n, v in m.state_dict(keep_vars=True).items()}
        return (
            result, list(m._parameters), list(m._buffers), list(m._modules), sorted(m._non_persistent_buffers_set), sorted(known), dtypes,
            [k.training for k in m.modules()],
        )  # fmt: skip

    want, got = (outcome(t) for t in MODULES)
    assert got == want


CONTAINER_PROGRAMS = [
    "nn.ModuleList([nn.ReLU(), nn.Tanh()])", "nn.ModuleList([nn.ReLU()] * 3 + [nn.Tanh()])", "nn.ModuleList()",
    "nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.ELU()])[1:]", "nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.ELU()])[-1]",
    "nn.ModuleList([nn.ReLU()]) + [nn.Tanh()]", "nn.ModuleList([nn.ReLU()]).extend([nn.Tanh()]).append(nn.ELU())",
    "(lambda l: (l.insert(0, nn.Tanh()), l)[1])(nn.ModuleList([nn.ReLU()]))",
    "(lambda l: (l.pop(0), l))(nn.ModuleList([nn.ReLU(), nn.Tanh()]))",
    "(lambda l: (l.__delitem__(0), l)[1])(nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.ELU()]))",
    "(lambda l: (l.__delitem__(slice(0, 2)), l)[1])(nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.ELU()]))",
    "(lambda l: (l.__setitem__(-1, nn.ELU()), l)[1])(nn.ModuleList([nn.ReLU(), nn.Tanh()]))", "len(nn.ModuleList([nn.ReLU()]))",
    "nn.Sequential(nn.ReLU(), nn.Tanh())[0]", "nn.Sequential(nn.ReLU(), nn.Tanh(), nn.ELU())[::2]",
    "nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())", "nn.Sequential(nn.ReLU()) * 2", "3 * nn.Sequential(nn.ReLU())",
    "nn.Sequential(nn.ReLU()).append(nn.Tanh())", "nn.Sequential()", "nn.Sequential(nn.ReLU()).insert(1, nn.Tanh())",
    "nn.Sequential(nn.ReLU()).extend([nn.Tanh(), nn.ELU()])",
    "(lambda s: (s.__delitem__(0), s)[1])(nn.Sequential(nn.ReLU(), nn.Tanh()))",
    "(lambda s: (s.pop(0), s))(nn.Sequential(nn.ReLU(), nn.Tanh()))", "list(nn.Sequential(nn.ReLU(), nn.Tanh()))",
    "(lambda s: (s.__delitem__(1), s)[1])(nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh(), c=nn.ELU())))",
    "nn.Sequential(OrderedDict(a=nn.ReLU()))", "nn.Sequential(nn.Sequential(), nn.Sequential(nn.ReLU()))",
    "nn.ModuleDict({'a': nn.ReLU(), 'b': nn.ModuleDict()})", "nn.ModuleDict([('a', nn.ReLU()), ['b', nn.Tanh()]])",
    "list(nn.ModuleDict({'a': nn.ReLU()}).items())",
    "(lambda d: (d.pop('a'), d, 'a' in d))(nn.ModuleDict({'a': nn.ReLU(), 'b': nn.Tanh()}))",
    "(lambda d: (d.clear(), d, len(d)))(nn.ModuleDict({'a': nn.ReLU()}))", "list(nn.ModuleDict({'b': nn.ReLU(), 'a': nn.Tanh()}))",
    "nn.ParameterList([3, t.ones(1), nn.Parameter(t.ones(2, 2))])", "nn.ParameterList([t.ones(2)])",
    "nn.ParameterList([t.ones(1), t.ones(2), t.ones(3)])[1:]", "[p.requires_grad for p in nn.ParameterList([t.ones(1), t.zeros(1)])]",
    "nn.ParameterList([t.ones(1)]).append(t.ones(2)).extend([t.ones(3)])[-1]", "list(nn.ParameterList([3, t.ones(1)]).state_dict())",
    "nn.ParameterDict({'a': 3, 'b': t.ones(1), 'c': nn.Parameter(t.ones(2, 2))})", "nn.ParameterDict({'a': t.ones(1)})",
    "list(nn.ParameterDict({'b': t.ones(1), 'a': 2}).keys())",
    "nn.ParameterDict({'a': t.ones(1)}) | nn.ParameterDict({'b': t.ones(2)})",
    "(lambda d: (d.pop('a'), list(d.items())))(nn.ParameterDict({'a': t.ones(1), 'b': t.ones(2)}))",
    "(lambda d: (d.popitem(), list(d)))(nn.ParameterDict({'a': t.ones(1), 'b': t.ones(2)}))",
    "nn.ParameterDict({'a': t.ones(1)}).get('z', 3)", "nn.ParameterDict({'a': t.ones(1)}).setdefault('z', t.ones(2))",
    "nn.ParameterDict().fromkeys(['a', 'b'], t.ones(1))", "list(reversed(nn.ParameterDict({'a': 1, 'b': 2})))",
    "nn.ParameterDict({'a': t.ones(1)}).copy()", "nn.Parameter(t.ones(2))", "nn.Parameter()", "nn.Buffer(t.ones(2))",
    "nn.UninitializedParameter()", "isinstance(nn.Buffer(t.ones(2)), nn.Buffer)", "isinstance(t.ones(2), nn.Buffer)",
    "type(nn.Parameter(t.ones(2)) * 2).__name__", "nn.Parameter(t.ones(2)).data", "nn.Parameter(t.ones(2)).is_leaf",
    "nn.utils.rnn.pack_padded_sequence(t.arange(12.0).view(4, 3), [2, 4, 1], enforce_sorted=False)",
    "(lambda r: r.pad_packed_sequence(r.pack_padded_sequence(t.arange(12.0).view(4, 3), [4, 2, 1]), True, -1.0, 5))(nn.utils.rnn)",
    "nn.utils.rnn.pad_sequence([t.ones(3), t.ones(1)], padding_value=2, padding_side='left')",
    "nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence([t.ones(3), t.ones(1)]))",
    "nn.utils.rnn.pack_sequence([t.ones(1), t.ones(3)], enforce_sorted=False)",
    "nn.utils.parameters_to_vector([t.ones(2), t.zeros(1, 2)])", "nn.init.eye_(t.ones(2, 3))", "nn.init.dirac_(t.ones(4, 2, 3), 2)",
    "nn.init.constant_(t.ones(2), 3.0)", "nn.init.calculate_gain('tanh')", "nn.init.calculate_gain('leaky_relu', 0.3)",
]  # fmt: skip


@pytest.mark.parametrize("program", CONTAINER_PROGRAMS)
def test_same_text(program):
    want, got = (attempt(lambda t=t: repr(eval(program, {"nn": t.nn, "t": t, "OrderedDict": OrderedDict}))) for t in MODULES)
    assert got.replace("ndgrad.", "torch.") == want
