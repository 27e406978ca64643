"""Lines of computation without any place of their own: dtypes, layouts, checks of ops, values that decide.

Some raise eagerly; then the compiled call must raise the same.
"""

# ruff: noqa: E501  (a line is a kind)

from __future__ import annotations

from tests.programs.world.kinds import Kind

COMPUTATIONS = [
    Kind("cat of dtypes", lines=("y = ndgrad.cat([y, y > 0])[:2]", "y = ndgrad.cat([y * 1j, y > 0]).real[:2]", "y = ndgrad.cat([y.detach(), ndgrad.tensor([1, 2])])[1:3]", "y = ndgrad.stack([y, y.detach() > 0]).sum(0)")),
    Kind("small integers and constants", lines=("y = y * (ndgrad.tensor([1, 200], dtype=ndgrad.uint8) < 256)", "y = y * (ndgrad.tensor([1, 200], dtype=ndgrad.uint8) != -1)", "y = y + (ndgrad.tensor([1, 2], dtype=ndgrad.int32) < 2**40)",
         "y = y + (x.detach().to(ndgrad.int8) + 100)", "y = y * (x.detach().to(ndgrad.int8) > 300)")),
    Kind("in-place op of another dtype", lines=("c = ndgrad.zeros(2, dtype=ndgrad.int64); c += y.detach(); y = y + c", "c = ndgrad.zeros(2); c += y.detach() * 1j; y = y + c", "c = ndgrad.ones(2, dtype=ndgrad.int64); c.div_(2); y = y + c",
         "c = ndgrad.ones(2, dtype=ndgrad.int64); c.sigmoid_(); y = y + c", "c = ndgrad.ones(2); c += y.detach().double(); y = y + c", "c = ndgrad.ones(2, dtype=ndgrad.int64); c.pow_(0.5); y = y + c", "c = ndgrad.zeros(2, dtype=ndgrad.bool); c |= y.detach() > 0; y = y + c")),
    Kind("in-place op on a leaf", lines=("w += 1", "w.mul_(2.0)", "w[0] = 1.0", "w.detach().add_(0.0); y = y + w")),
    Kind("shapes that do not fit", lines=("y = y + ndgrad.ones(3)", "y = y @ ndgrad.ones(3)", "y = y.view(5)", "y = y[5]", "y = ndgrad.cat([y, ndgrad.ones(1, 1)])", "y = y.sum(dim=4)")),
    Kind("values that are checked", lines=("y = nn.functional.one_hot(x.detach().abs().long(), 2).sum() + y", "y = y + ndgrad.tensor([1.0, 2.0])[x.detach().long()]", "y = ndgrad.bernoulli(x.detach()) + y")),
    Kind("layout of a result", lines=("y = y.reshape(2, 1).T[0]", "y = y.expand(3, 2)[1]", "y = ndgrad.stack([y, y]).T[0]", "y = y.flip(0)", "y = ndgrad.stack([y, y, y], 1)[:, 1]", "y = y.reshape(1, -1).expand(2, -1).T.reshape(-1)[:2]")),
    Kind("write through a view", lines=("v = y * 1.0; u = v.view(-1); u[0] = 5.0; y = v + u", "v = ndgrad.stack([y, y]).T; u = v.reshape(-1); u[0] = 5.0; y = v.sum(1)", "v = y * 1.0; v[:1] += v[1:]; y = v", "v = ndgrad.zeros(2, 2); v[0] = y; v.T[0] += 1; y = v.sum(0)")),
    Kind("decision by values", lines=("y = y * 2 if y.sum() > 0 else y - 1", "y = y * 2 if (y > 0).all() else y - 1", "while 4 < y.abs().sum() < 1e30: y = y / 2", "y = y / y.sum() if y.sum() != 0 else y", "y = y * 2 if y.sum().item() > 1 else y")),
    Kind("shape by values", lines=("y = y * (y > 0).nonzero().shape[0]", "y = y + y[y > 0].sum()", "y = y + ndgrad.unique(x.detach()).numel()", "y = y + y.detach().argmax()")),
    Kind("number read and used", lines=("y = y / y.abs().sum().item()", "y = y * math.sqrt(abs(y.sum().item()))", "y = y + int(y.sum().item())", "y = y * float(y.max())", "y = y + round(y.sum().item())", "y = y * (y.sum().item() ** 2)",
         "n = y.sum().item(); y = y * n + n // 2", "n = y.detach().argmax().item(); y = y * [2.0, 3.0][n]", "y = y * bool(y.sum() > 0)")),
    Kind("type of a number read", lines=("y = y * (2 if type(y.sum().item()) is float else 3)", "y = y * (2 if isinstance(y.sum().item(), float) else 3)", "y = y + len(repr(x.detach()[0].item()))", "y = y + hash(y.detach().sum().item() > 0)")),
    Kind("NumPy of a tensor", lines=("y = y + float(np.sum(y.detach().numpy()))", "y = y + ndgrad.from_numpy(np.sin(x.detach().numpy()))", "y = y * np.float32(2.0)", "y = y + np.ones(2, dtype=np.float32)", "y = np.float64(2.0) * y")),
    Kind("division by zero", lines=("y = y / 0", "y = y / (y - y)", "y = (y * 0).log()", "y = y // 0", "y = x.detach().long() // 0 + y", "y = y % 0")),
    Kind("error of a NumPy scalar", lines=("y = y * float(np.isinf(np.float32(1.0) / np.float32(0.0)))", "y = y + float(np.int8(-128) - np.int8(1))", "y = y * bool(np.log(np.zeros(2))[0] < 0)", "y = y + float(np.isnan(np.sqrt(np.float64(-1.0))))",
         "y = y + float(np.float32(3e38) * np.float32(2.0) > 0)"), also=("warnings.simplefilter('default')", "warnings.simplefilter('always')", "warnings.simplefilter('ignore')", "np.seterr(all='ignore')", "np.seterr(all='warn')")),
    Kind("dtype of a number", lines=("y = y + 1j", "y = x.detach().long() * 1.5 + y", "y = x.detach().long() / 2 + y", "y = (x.detach() > 0) + 1 + y", "y = y * True", "y = y + x.detach().to(ndgrad.float16)", "y = y.double() + y.detach()")),
    Kind("detach and no_grad", lines=("y = y.detach() + y * 2", "with ndgrad.no_grad(): z = y * 2\ny = y + z", "y = y * w.detach()", "y = y.detach().requires_grad_()", "with ndgrad.inference_mode(): z = x * 2\ny = y + x")),
    Kind("gradient inside", lines=("y = y + ndgrad.func.grad(lambda v: (v * v).sum())(x.detach().float())", "y = y + ndgrad.func.jvp(ndgrad.sin, (x.detach().float(),), (ndgrad.ones_like(x.detach().float()),))[1]", "y = y + ndgrad.func.vmap(lambda v: v * 2)(x)")),
    Kind("several results", lines=("y, _ = ndgrad.sort(y)", "y = ndgrad.max(ndgrad.stack([y, y * 2]), 0).values", "a, b = y.split(1); y = y + a * b", "y = sum(y.unbind())+ y", "u, *v = y; y = y + u")),
    Kind("comprehensions", lines=("y = sum([y * i for i in range(3)])", "y = ndgrad.stack([v * 2 for v in y])", "y = {i: y * i for i in range(2)}[1] + y", "y = max([y.sum() * i for i in range(1, 3)], key=lambda v: v.shape) + y")),
    Kind("assertion", lines=("assert y.shape[0] == 2, y.shape", "assert (y == y).all()", "assert x.dtype is ndgrad.float32, str(x.dtype)", "assert y.sum() < 1e9, 'large'")),
    Kind("print of a tensor", lines=("print(y.detach())", "print(x)", "str(y)", "f'{y.sum():.2f}'", "print(f'{y.detach().sum().item():.3f}')")),
    Kind("result's own methods", lines=("y = y.clone(); y.requires_grad_(y.requires_grad)", "y = y.contiguous()", "y = y.to(x.dtype)", "y = y.type_as(x)", "y = y.new_ones(2) + y", "y = ndgrad.zeros_like(y) + y", "y = y.item() if y.numel() == 1 else y")),
    Kind("module made inside", lines=("m = nn.Tanh(); y = m(y)", "m = nn.Linear(2, 2); ndgrad.nn.init.ones_(m.weight); ndgrad.nn.init.zeros_(m.bias); y = m(y)", "p = nn.Parameter(ndgrad.ones(2)); y = y * p")),
    Kind("generator of tensors", lines=("def rows():\n    for i in range(2): yield y * i\ny = sum(rows())", "y = sum(v for v in (y, y * 2))", "it = iter([y, y * 2]); y = next(it) + next(it)")),
    Kind("inner function and class", lines=("def inner(v, k=2.0): return v * k\ny = inner(y)", "class P:\n    k = 3.0\ny = y * P.k", "y = (lambda v: v * 2)(y)", "y = functools.partial(ndgrad.mul, 2.0)(y)" if False else "y = functools.reduce(ndgrad.add, [y, y, y])")),
    Kind("try and finally", lines=("try:\n    y = y * 2\nfinally:\n    y = y + 1", "try:\n    y = y + ndgrad.ones(3)\nexcept Exception as error:\n    y = y * len(type(error).__name__)", "try:\n    raise KeyError('a')\nexcept KeyError:\n    y = y * 3",
         "with contextlib.suppress(RuntimeError): y = y + ndgrad.ones(5)", "try:\n    y = y.sum(dim=9)\nexcept IndexError as error:\n    y = y + len(str(error))")),
]  # fmt: skip
