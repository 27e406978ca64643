"""Shape functions beside torch's: values, views, names of nodes, gradients, writes through views, kinds of errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import ndgrad

pytestmark = pytest.mark.usefixtures("float64_torch")

LIBRARIES = {"torch": torch, "ndgrad": ndgrad}
A = np.random.default_rng(3).standard_normal((4, 6, 3))


def array(t):
    return t.detach().resolve_conj().numpy() if isinstance(t, torch.Tensor) else np.asarray(t.detach().numpy())


def as_tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def outcome(lib, program, *arrays):
    """Return the outcome of a program in a library: facts about its results, their values, and gradients of a weighted sum."""
    leaves = [lib.tensor(a, requires_grad=a.dtype.kind in "fc") for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outs = as_tuple(program(lib, *(x * 1.0 if x.requires_grad else x for x in leaves)))
        except Exception as error:
            return type(error).__name__
    facts = [(tuple(o.shape), str(o.dtype).split(".")[-1], o._is_view(), o.output_nr, o.requires_grad) for o in outs]
    names = [o.grad_fn.name() if o.grad_fn is not None else None for o in outs]
    values = [array(o) for o in outs]
    total = None
    for number, o in enumerate(outs):
        if o.requires_grad:
            weights = np.cos(np.arange(o.numel()) + number).reshape(tuple(o.shape))
            term = (o * lib.tensor(weights)).sum()
            term = term.real if "complex" in str(term.dtype) else term
            total = term if total is None else total + term
    wanted = [x for x in leaves if x.requires_grad]
    grads = [] if total is None else lib.autograd.grad(total, wanted, allow_unused=True)
    return facts, names, values, [None if g is None else array(g) for g in grads]


def assert_same(program, *arrays, names=True):
    ours, theirs = outcome(ndgrad, program, *arrays), outcome(torch, program, *arrays)
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert not isinstance(ours, str), f"ours raised {ours}"
    assert ours[0] == theirs[0]
    if names:
        assert ours[1] == theirs[1]
    for mine, its in zip(ours[2] + ours[3], theirs[2] + theirs[3], strict=True):
        assert (mine is None) == (its is None)
        if mine is not None:
            np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-12)


# ----- one tensor ------------------------------------------------------------------------------------------------------

PROGRAMS = {
    "view": lambda lib, x: x.view(24, 3),
    "view tuple": lambda lib, x: x.view((2, -1)),
    "view same": lambda lib, x: x.view(4, 6, 3),
    "view size keyword": lambda lib, x: x.view(size=(24, 3)),
    "view of permuted": lambda lib, x: x.permute(1, 0, 2).view(6, 2, 2, 3),
    "view refused": lambda lib, x: x.permute(1, 0, 2).view(24, 3),
    "view refused narrow": lambda lib, x: x.narrow(1, 0, 5).view(20, 3),
    "view wrong size": lambda lib, x: x.view(5),
    "view two unknown": lambda lib, x: x.view(-1, -1),
    "view nothing": lambda lib, x: x.view(),
    "view expanded": lambda lib, x: x.unsqueeze(0).expand(2, 4, 6, 3).view(2, 24, 3),
    "view expanded refused": lambda lib, x: x.unsqueeze(0).expand(2, 4, 6, 3).view(48, 3),
    "view_as": lambda lib, x: x.view_as(x.flatten()),
    "reshape": lambda lib, x: x.reshape(24, -1),
    "reshape copy": lambda lib, x: x.permute(1, 0, 2).reshape(24, 3),
    "reshape function": lambda lib, x: lib.reshape(x, (72,)),
    "reshape keyword": lambda lib, x: x.reshape(shape=(72,)),
    "reshape nothing": lambda lib, x: x.reshape(),
    "reshape empty unknown": lambda lib, x: x.narrow(0, 0, 0).reshape(-1, 0),
    "reshape empty": lambda lib, x: x.narrow(0, 0, 0).reshape(-1, 3),
    "reshape_as": lambda lib, x: x.reshape_as(x.flatten()),
    "transpose": lambda lib, x: x.transpose(0, -1),
    "transpose same": lambda lib, x: x.transpose(1, 1),
    "transpose one dim": lambda lib, x: x.transpose(1),
    "transpose out of range": lambda lib, x: x.transpose(0, 3),
    "transpose 0-d": lambda lib, x: x.sum().transpose(0, -1),
    "swapaxes": lambda lib, x: lib.swapaxes(x, 0, 1),
    "swapdims": lambda lib, x: x.swapdims(2, 0),
    "t": lambda lib, x: x[0].t(),
    "t vector": lambda lib, x: x[0, 0].t(),
    "t too many": lambda lib, x: x.t(),
    "permute": lambda lib, x: x.permute(2, 0, -2),
    "permute tuple": lambda lib, x: lib.permute(x, (2, 0, 1)),
    "permute keyword": lambda lib, x: lib.permute(x, dims=(2, 0, 1)),
    "permute short": lambda lib, x: x.permute(0, 1),
    "permute twice": lambda lib, x: x.permute(0, 1, 1),
    "permute out of range": lambda lib, x: x.permute(0, 1, 3),
    "permute nothing": lambda lib, x: x.permute(),
    "permute 0-d": lambda lib, x: x.sum().permute(()),
    "movedim": lambda lib, x: x.movedim(0, 2),
    "movedim tuples": lambda lib, x: lib.movedim(x, (0, 2), (1, 0)),
    "movedim negative": lambda lib, x: x.moveaxis(-1, 0),
    "movedim repeated": lambda lib, x: x.movedim((0, 1), (1, 1)),
    "movedim lengths": lambda lib, x: x.movedim((0, 1), (1,)),
    "movedim mixed": lambda lib, x: x.movedim((0, 1), 1),
    "movedim 0-d": lambda lib, x: x.sum().movedim(0, 0),
    "adjoint": lambda lib, x: x.adjoint(),
    "adjoint vector": lambda lib, x: x[0, 0].adjoint(),
    "expand": lambda lib, x: x.expand(2, -1, 6, 3),
    "expand stretch": lambda lib, x: x.narrow(0, 0, 1).expand(5, 6, 3),
    "expand to nothing": lambda lib, x: x.narrow(0, 0, 1).expand(0, 6, 3),
    "expand same": lambda lib, x: x.expand(4, 6, 3),
    "expand keyword": lambda lib, x: x.expand(size=(2, 4, 6, 3)),
    "expand leading unknown": lambda lib, x: x.expand(-1, 4, 6, 3),
    "expand short": lambda lib, x: x.expand(6, 3),
    "expand wrong": lambda lib, x: x.expand(4, 5, 3),
    "expand negative": lambda lib, x: x.expand(-2, 4, 6, 3),
    "expand_as": lambda lib, x: x[0].expand_as(x),
    "broadcast_to": lambda lib, x: lib.broadcast_to(x, (2, 4, 6, 3)),
    "broadcast_tensors": lambda lib, x: lib.broadcast_tensors(x, x[0, :, :1]),
    "broadcast_tensors wrong": lambda lib, x: lib.broadcast_tensors(x, x[0, :2]),
    "squeeze": lambda lib, x: x.narrow(0, 0, 1).squeeze(),
    "squeeze dim": lambda lib, x: x.narrow(1, 0, 1).squeeze(1),
    "squeeze dim not one": lambda lib, x: x.squeeze(1),
    "squeeze dims": lambda lib, x: lib.squeeze(x.narrow(1, 0, 1), (1, 2)),
    "squeeze no dims": lambda lib, x: x.narrow(1, 0, 1).squeeze(()),
    "squeeze twice": lambda lib, x: x.squeeze((0, 0)),
    "squeeze out of range": lambda lib, x: x.squeeze(3),
    "squeeze 0-d": lambda lib, x: x.sum().squeeze(0),
    "unsqueeze": lambda lib, x: x.unsqueeze(-1),
    "unsqueeze function": lambda lib, x: lib.unsqueeze(x, 1),
    "unsqueeze out of range": lambda lib, x: x.unsqueeze(4),
    "flatten": lambda lib, x: x.flatten(),
    "flatten some": lambda lib, x: x.flatten(1, 2),
    "flatten one": lambda lib, x: x[0, 0].flatten(),
    "flatten copy": lambda lib, x: x.permute(1, 0, 2).flatten(),
    "flatten order": lambda lib, x: x.flatten(1, 0),
    "flatten 0-d": lambda lib, x: x.sum().flatten(),
    "unflatten": lambda lib, x: x.unflatten(1, (2, -1)),
    "unflatten wrong": lambda lib, x: x.unflatten(1, (2, 4)),
    "unflatten empty": lambda lib, x: x.unflatten(1, ()),
    "ravel": lambda lib, x: x.ravel(),
    "ravel copy": lambda lib, x: x.permute(1, 0, 2).ravel(),
    "contiguous": lambda lib, x: x.permute(1, 0, 2).contiguous(),
    "contiguous already": lambda lib, x: x.contiguous(),
    "narrow": lambda lib, x: x.narrow(1, 2, 3),
    "narrow negative": lambda lib, x: x.narrow(1, -2, 1),
    "narrow tensor": lambda lib, x: lib.narrow(x, 0, lib.tensor(1), 1),
    "narrow long": lambda lib, x: x.narrow(1, 4, 3),
    "narrow start": lambda lib, x: x.narrow(1, 7, 0),
    "narrow length": lambda lib, x: x.narrow(1, 1, -1),
    "narrow 0-d": lambda lib, x: x.sum().narrow(0, 0, 1),
    "select": lambda lib, x: x.select(1, -1),
    "select vector": lambda lib, x: x[0, 0].select(0, 1),
    "select out of range": lambda lib, x: x.select(1, 6),
    "select 0-d": lambda lib, x: x.sum().select(0, 0),
    "split": lambda lib, x: x.split(4, 1),
    "split list": lambda lib, x: x.split([1, 2, 3], dim=1),
    "split keyword": lambda lib, x: x.split(split_size=2, dim=1),
    "split no size": lambda lib, x: x.split(),
    "split function": lambda lib, x: lib.split(x, 2),
    "split_with_sizes": lambda lib, x: lib.split_with_sizes(x, (1, 3)),
    "split zero": lambda lib, x: x.split(0),
    "split negative": lambda lib, x: x.split(-1),
    "split short": lambda lib, x: x.split([1, 1]),
    "split negative entry": lambda lib, x: x.split([5, -1]),
    "split nothing": lambda lib, x: x.narrow(0, 0, 0).split(2),
    "split nothing zero": lambda lib, x: x.narrow(0, 0, 0).split(0),
    "split 0-d": lambda lib, x: x.sum().split(1),
    "chunk": lambda lib, x: x.chunk(4, 1),
    "chunk few": lambda lib, x: lib.chunk(x, 9),
    "chunk nothing": lambda lib, x: x.narrow(0, 0, 0).chunk(2),
    "chunk none": lambda lib, x: x.chunk(0),
    "chunk 0-d": lambda lib, x: x.sum().chunk(1),
    "tensor_split": lambda lib, x: x.tensor_split(4, 1),
    "tensor_split indices": lambda lib, x: lib.tensor_split(x, (1, 4), dim=1),
    "tensor_split back": lambda lib, x: x.tensor_split((4, 1), 1),
    "tensor_split far": lambda lib, x: x.tensor_split((-2, 9), 1),
    "tensor_split tensor": lambda lib, x: x.tensor_split(lib.tensor([1, 2]), 1),
    "tensor_split number tensor": lambda lib, x: x.tensor_split(lib.tensor(2), 1),
    "tensor_split none": lambda lib, x: x.tensor_split(0),
    "hsplit": lambda lib, x: x.hsplit(2),
    "hsplit vector": lambda lib, x: x[0, :, 0].hsplit([1, 2]),
    "hsplit uneven": lambda lib, x: x.hsplit(4),
    "vsplit": lambda lib, x: x.vsplit((1,)),
    "vsplit vector": lambda lib, x: x[0, 0].vsplit(1),
    "dsplit": lambda lib, x: lib.dsplit(x, 3),
    "dsplit matrix": lambda lib, x: x[0].dsplit(1),
    "unbind": lambda lib, x: x.unbind(1),
    "unbind one": lambda lib, x: x.unbind(1)[4],
    "unbind nothing": lambda lib, x: (x, *x.narrow(0, 0, 0).unbind(0)),
    "unbind 0-d": lambda lib, x: x.sum().unbind(),
    "unbind split": lambda lib, x: x.unbind(0)[1].split(2),
    "diagonal": lambda lib, x: x.diagonal(),
    "diagonal dims": lambda lib, x: x.diagonal(1, 1, -1),
    "diagonal keyword": lambda lib, x: lib.diagonal(x, offset=-1, dim1=0, dim2=2),
    "diagonal outside": lambda lib, x: x.diagonal(9),
    "diagonal same dims": lambda lib, x: x.diagonal(0, 1, 1),
    "diagonal vector": lambda lib, x: x[0, 0].diagonal(),
    "unfold": lambda lib, x: x.unfold(1, 3, 2),
    "unfold overlapping": lambda lib, x: x.unfold(0, 3, 1),
    "unfold twice": lambda lib, x: x.unfold(0, 2, 1).unfold(1, 2, 2),
    "unfold zero": lambda lib, x: x.unfold(0, 0, 1),
    "unfold 0-d": lambda lib, x: x.sum().unfold(0, 1, 1),
    "unfold large": lambda lib, x: x.unfold(0, 5, 1),
    "unfold negative": lambda lib, x: x.unfold(0, -1, 1),
    "unfold step": lambda lib, x: x.unfold(0, 2, 0),
    "as_strided": lambda lib, x: x.as_strided((3, 4), (5, 2)),
    "as_strided offset": lambda lib, x: lib.as_strided(x, (3, 4), (5, 2), 7),
    "as_strided overlapping": lambda lib, x: x.as_strided((4, 4), (2, 2)),
    "as_strided of view": lambda lib, x: x[1].as_strided((2, 3), (3, 1)),
    "as_strided of permuted": lambda lib, x: x.permute(2, 0, 1).as_strided((2, 3), (3, 1), 1),
    "as_strided of expanded": lambda lib, x: x[0, 0].expand(2, 3).as_strided((2, 3), (0, 1)),
    "as_strided far": lambda lib, x: x.as_strided((73,), (1,)),
    "as_strided negative": lambda lib, x: x.as_strided((2,), (-1,)),
    "as_strided lengths": lambda lib, x: x.as_strided((2,), (1, 1)),
    "as_strided offset negative": lambda lib, x: x.as_strided((2,), (1,), -1),
    "view_as_complex": lambda lib, x: lib.view_as_complex(x.permute(0, 2, 1).reshape(4, 9, 2)),
    "view_as_complex size": lambda lib, x: lib.view_as_complex(x),
    "view_as_complex stride": lambda lib, x: lib.view_as_complex(x.permute(0, 2, 1)[:, :, ::3]),
    "view_as_complex 0-d": lambda lib, x: lib.view_as_complex(x.sum()),
    "view_as_real real": lambda lib, x: lib.view_as_real(x),
    "view dtype": lambda lib, x: x.detach().view(lib.int64),
    "view dtype smaller": lambda lib, x: x.detach().view(lib.float32),
    "view dtype odd": lambda lib, x: x.view(lib.complex128),
    "view dtype larger": lambda lib, x: x.detach().view(12, 6).view(lib.complex128),
    "view dtype stride": lambda lib, x: x.permute(2, 1, 0).view(lib.float32),
    "view dtype 0-d": lambda lib, x: x.sum().view(lib.float32),
    "flip": lambda lib, x: x.flip(0, -1),
    "flip tuple": lambda lib, x: lib.flip(x, (1,)),
    "flip none": lambda lib, x: x.flip(()),
    "flip twice": lambda lib, x: x.flip(0, 0),
    "flip nothing": lambda lib, x: x.flip(),
    "fliplr": lambda lib, x: lib.fliplr(x),
    "fliplr vector": lambda lib, x: x[0, 0].fliplr(),
    "flipud": lambda lib, x: x.flipud(),
    "flipud 0-d": lambda lib, x: x.sum().flipud(),
    "rot90": lambda lib, x: x.rot90(),
    "rot90 dims": lambda lib, x: lib.rot90(x, 3, (2, 0)),
    "rot90 none": lambda lib, x: x.rot90(0),
    "rot90 same": lambda lib, x: x.rot90(1, (1, 1)),
    "rot90 one": lambda lib, x: x.rot90(1, (0,)),
    "rot90 vector": lambda lib, x: x[0, 0].rot90(),
    "roll": lambda lib, x: x.roll(5),
    "roll dim": lambda lib, x: x.roll(-1, 1),
    "roll dims": lambda lib, x: lib.roll(x, (1, 2), (0, 2)),
    "roll same dim": lambda lib, x: x.roll((1, 1), (0, 0)),
    "roll lengths": lambda lib, x: x.roll((1, 2), 0),
    "roll no dims": lambda lib, x: x.roll((1, 2)),
    "roll nothing": lambda lib, x: x.roll(()),
    "roll flat 0-d": lambda lib, x: x.sum().roll(1),
    "roll 0-d": lambda lib, x: x.sum().roll(1, 0),
    "repeat": lambda lib, x: x.repeat(1, 2, 3),
    "repeat more": lambda lib, x: x[0].repeat((2, 1, 2)),
    "repeat zero": lambda lib, x: x.repeat(1, 0, 1),
    "repeat short": lambda lib, x: x.repeat(2),
    "repeat negative": lambda lib, x: x.repeat(1, 1, -1),
    "tile": lambda lib, x: x.tile(2),
    "tile many": lambda lib, x: lib.tile(x, (2, 1, 1, 2)),
    "repeat_interleave": lambda lib, x: x.repeat_interleave(2),
    "repeat_interleave dim": lambda lib, x: lib.repeat_interleave(x, 3, dim=1),
    "repeat_interleave tensor": lambda lib, x: x.repeat_interleave(lib.tensor([1, 0, 2, 3]), dim=0),
    "repeat_interleave tensor one": lambda lib, x: x.repeat_interleave(lib.tensor([2]), dim=0),
    "repeat_interleave tensor 0-d": lambda lib, x: x.repeat_interleave(lib.tensor(2), 1),
    "repeat_interleave tensor flat": lambda lib, x: x[0, 0].repeat_interleave(lib.tensor([1, 2, 0])),
    "repeat_interleave counts": lambda lib, x: (x, lib.repeat_interleave(lib.tensor([2, 0, 1]))),
    "repeat_interleave zero": lambda lib, x: x.repeat_interleave(0, 1),
    "repeat_interleave wrong": lambda lib, x: x.repeat_interleave(lib.tensor([1, 2]), dim=0),
    "repeat_interleave negative": lambda lib, x: x.repeat_interleave(-1),
    "repeat_interleave negative tensor": lambda lib, x: x.repeat_interleave(lib.tensor([1, -1, 1, 1]), 0),
    "repeat_interleave float": lambda lib, x: x.repeat_interleave(lib.tensor([1.0, 1, 1, 1]), 0),
    "repeat_interleave list": lambda lib, x: x.repeat_interleave([1, 1, 1, 1], 0),
    "repeat_interleave size": lambda lib, x: x.repeat_interleave(2, output_size=7),
    "repeat_interleave 0-d": lambda lib, x: x.sum().repeat_interleave(2),
    "repeat_interleave 0-d dim": lambda lib, x: x.sum().repeat_interleave(2, 0),
    "tril": lambda lib, x: x.tril(),
    "triu": lambda lib, x: lib.triu(x, 1),
    "tril diagonal": lambda lib, x: x.tril(diagonal=-1),
    "tril vector": lambda lib, x: x[0, 0].tril(),
    "diag": lambda lib, x: x[0, 0].diag(1),
    "diag_embed": lambda lib, x: x.diag_embed(),
    "diag_embed dims": lambda lib, x: lib.diag_embed(x, 1, 0, 2),
    "diag_embed same": lambda lib, x: x.diag_embed(0, 1, 1),
    "diag_embed 0-d": lambda lib, x: x.sum().diag_embed(),
    "diag too many": lambda lib, x: x.diag(),
    "diag 0-d": lambda lib, x: x.sum().diag(),
    "diagflat": lambda lib, x: x[0].diagflat(-1),
    "atleast_1d": lambda lib, x: lib.atleast_1d(x.sum()),
    "atleast_2d": lambda lib, x: lib.atleast_2d(x[0, 0], x[0]),
    "atleast_3d": lambda lib, x: lib.atleast_3d([x[0, 0], x[0], x]),
}  # fmt: skip

# Names of nodes that follow from how torch composes these functions internally.
OTHER_NAMES = {"atleast_1d", "atleast_2d", "atleast_3d", "repeat_interleave 0-d", "unfold 0-d", "flatten one", "roll flat 0-d"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_function_of_one_tensor(name):
    assert_same(PROGRAMS[name], A, names=name not in OTHER_NAMES)


def test_diagonal_of_a_matrix_by_diag():
    # torch calls the node DiagonalBackward0_copy, a name made for its copying twin of diagonal
    assert_same(lambda lib, x: x[0].diag(), A, names=False)


Z = A[..., :2] + 1j * A[..., 1:]


@pytest.mark.parametrize(
    "program",
    [
        lambda lib, z: lib.view_as_real(z),
        lambda lib, z: lib.view_as_real(z.permute(2, 0, 1)),
        lambda lib, z: lib.view_as_complex(lib.view_as_real(z)),
        lambda lib, z: lib.view_as_complex(z),
        lambda lib, z: z.detach().view(lib.float64),
        lambda lib, z: z.permute(1, 2, 0).reshape(6, 8),
        lambda lib, z: lib.cat([z, z * 2], -1),
        lambda lib, z: z.unfold(0, 2, 1),
        lambda lib, z: z.as_strided((2, 2), (1, 3)),
        lambda lib, z: z.diagonal(0, 0, 2),
        lambda lib, z: z.unbind(2),
        lambda lib, z: z.tril(),
        lambda lib, z: z.repeat(2, 1, 1),
    ],
)
def test_function_of_a_complex_tensor(program):
    assert_same(program, Z)


def test_adjoint_of_complex_matrices():
    assert_same(lambda lib, z: z.adjoint() * 1.0, Z)


# ----- several tensors -------------------------------------------------------------------------------------------------

B = A[:, :2] * 2
COUNTS = np.arange(4)

JOINS = {
    "cat": (lambda lib, a, b: lib.cat([a, b], 1), A, B),
    "cat tuple": (lambda lib, a, b: lib.cat((a, b, a), dim=-2), A, B),
    "concat": (lambda lib, a, b: lib.concat([a, b], 1), A, B),
    "concatenate": (lambda lib, a, b: lib.concatenate([a, b], axis=1), A, B),
    "cat one": (lambda lib, a: lib.cat([a]), A),
    "cat mixed dtypes": (lambda lib, a, n: lib.cat([a[:, 0, 0], n]), A, COUNTS),
    "cat empty vector": (lambda lib, a: lib.cat([a, a[0, 0, :0]], 1), A),
    "cat nothing": (lambda lib, a: lib.cat([]), A),
    "cat sizes": (lambda lib, a, b: lib.cat([a, b], 0), A, B),
    "cat ranks": (lambda lib, a: lib.cat([a, a[0]]), A),
    "cat 0-d": (lambda lib, a: lib.cat([a.sum(), a.sum()]), A),
    "cat tensor": (lambda lib, a: lib.cat(a), A),
    "cat number": (lambda lib, a: lib.cat([a, 3.0]), A),
    "cat dim": (lambda lib, a: lib.cat([a, a], 3), A),
    "stack": (lambda lib, a: lib.stack([a, a * 2]), A),
    "stack last": (lambda lib, a: lib.stack([a, a * 2], dim=-1), A),
    "stack 0-d": (lambda lib, a: lib.stack([a.sum(), a[0].sum()]), A),
    "stack sizes": (lambda lib, a, b: lib.stack([a, b]), A, B),
    "stack nothing": (lambda lib, a: lib.stack([]), A),
    "stack dim": (lambda lib, a: lib.stack([a, a], 4), A),
    "stack tensor": (lambda lib, a: lib.stack(a), A),
    "hstack": (lambda lib, a, b: lib.hstack([a, b]), A, B),
    "hstack vectors": (lambda lib, a: lib.hstack((a[0, 0], a[1, 1])), A),
    "hstack 0-d": (lambda lib, a: lib.hstack([a.sum(), a.sum()]), A),
    "vstack": (lambda lib, a: lib.vstack([a[0], a[0, 0]]), A),
    "row_stack": (lambda lib, a: lib.row_stack([a[0, 0], a[0, 1]]), A),
    "dstack": (lambda lib, a: lib.dstack([a[0], a[1]]), A),
    "dstack vectors": (lambda lib, a: lib.dstack([a[0, 0], a[1, 0]]), A),
    "column_stack": (lambda lib, a: lib.column_stack([a[0, :, 0], a[0], a[1]]), A),
    "column_stack 0-d": (lambda lib, a: lib.column_stack([a.sum(), a.sum()]), A),
    "block_diag": (lambda lib, a: lib.block_diag(a[0], a[0, 0], a.sum(), a[:, :, 0]), A),
    "block_diag nothing": (lambda lib, a: (a, lib.block_diag()), A),
    "block_diag cube": (lambda lib, a: lib.block_diag(a), A),
    "meshgrid": (lambda lib, a: lib.meshgrid(a[0, 0], a[0, :, 0], indexing="ij"), A),
    "meshgrid xy": (lambda lib, a: lib.meshgrid(a[0, 0], a[0, :, 0], a[:, 0, 0], indexing="xy"), A),
    "meshgrid list": (lambda lib, a: lib.meshgrid([a[0, 0], a[0, :, 0]]), A),
    "meshgrid 0-d": (lambda lib, a: lib.meshgrid(a[0, 0], a.sum(), indexing="ij"), A),
    "meshgrid matrix": (lambda lib, a: lib.meshgrid(a[0], a[0], indexing="ij"), A),
    "meshgrid indexing": (lambda lib, a: lib.meshgrid(a[0, 0], indexing="yx"), A),
    "meshgrid dtypes": (lambda lib, a, n: lib.meshgrid(a[0, 0], n, indexing="ij"), A, COUNTS),
    "meshgrid nothing": (lambda lib, a: lib.meshgrid(), A),
    "cartesian_prod": (lambda lib, a: lib.cartesian_prod(a[0, 0], a[0, :2, 0], a[:, 0, 0]), A),
    "cartesian_prod one": (lambda lib, a: lib.cartesian_prod(a[0, 0]), A),
}


@pytest.mark.parametrize("name", JOINS)
def test_function_of_several_tensors(name):
    assert_same(*JOINS[name], names=name not in {"hstack 0-d", "cat one", "column_stack 0-d", "cartesian_prod one"})


@pytest.mark.parametrize("offset", [-4, -1, 0, 2, 5])
@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (0, 3), (3, 0)])
def test_indices_of_triangles(shape, offset):
    for name in ("tril_indices", "triu_indices"):
        ours, theirs = getattr(ndgrad, name)(*shape, offset), getattr(torch, name)(*shape, offset)
        np.testing.assert_array_equal(array(ours), array(theirs))
    with pytest.raises(RuntimeError):
        ndgrad.tril_indices(-1, 2)


# ----- writes through views ----------------------------------------------------------------------------------------------

VIEWS = {
    "view": lambda y: y.view(24, 3),
    "view of permuted": lambda y: y.permute(2, 0, 1).view(3, 2, 2, 6),
    "flatten of transposed twice": lambda y: y.transpose(0, 2).transpose(0, 2).flatten(),
    "reshape copy": lambda y: y.permute(1, 0, 2).reshape(24, 3),
    "transpose": lambda y: y.transpose(0, 2),
    "t": lambda y: y[0].t(),
    "squeeze": lambda y: y.narrow(1, 2, 1).squeeze(),
    "squeeze dim": lambda y: y.narrow(1, 2, 1).squeeze(1),
    "unsqueeze": lambda y: y.unsqueeze(1),
    "expand same": lambda y: y.expand(1, 4, 6, 3),
    "expand": lambda y: y.expand(2, 4, 6, 3),
    "select of expand": lambda y: y.expand(2, 4, 6, 3).select(0, 1),
    "narrow": lambda y: y.narrow(2, 1, 2),
    "select": lambda y: y.select(1, 3),
    "element": lambda y: y.select(0, 1).select(0, 2).select(0, 0),
    "split": lambda y: y.split(2)[1],
    "split one": lambda y: y.split(4)[0],
    "chunk": lambda y: y.chunk(3, 1)[0],
    "unbind": lambda y: y.unbind(2)[1],
    "view of unbind": lambda y: y.unbind(2)[1].view(24),
    "tensor_split": lambda y: y.tensor_split(3, 1)[2],
    "diagonal": lambda y: y.diagonal(0, 1, 2),
    "diagonal of narrow": lambda y: y.narrow(1, 1, 3).diagonal(-1, 1, 2),
    "unfold": lambda y: y.unfold(1, 2, 3),
    "as_strided": lambda y: y.as_strided((2, 3), (7, 2), 1),
    "as_strided of narrow": lambda y: y.narrow(0, 1, 2).as_strided((2, 3), (3, 1), 20),
    "flip": lambda y: y.flip(0),
    "movedim": lambda y: y.movedim(0, 1),
    "unflatten": lambda y: y.unflatten(1, (2, 3)),
}
WRITES = {
    "multiply": lambda y, v: v.mul_(2.0),
    "add": lambda y, v: v.add_(y.sum()),
    "twice": lambda y, v: v.mul_(v).add_(1.0),
    "base": lambda y, v: y.mul_(3.0),
    "both": lambda y, v: (v.mul_(2.0), y.mul_(3.0), v.add_(1.0)),
}


def write_view(lib, view, write, grad_enabled=True):
    x = lib.tensor(A, requires_grad=True)
    y = x * 1.0
    try:
        with lib.set_grad_enabled(grad_enabled):
            v = view(y)
        write(y, v)
        total = (y * y).sum() + (v * lib.tensor(np.sin(np.arange(v.numel())).reshape(tuple(v.shape)))).sum()
        (g,) = lib.autograd.grad(total, x)
    except RuntimeError:
        return "RuntimeError"
    return array(y), array(v), array(g), y._version, v._version


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_write_through_view(view, write):
    ours, theirs = (write_view(lib, VIEWS[view], WRITES[write]) for lib in (ndgrad, torch))
    assert isinstance(ours, str) == isinstance(theirs, str), (ours, theirs)
    if isinstance(ours, str):
        return
    for mine, its in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-12)


@pytest.mark.parametrize("view", VIEWS)
def test_write_through_view_made_without_grad(view):
    ours, theirs = (write_view(lib, VIEWS[view], WRITES["multiply"], grad_enabled=False) for lib in (ndgrad, torch))
    assert isinstance(ours, str) == isinstance(theirs, str), (ours, theirs)


# ----- a tensor's own shape ----------------------------------------------------------------------------------------------

OWN = {
    "transpose_": lambda y: y.transpose_(0, 2),
    "swapaxes_": lambda y: y.swapaxes_(1, 2),
    "swapdims_": lambda y: y.swapdims_(-1, 0),
    "t_": lambda y: y.t_(),
    "squeeze_": lambda y: y.squeeze_(),
    "squeeze_ dim": lambda y: y.squeeze_(1),
    "squeeze_ dims": lambda y: y.squeeze_((0, 1)),
    "unsqueeze_": lambda y: y.unsqueeze_(1),
    "chain": lambda y: y.unsqueeze_(0).transpose_(0, 2).squeeze_(2),
}


def reshaped_in_place(lib, change, start, use):
    x = lib.tensor(A, requires_grad=True)
    y = start(x * 1.0)
    try:
        same = change(y)
        assert same is y
        total = use(lib, y)
        (g,) = lib.autograd.grad(total, x)
    except (RuntimeError, IndexError) as error:
        return type(error).__name__
    return tuple(y.shape), y.grad_fn.name(), y._version, y._is_view(), array(y), array(g)


STARTS = {
    "base": lambda y: y,
    "matrix": lambda y: y[0] * 1.0,
    "thin": lambda y: y.narrow(1, 0, 1) * 1.0,
    "view": lambda y: y.narrow(1, 0, 1),
    "leaf": lambda y: y.detach().requires_grad_(),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("change", OWN)
def test_shape_changed_in_place(change, start):
    def use(lib, y):
        return (y * lib.tensor(np.sin(np.arange(y.numel())).reshape(tuple(y.shape)))).sum()

    ours, theirs = (reshaped_in_place(lib, OWN[change], STARTS[start], use) for lib in (ndgrad, torch))
    assert (ours if isinstance(ours, str) else ours[:4]) == (theirs if isinstance(theirs, str) else theirs[:4])
    if not isinstance(ours, str):
        np.testing.assert_allclose(ours[4], theirs[4])
        np.testing.assert_allclose(ours[5], theirs[5])


def test_write_after_shape_changed_in_place():
    def change(y):
        y.transpose_(0, 2)
        y.mul_(2.0)
        return y

    def use(lib, y):
        return (y * y).sum()

    ours, theirs = (reshaped_in_place(lib, change, STARTS["view"], use) for lib in (ndgrad, torch))
    np.testing.assert_allclose(ours[4], theirs[4])
    np.testing.assert_allclose(ours[5], theirs[5])


def test_value_saved_before_shape_changed_in_place_raises():
    def program(lib):
        x = lib.tensor(A[0, :3], requires_grad=True)
        y = x * 1.0
        z = (y * y).sum()
        y.t_()
        z.backward()

    for lib in (ndgrad, torch):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            program(lib)
