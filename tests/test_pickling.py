"""Users' objects can be pickled, copied and sent to a spawned process: functions, tensors, modules, optimizers, schedules, states.

A public function is pickled by its public name, so a module that holds one (`self.act = ndgrad.tanh`) is as portable as its weights.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import io
import multiprocessing
import pickle

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn, optim
from ndgrad.nn.utils.rnn import pack_sequence
from ndgrad.numpy import Array

NAMESPACES = [
    "ndgrad", "ndgrad.autograd", "ndgrad.autograd.functional", "ndgrad.fft", "ndgrad.func", "ndgrad.linalg", "ndgrad.nn",
    "ndgrad.nn.functional", "ndgrad.nn.init", "ndgrad.nn.utils", "ndgrad.numpy", "ndgrad.numpy.fft", "ndgrad.numpy.linalg",
    "ndgrad.optim", "ndgrad.optim.lr_scheduler", "ndgrad.special", "ndgrad.testing",
]  # fmt: skip


def pickled(value):
    return pickle.loads(pickle.dumps(value))


COPIES = {"pickle": pickled, "pickle protocol 2": lambda v: pickle.loads(pickle.dumps(v, 2)), "deepcopy": copy.deepcopy}
copies = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


# ----- functions and classes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_public_function_and_class_pickles_to_itself(namespace):
    module = importlib.import_module(namespace)
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    wrong = {}
    for name in names:
        value = getattr(module, name)
        if not (inspect.isroutine(value) or inspect.isclass(value) or type(value).__name__ == "ufunc"):
            continue
        try:
            if pickled(value) is not value:
                wrong[name] = "another object"
        except Exception as error:
            wrong[name] = f"{type(error).__name__}: {error}"
    assert not wrong


def test_method_of_tensor_pickles():
    assert pickled(ndgrad.Tensor.sum) is ndgrad.Tensor.sum
    assert pickled(ndgrad.tensor([1.0, 2.0]).sum)().item() == 3.0


# ----- tensors -------------------------------------------------------------------------------------------------------

TENSORS = {
    "leaf": lambda: ndgrad.tensor([1.0, 2.0], requires_grad=True),
    "constant": lambda: ndgrad.arange(3),
    "view": lambda: ndgrad.arange(6.0).reshape(2, 3).T,
    "complex": lambda: ndgrad.tensor([1.0 + 2.0j]),
    "bfloat16": lambda: ndgrad.ones(2, dtype=ndgrad.bfloat16),
    "empty": lambda: ndgrad.empty(0, 3),
    "parameter": lambda: nn.Parameter(ndgrad.ones(2)),
    "array": lambda: Array([1.0, 2.0]),
}


@copies
@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_tensor_keeps_values_dtype_class_and_flag(make, copied):
    x = make()
    made = copied(x)
    assert type(made) is type(x)
    assert made.dtype == x.dtype
    assert made.requires_grad == x.requires_grad
    assert tuple(made.shape) == tuple(x.shape)
    assert made is not x
    same = made == x
    assert bool(np.all(np.asarray(same._array)))


def saved(value):
    file = io.BytesIO()
    ndgrad.save(value, file)
    file.seek(0)
    return ndgrad.load(file)


# (A plain pickle of a tensor holds its own elements, as torch's and NumPy's do.)
@pytest.mark.parametrize("copied", [copy.deepcopy, saved])
def test_shared_memory_stays_shared_within_one_copy(copied):
    x = ndgrad.zeros(3)
    whole, part = copied([x, x[1:]])
    part.fill_(7)
    assert whole.tolist() == [0.0, 7.0, 7.0]
    assert x.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "value",
    [ndgrad.float32, ndgrad.device("cpu"), ndgrad.Size([2, 3]), ndgrad.strided, ndgrad.channels_last],
    ids=["dtype", "device", "Size", "layout", "memory_format"],
)
@copies
def test_small_objects(value, copied):
    made = copied(value)
    assert made == value
    assert type(made) is type(value)


@copies
def test_named_results(copied):
    found = ndgrad.tensor([[3.0, 1.0], [2.0, 5.0]]).max(dim=1)
    made = copied(found)
    assert type(made) is type(found)
    assert made.values.tolist() == [3.0, 5.0]
    assert made.indices.tolist() == [0, 1]


def test_generator_goes_on_where_it_was():
    generator = ndgrad.Generator()
    generator.manual_seed(3)
    ndgrad.rand(2, generator=generator)
    made = pickled(generator)
    assert ndgrad.rand(3, generator=made).tolist() == ndgrad.rand(3, generator=generator).tolist()


# ----- modules -------------------------------------------------------------------------------------------------------


class Network(nn.Module):
    """Holds functions of every kind, as attributes and in containers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.act = ndgrad.tanh
        self.acts = [F.relu, ndgrad.sin, ndgrad.nn.functional.softplus]
        self.loss = F.mse_loss
        self.initial = nn.init.xavier_uniform_
        self.register_buffer("scale", ndgrad.full((3,), 0.5))

    def forward(self, x):
        h = self.act(self.norm(self.linear(x))) * self.scale
        for act in self.acts:
            h = act(h)
        return h


MODULES = {
    "functions as attributes": Network,
    "sequential": lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.LayerNorm(3)),
    "list": lambda: nn.Sequential(*nn.ModuleList([nn.Linear(2, 2), nn.Tanh()])),
    "embedding of weights": lambda: nn.Sequential(nn.Linear(2, 2), nn.PReLU()),
    "encoder layer with a function as activation": lambda: nn.Sequential(
        nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, activation=ndgrad.tanh, batch_first=True)
    ),
    "lazy": lambda: nn.Sequential(nn.LazyLinear(3)),
}


@copies
@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_module_computes_the_same(make, copied):
    module = make()
    x = ndgrad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    lazy = any(nn.parameter.is_lazy(p) for p in module.parameters())
    made = copied(module)
    assert type(made) is type(module)
    if lazy:
        assert made(x).shape == module(x).shape
        return
    assert not {id(p) for p in made.parameters()} & {id(p) for p in module.parameters()}
    np.testing.assert_array_equal(made(x).detach().numpy(), module(x).detach().numpy())
    made(x).sum().backward()
    module(x).sum().backward()
    for (name, p), (_, q) in zip(module.named_parameters(), made.named_parameters(), strict=True):
        if p.grad is not None:
            np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), err_msg=name)


def test_shared_parameter_stays_shared():
    first = nn.Linear(2, 2)
    module = nn.Sequential(first, first, nn.Linear(2, 2))
    module[2].weight = first.weight
    for copied in COPIES.values():
        made = copied(module)
        assert made[0] is made[1]
        assert made[2].weight is made[0].weight
        assert len(list(made.parameters())) == 3


def on_forward(module, args, output):
    return output * 2


@copies
def test_hooks_travel_with_their_module(copied):
    module = nn.ReLU()
    module.register_forward_hook(on_forward)
    assert copied(module)(ndgrad.tensor([1.0])).tolist() == [2.0]


@copies
def test_state_dict_and_packed_sequence(copied):
    module = Network()
    made = copied(module.state_dict())
    other = Network()
    other.load_state_dict(made)
    assert other.linear.weight.tolist() == module.linear.weight.tolist()
    packed = pack_sequence([ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0])])
    assert copied(packed).data.tolist() == packed.data.tolist()


# ----- optimizers and schedules --------------------------------------------------------------------------------------

OPTIMIZERS = [name for name in optim.__all__ if isinstance(getattr(optim, name), type) and name != "Optimizer"]


#: Modules for optimizers that do not take every parameter: Muon takes matrices, SparseAdam sparse gradients.
MODULES = {"Muon": lambda: nn.Linear(2, 1, bias=False), "SparseAdam": lambda: nn.Embedding(4, 1, sparse=True)}


def train(module, optimizer, steps):
    x, y = ndgrad.tensor([[1.0, 2.0], [3.0, -1.0]]), ndgrad.tensor([[1.0], [0.0]])
    if isinstance(module, nn.Embedding):
        x = ndgrad.tensor([1, 3])

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(module(x), y)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    return [p.tolist() for p in module.parameters()]


@pytest.mark.one_in(3)
@copies
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_goes_on_from_a_copy_of_module_and_optimizer(name, copied):
    module = MODULES.get(name, lambda: nn.Linear(2, 1))()
    optimizer = getattr(optim, name)(module.parameters(), lr=0.01)
    train(module, optimizer, 2)
    module2, optimizer2 = copied((module, optimizer))
    assert optimizer2.param_groups[0]["params"][0] is module2.weight
    np.testing.assert_array_equal(train(module2, optimizer2, 2)[0], train(module, optimizer, 2)[0])


def halving(epoch):
    return 0.5**epoch


SCHEDULES = {
    "LambdaLR": lambda o: optim.lr_scheduler.LambdaLR(o, halving),
    "MultiplicativeLR": lambda o: optim.lr_scheduler.MultiplicativeLR(o, halving),
    "StepLR": lambda o: optim.lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: optim.lr_scheduler.MultiStepLR(o, [1, 3]),
    "ExponentialLR": lambda o: optim.lr_scheduler.ExponentialLR(o, 0.9),
    "ConstantLR": lambda o: optim.lr_scheduler.ConstantLR(o),
    "LinearLR": lambda o: optim.lr_scheduler.LinearLR(o),
    "PolynomialLR": lambda o: optim.lr_scheduler.PolynomialLR(o),
    "CosineAnnealingLR": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "CyclicLR": lambda o: optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "OneCycleLR": lambda o: optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "SequentialLR": lambda o: optim.lr_scheduler.SequentialLR(
        o, [optim.lr_scheduler.ConstantLR(o), optim.lr_scheduler.ExponentialLR(o, 0.9)], [2]
    ),
    "ChainedScheduler": lambda o: optim.lr_scheduler.ChainedScheduler([optim.lr_scheduler.ExponentialLR(o, 0.9)]),
    "ReduceLROnPlateau": lambda o: optim.lr_scheduler.ReduceLROnPlateau(o, patience=0),
}


def test_every_schedule_is_tried():
    assert set(SCHEDULES) == set(optim.lr_scheduler.__all__) - {"LRScheduler"}


@copies
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_goes_on_from_a_copy(name, copied):
    module = nn.Linear(2, 1)
    optimizer = optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    scheduler = SCHEDULES[name](optimizer)

    def advance(optimizer, scheduler, steps):
        rates = []
        for _ in range(steps):
            optimizer.step()
            scheduler.step(1.0) if name == "ReduceLROnPlateau" else scheduler.step()
            rates += scheduler.get_last_lr()
        return rates

    advance(optimizer, scheduler, 2)
    optimizer2, scheduler2 = copied((optimizer, scheduler))
    assert scheduler2.optimizer is optimizer2
    rates = advance(optimizer2, scheduler2, 3)
    assert optimizer2.param_groups[0]["lr"] == rates[-1]
    assert rates == advance(optimizer, scheduler, 3)


# ----- another process -----------------------------------------------------------------------------------------------


def in_the_other_process(module, optimizer, scheduler, x, function, array):
    """Runs in a fresh interpreter: what arrives is whole, and what is returned goes back the same way."""
    before = module.linear.weight.tolist()
    module(x).sum().backward()
    optimizer.step()
    scheduler.step()
    return before, module, scheduler.get_last_lr(), function(x), type(array).__name__, optimizer.state_dict()


def test_everything_survives_a_spawned_process():
    module = Network()
    optimizer = optim.Adam(module.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    x = ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        arguments = (module, optimizer, scheduler, x, ndgrad.sin, Array([1.0]))
        before, made, rates, sines, tensor_type, state = pool.apply(in_the_other_process, arguments)
    assert before == module.linear.weight.tolist()
    assert made.act is ndgrad.tanh
    assert made.acts[0] is F.relu
    assert rates == [0.05]
    np.testing.assert_array_equal(sines.numpy(), x.sin().numpy())
    assert tensor_type == "Array"
    # the same step here: the module that came back is the trained one
    module(x).sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(made.linear.weight.detach().numpy(), module.linear.weight.detach().numpy())
    other = optim.Adam(made.parameters(), lr=0.1)
    other.load_state_dict(state)
    assert other.state[made.linear.weight]["step"].item() == 1.0
