"""Tensor attributes, factories and conversions beside torch's: results, versions, kinds of errors, warnings.

Each line is a program, statements and then an expression, run once with `torch` bound to torch and once to ndgrad.
"""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate

pytestmark = pytest.mark.usefixtures("float64_torch")

LIBRARIES = (torch, ndgrad)


@pytest.fixture(autouse=True)
def seeded_torch():
    torch.manual_seed(0)


def facts(value, lib):
    """Return the facts that must agree: of a tensor its dtype, shape, values and history."""
    if isinstance(value, (tuple, list)):
        return tuple(facts(v, lib) for v in value)
    if isinstance(value, lib.Tensor):
        values = None if value.is_meta else value.detach().numpy().tolist()
        node = None if value.grad_fn is None else value.grad_fn.name()
        return str(value.dtype).split(".")[-1], tuple(value.shape), str(values), value.requires_grad, node
    if isinstance(value, lib.dtype):
        return str(value).split(".")[-1]
    if hasattr(value, "next_functions"):
        return value.name()
    return value if isinstance(value, (bool, int, float, complex, str, type(None))) else type(value).__name__


def outcome(lib, program):
    """The facts of a program's result, or the kind of its error; and whether it warned."""
    scope = {"torch": lib, "np": np, "copy": copy, "pickle": pickle}
    *statements, last = program.split("; ")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for statement in statements:
                exec(statement, scope)
            found = facts(eval(last, scope), lib)
        except Exception as error:
            found = type(error).__name__
    return found, bool(caught)


TENSOR = [
    'x=torch.ones(2,3,requires_grad=True); y=x*2; y.grad',
    'x=torch.ones(2,3,requires_grad=True); x.grad=3; 0',
    'x=torch.ones(2,3,requires_grad=True); x.grad=x; 0',
    'x=torch.ones(2,3,requires_grad=True); x.grad=torch.ones(3); 0',
    'x=torch.ones(2,3,requires_grad=True); x.grad=torch.ones(2,3,dtype=torch.float32); 0',
    "x=torch.ones(2,3,requires_grad=True); x.grad=torch.ones(2,3,device='meta'); 0",
    'x=torch.ones(2,3,requires_grad=True); x.grad=torch.zeros(2,3); x.grad',
    'x=torch.ones(2,3,requires_grad=True); x.grad=torch.zeros(2,3); del x.grad; x.grad',
    'x=torch.ones(2); x.grad=torch.zeros(2); x.grad',
    'x=torch.ones(2,dtype=torch.int64); x.grad=torch.zeros(2,dtype=torch.int64); x.grad',
    'x=torch.ones(2,requires_grad=True); x.grad_dtype',
    'x=torch.ones(2,requires_grad=True); y=x*2; y.grad_dtype',
    'x=torch.ones(2,requires_grad=True); x.grad_dtype=torch.float32; x.grad_dtype',
    'x=torch.ones(2,requires_grad=True); x.grad_dtype=torch.float32; x.grad=torch.ones(2); 0',
    'x=torch.ones(2,requires_grad=True); x.grad_dtype=torch.float32; '
    'x.grad=torch.ones(2,dtype=torch.float32); x.grad_dtype=torch.float64; 0',
    'x=torch.ones(2,requires_grad=True); x.grad_dtype=None; x.grad=torch.ones(2,dtype=torch.float16); x.grad',
    "x=torch.ones(2,requires_grad=True); x.grad_dtype='f'; 0",
    'x=torch.ones(2,requires_grad=True); x.grad_dtype=torch.float32; (x*2).sum().backward(); x.grad',
    'x=torch.ones(2,requires_grad=True); x.grad_dtype=None; (x*2).sum().backward(); x.grad',
    'x=torch.ones(2,requires_grad=True); y=x*2; y.requires_grad=False; 0',
    'x=torch.ones(2,requires_grad=True); y=x*2; y.requires_grad=True; 0',
    'x=torch.ones(2,requires_grad=True); y=x*2; y.requires_grad_()',
    'x=torch.ones(2,requires_grad=True); y=x*2; y.requires_grad_(False)',
    'i=torch.ones(2,dtype=torch.int64); i.requires_grad=True; 0',
    'i=torch.ones(2,dtype=torch.int64); i.requires_grad_()',
    'i=torch.ones(2,dtype=torch.int64); i.requires_grad_(False)',
    'x=torch.ones(2); x.requires_grad=1; 0',
    "x=torch.ones(2); x.requires_grad_('a')",
    'x=torch.ones(2); x.requires_grad_(1)',
    'torch.tensor([1], requires_grad=True)',
    'torch.zeros(1,dtype=torch.int32,requires_grad=True)',
    'torch.ones(2,3,4).T.shape',
    'torch.ones(2).T.shape',
    'torch.ones(()).T.shape',
    'torch.ones(2).mT',
    'torch.ones(()).mT',
    'torch.ones(2,3,4).mT.shape',
    'torch.ones(2,3,4).H',
    'torch.ones(2).H',
    'torch.ones(()).H',
    'torch.ones(2).mH',
    'torch.ones(2).imag',
    'x=torch.ones(2); x.real is x',
    'c=torch.ones(2,dtype=torch.complex128); c.real=torch.tensor([5.,6.]); c',
    'c=torch.ones(2,dtype=torch.complex128); c.imag=2; c',
    'c=torch.ones(2,dtype=torch.complex128); c.real.add_(2); c',
    'c=torch.ones(2,dtype=torch.complex128); c.imag._base is c',
    'x=torch.ones(2); x.imag=2; 0',
    'x=torch.ones(2); x.real=torch.zeros(2); x',
    'x=torch.ones(2); x.volatile',
    'x=torch.ones(2); x.volatile=True; 0',
    'x=torch.ones(2,3,requires_grad=True); v=(x*1)[0]; v.detach_()',
    'x=torch.ones(2,3,requires_grad=True); (x*1).detach_()',
    'x=torch.ones(2,requires_grad=True); x.detach_()',
    'torch.ones(3)[0].detach_()',
    'torch.ones(2,3).item()',
    'torch.ones(0).item()',
    'torch.ones(1,1,requires_grad=True).item()',
    'float(torch.ones(1,requires_grad=True)*1)',
    'int(torch.ones(2))',
    'bool(torch.ones(2))',
    'bool(torch.ones(0))',
    'bool(torch.ones(1,1)*0)',
    'torch.tensor(2).__index__()',
    'torch.tensor(2.).__index__()',
    'torch.tensor([2]).__index__()',
    'torch.tensor(True).__index__()',
    'torch.tensor([2,3]).__index__()',
    'complex(torch.tensor(1.))',
    'float(torch.tensor(1.+2j))',
    'float(torch.tensor(1.+0j))',
    'len(torch.tensor(1.))',
    'iter(torch.tensor(1.))',
    'len(torch.ones(3,2))',
    '[v for v in torch.arange(3)]',
    '1.0 in torch.ones(2,3)',
    'torch.tensor(1.) in torch.ones(2,3)',
    "'a' in torch.ones(2)",
    '[1.] in torch.ones(2)',
    "f'{torch.tensor(1.5):.3f}'",
    "f'{torch.tensor([1.5]):.3f}'",
    "f'{torch.tensor([1.5])}'",
    'list(reversed(torch.arange(3)))',
    'torch.ones(2,requires_grad=True).numpy()',
    'torch.ones(2,requires_grad=True).numpy(force=True)[0]',
    'np.asarray(torch.ones(2,requires_grad=True))',
    'np.asarray(torch.ones(2)).dtype.name',
    'torch.ones(2,3).tolist()',
    'torch.tensor(2.5).tolist()',
    "torch.ones(2).type('abc')",
    "torch.ones(2).type('torch.FloatTensor')",
    'torch.ones(2).type(torch.LongTensor)',
    'torch.ones(2).type(torch.float16)',
    'x=torch.ones(2,requires_grad=True); copy.deepcopy(x*2)',
    'x=torch.ones(2,requires_grad=True); copy.deepcopy(x)',
    'x=torch.ones(2,requires_grad=True); copy.copy(x).data_ptr()==x.data_ptr()',
    'x=torch.ones(2,requires_grad=True); pickle.loads(pickle.dumps(x*2))',
    'x=torch.ones(3,requires_grad=True); x.foo=3; copy.deepcopy(x).foo',
    'x=torch.arange(6.); a,b=copy.deepcopy((x[1:],x[:3])); a.add_(10); b',
    'x=torch.ones(2,requires_grad=True); x.grad=torch.ones(2); d=copy.deepcopy(x); d.grad.add_(1); x.grad',
    'x=torch.ones(2,requires_grad=True); x.resize_(3)',
    'torch.arange(6).resize_(2,2)',
    'torch.arange(6).resize_as_(torch.ones(2,2))',
    '(torch.ones(2,requires_grad=True)*1).resize_(3)',
    'torch.arange(6)[2:].resize_(3)',
    'torch.arange(6).resize_(-1)',
    'x=torch.rand(1); x.resize_((1,2)); x._version',
    'x=torch.rand(3); x.resize_((3,)); x._version',
    'x=torch.arange(3); x.resize_(5).shape',
    'x=torch.arange(3); x.resize_(5)[:3]',
    'torch.ones(2,requires_grad=True).set_(torch.ones(2))',
    'torch.ones(3).set_(torch.zeros(2))',
    'torch.ones(3).set_()',
    'torch.ones(3).set_(torch.zeros(2,dtype=torch.float32))',
    'torch.ones(3).set_(torch.arange(6.).untyped_storage(),1,(2,2),(2,1))',
    'torch.ones(3).copy_(torch.ones(2))',
    'torch.ones(2,dtype=torch.int64).copy_(torch.tensor([1.5,2.7]))',
    'torch.ones(2).copy_(3)',
    'torch.ones(3,2).copy_(torch.tensor([1.,2.]))',
    'torch.ones(3).copy_(torch.ones(1,3))',
    'torch.ones(2).fill_(torch.tensor(2.,requires_grad=True)).grad_fn',
    'torch.ones(2).fill_(torch.ones(1))',
    'torch.ones(2,dtype=torch.int64).fill_(2.7)',
    'torch.ones(2).fill_(2.7j)',
    '(torch.ones(2,requires_grad=True)*1).zero_().grad_fn',
    '(torch.ones(2,requires_grad=True)*1).fill_(2).grad_fn',
    'x=torch.ones(2,requires_grad=True); y=(x*1); y.zero_(); y.sum().backward(); x.grad',
    'x=torch.ones(2,requires_grad=True); y=(x*1); y.fill_(2); y.sum().backward(); x.grad',
    'v=torch.tensor(2.,requires_grad=True); y=torch.ones(3); y.fill_(v); (y*y).sum().backward(); v.grad',
    'x=torch.ones(2,requires_grad=True); y=(x*1); z=torch.ones(2,requires_grad=True); y.copy_(z); (y*3).sum().backward(); z.grad',
    'x=torch.ones(2,requires_grad=True); x.fill_(2)',
    'x=torch.ones(2,requires_grad=True); x.data=torch.ones(2,dtype=torch.int64); 0',
    'x=torch.ones(2,requires_grad=True); x.data=[1]; 0',
    'x=torch.ones(2,requires_grad=True); x.data=None; 0',
    'x=torch.ones(2,requires_grad=True); x.data=torch.ones(5); x',
    'x=torch.ones(2,requires_grad=True); x.data=torch.ones(5,dtype=torch.float32); x',
    'x=torch.ones(2); x.data.add_(1); x',
    'x=torch.ones(2); x.data.add_(1); x._version',
    'x=torch.ones(2); x.detach().add_(1); x._version',
    'x=torch.randn(1,2); x.add_(1); s=x._version; '
    'xz=x[:]; x.data=torch.randn(2,3); (x._version==s, x.add_(1)._version>s, x._version==xz._version, xz.add_(1)._version==x._version)',
    'x=torch.ones(2); x._view_func(x)',
    'x=torch.ones(6); v=x.view(2,3); v._view_func(torch.arange(6.))',
    'x=torch.ones(2,3,requires_grad=True); '
    'v=(x*1)[0]; (v.is_leaf, v.output_nr, v._is_view(), x.detach()._is_view(), x.detach()._base is None, v._base is None)',
    'torch.ones(2,3,4).stride()',
    'torch.ones(2,3,4).stride(-1)',
    'torch.ones(2,3,4).stride(5)',
    'torch.ones(2,3,4).size(5)',
    'torch.ones(2,3,4).size(-1)',
    'torch.ones(()).size(0)',
    "x=torch.ones(2); x.to('cpu') is x",
    'x=torch.ones(2,requires_grad=True); x.to(torch.float32).grad_fn',
    'x=torch.ones(2,requires_grad=True); x.to(torch.int64)',
    'x=torch.ones(2); x.to(torch.ones(2,dtype=torch.int8))',
    "x=torch.ones(2); x.to('cpu',torch.int8)",
    'x=torch.ones(2,requires_grad=True); x.to(torch.float64,copy=True).grad_fn',
    'x=torch.ones(2,requires_grad=True); x.half().grad_fn',
    'x=torch.ones(2,requires_grad=True); x.double() is x',
    'x=torch.ones(2); x.to(dtype=torch.float32)',
    "x=torch.ones(2); x.to(device='cpu',dtype=torch.float32)",
    'x=torch.ones(2); x.to(foo=2)',
    '(torch.ones(2)*1j).bool()',
    'torch.tensor([0.,2.]).bool()',
    'torch.ones(2).type_as(torch.ones(1,dtype=torch.int16))',
    'torch.ones(2,3,4,5).clone(memory_format=torch.channels_last).stride()',
    'torch.ones(2,3,4,5).to(memory_format=torch.channels_last).stride()',
    'torch.ones(2,3,4,5).to(memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)',
    'torch.ones(2,3).t().clone().stride()',
    'torch.ones(2,3).t().clone(memory_format=torch.contiguous_format).stride()',
    'torch.ones(2,3).t().is_contiguous()',
    'torch.ones(2,3).clone(memory_format=torch.channels_last)',
    'torch.ones(5)[2:].storage_offset()',
    'torch.ones(5)[2:].untyped_storage().nbytes()',
    'torch.ones(2,3).nbytes',
    'torch.ones(2,3).itemsize',
    'torch.ones(2,3).element_size()',
    'torch.ones(2,3).numel()',
    'torch.ones(2,3).dim()',
    'torch.ones(2,3).is_cuda',
    'torch.ones(2,3).is_sparse',
    "torch.ones(2,3,device='meta').is_meta",
    "torch.ones(2,3,device='meta').sum(0).shape",
    "(torch.ones(2,3,device='meta')@torch.ones(3,4,device='meta')).shape",
    "torch.ones(2,3,device='meta').exp().device.type",
    "torch.ones(2,3,device='meta').to('cpu')",
    "torch.ones(2,3).to('meta').shape",
    "torch.ones(2,3,device='meta').item()",
    "torch.empty(2,3,device='meta').reshape(6).shape",
    "str(torch.ones(2,3,device='meta'))",
    "str(torch.ones(2).layout).split('.')[-1]",
    'str(torch.ones(2).device)',
    'torch.ones(2).new_full((2,),3)',
    'torch.ones(2,dtype=torch.int64).new_full((2,),3.5)',
    'torch.ones(2,3).new_empty_strided((2,3),(1,2)).stride()',
    'torch.zeros_like(torch.ones(2,requires_grad=True))',
    'torch.ones_like(torch.ones(2),dtype=torch.int8,requires_grad=False)',
    'torch.full_like(torch.ones(2),3)',
    'torch.scalar_tensor(3)',
    "torch.frombuffer(bytearray(b'\\x01\\x00\\x02\\x00'),dtype=torch.int16)",
    "torch.frombuffer(bytearray(b'\\x01\\x00\\x02'),dtype=torch.int16)",
    "torch.asarray(np.ones(2,dtype='f4'))",
    'torch.asarray([1,2],dtype=torch.float32)',
    'a=np.ones(3); t=torch.from_numpy(a); t.add_(1); a.tolist()',
    'a=np.ones(3); t=torch.as_tensor(a); t.add_(1); a.tolist()',
    'a=np.ones(3); t=torch.tensor(a); t.add_(1); a.tolist()',
    't=torch.ones(3); a=t.numpy(); a+=1; t',
    'x=torch.ones(2,requires_grad=True); x.retain_grad(); x.retains_grad',
    'x=torch.ones(2,requires_grad=True); y=x*2; y.retain_grad(); y.retains_grad',
    'x=torch.ones(2,requires_grad=True); y=x*2; y.retain_grad(); y.sum().backward(); y.grad',
    'x=torch.ones(2,requires_grad=True); y=x*2; y._grad_fn=None; y.requires_grad',
    '; '
    'torch.is_tensor(torch.ones(2)), torch.is_tensor(np.ones(2)), torch.is_floating_point(torch.ones(2)), torch.is_complex(torch.ones(2))',
    'torch.numel(torch.ones(2,3))',
    'torch.is_nonzero(torch.tensor([2]))',
    'torch.is_nonzero(torch.ones(2))',
    'torch.Tensor([1,2]).new_tensor([1.5]).dtype',
    'torch.ones(2).is_conj(), torch.ones(2).is_neg(), torch.ones(2).is_inference(), torch.ones(2).is_leaf',
    'torch.set_num_threads(0)',
    'torch.empty(3,dtype=torch.uint8).fill_(7)',
    'torch.ones(2,3).mT.is_contiguous()',
    'x=torch.ones(3); x.data_ptr()==x.detach().data_ptr()==x.data.data_ptr()',
    'x=torch.arange(4); x[1:].data_ptr()-x.data_ptr()',
    'torch.tensor(3.5).__int__()',
    'torch.ones(1).__bool__()',
    'torch.ones(2)[0].ndimension()',
    'x=torch.ones(2,requires_grad=True); x.is_leaf, (x*2).is_leaf, x.detach().is_leaf',
    'torch.ones(2,3).nelement()',
    'torch.ones(2).cdouble()',
    'torch.ones(2).char()',
    'torch.ones(2).byte()',
    'x=torch.ones(2,3); x.set_(torch.zeros(2)); x._version',
    'x=torch.ones(3); y=torch.zeros(2); x.set_(y); y.add_(1); x',
    'torch.randint(0,3,(2,)).dtype, torch.randn(2,3).shape, torch.rand((2,)).dtype, torch.randperm(4).sort()[0].tolist()',
    'x=torch.ones(2,3); x.new_ones((4,)).shape, x.new_empty(2,3).shape',
    '(torch.ones(2,3)*(1+2j)).mH.resolve_conj().tolist()',
    '(torch.ones(2,3)*(1+2j)).H.resolve_conj().tolist()',
    'torch.tensor([[1,2],[3,4]],dtype=torch.float32)',
    'torch.arange(1,2.5,0.5)',
    'torch.arange(5,0,-2)',
    'torch.arange(0,10,3,dtype=torch.float32)',
    'torch.logspace(0,3,4)',
    'torch.logspace(0,3,4,base=2)',
    'torch.eye(2)',
    'torch.full((2,2),True)',
    'torch.empty_permuted((2,3,4),(2,0,1)).stride()',
    'torch.zeros(2,out=torch.ones(2))',
    'torch.zeros(2,3,requires_grad=True)',
    'torch.ones((2,3),dtype=torch.float32).dtype',
    'torch.zeros(torch.tensor(2),3).shape',
    'torch.zeros(size=(2,3)).shape',
    'torch.zeros([2,3]).shape',
    'torch.zeros(torch.Size([2,3])).shape',
    'torch.get_default_dtype()',
    'torch.set_default_dtype(torch.int64)',
    'torch.finfo(torch.float32).eps',
    'torch.can_cast(torch.float64,torch.int64)',
    'torch.result_type(torch.ones(2,dtype=torch.float32),1.5)',
    'torch.promote_types(torch.float32,torch.float64)',
    'x=torch.ones(2,requires_grad=True); y=x.detach(); y.requires_grad_(); y is x, y.data_ptr()==x.data_ptr(), y.is_leaf',
    'x=torch.ones(3,requires_grad=True); y=x.clone(); y.grad_fn.name()',
    'x=torch.randn(2,3); x[0].add_(1); x._version, x[0]._version',
    'x=torch.ones(3); y=x.view(3); y._base is x, y._is_view(), x._is_view()',
    'x=torch.ones(3); d=x.data; d.requires_grad, d._version',
    'x=torch.ones(3,requires_grad=True); x.requires_grad=False; x.requires_grad',
    'x=torch.ones(1,requires_grad=True); x.add_(1)',
    'x=torch.ones(3); x.requires_grad_(); x.mul(2).sum().backward(); x.grad',
    'x=torch.ones(2,3).to(torch.complex64); x.real.dtype, x.imag.dtype, x.is_complex()',
    'x=torch.arange(3).float(); x.dtype, x.long().dtype, x.int().dtype, x.short().dtype',
    'x=torch.ones(4)[::2]; x.is_contiguous(), x.stride(), x.storage_offset()',
    'x=torch.ones(2,3); x.t().storage_offset(), x.t().stride(), x[:,1:].storage_offset()',
    'torch.ones(3,4).expand(2,3,4).stride()',
    'torch.ones(2,3).nbytes, torch.ones(2,3).itemsize',
    'torch.tensor(5).item(), torch.tensor(True).item(), torch.tensor(1.5).item(), torch.tensor(1j).item()',
    'repr(torch.tensor([1.5,2.]))',
    'repr(torch.tensor([1,2]))',
    'repr(torch.zeros(0))',
    'repr(torch.ones(2,requires_grad=True))',
    'x=torch.ones(2,requires_grad=True); repr(x*2), repr((x*2)[:1]), repr(x.detach())',
]  # fmt: skip

FACTORIES = [
    'torch.tensor(None)',
    "torch.tensor('a')",
    'torch.tensor([[1,2],[3]])',
    'torch.tensor([2**63])',
    'torch.tensor(2**70)',
    "torch.tensor([1,'a'])",
    'torch.tensor({})',
    'torch.tensor([])',
    'torch.tensor([[],[]])',
    'torch.tensor(1.5,dtype=torch.int32)',
    'torch.tensor([np.float32(1)]).dtype',
    'torch.tensor([torch.tensor(1), torch.tensor(2.5)])',
    'torch.tensor([torch.ones(1,requires_grad=True)])',
    'torch.tensor(torch.ones(2))',
    'torch.tensor(300,dtype=torch.uint8)',
    'torch.tensor(1.5+2j,dtype=torch.float64)',
    'torch.tensor([True,2])',
    'torch.tensor([1,2.5,1j])',
    'torch.as_tensor(np.float32(3)).dtype',
    'torch.as_tensor(np.float64(3)).dtype',
    'torch.tensor(np.float32(3)).dtype',
    'torch.from_numpy(3)',
    "torch.from_numpy(np.array(['a']))",
    'torch.asarray([1,2],copy=False)',
    'torch.zeros(-1)',
    'torch.zeros()',
    'torch.zeros(2.5)',
    'torch.zeros(2,foo=3)',
    'torch.full((2,),1j).dtype',
    'torch.full((2,), torch.tensor(3.)).dtype',
    'torch.full((2,), 1.5, dtype=torch.int64)',
    'torch.arange(3,0)',
    'torch.arange(0,3,0)',
    "torch.arange(0,float('inf'))",
    'torch.arange(0.,1.,0.3)',
    'torch.arange(5,dtype=torch.bool)',
    'torch.arange(torch.tensor(3))',
    'torch.arange(0,5,2.0).dtype',
    'torch.linspace(0,1,-1)',
    'torch.linspace(0,10,5,dtype=torch.int64)',
    'torch.linspace(0,9,5,dtype=torch.int64)',
    'torch.linspace(-3,3,4,dtype=torch.int64)',
    'torch.linspace(torch.tensor(0.),1,3)',
    'torch.linspace(0,1,1)',
    'torch.linspace(0,1,0)',
    'torch.linspace(0,1j,3)',
    'torch.logspace(0,2,3,dtype=torch.int64)',
    'torch.eye(-1)',
    'torch.eye(2,3,dtype=torch.bool)',
    'torch.Tensor(2,3).shape',
    'torch.Tensor([2,3])',
    'torch.Tensor((2,3))',
    'torch.Tensor(torch.Size([2,3])).shape',
    'torch.Tensor()',
    'torch.Tensor(3.5)',
    'torch.Tensor(torch.ones(2,dtype=torch.int64))',
    'torch.Tensor(torch.ones(2))',
    'torch.Tensor(np.ones(2,dtype=np.int32))',
    'torch.LongTensor([1.5])',
    'torch.LongTensor(2).shape',
    'torch.FloatTensor(torch.ones(2))',
    'isinstance(torch.ones(2), torch.DoubleTensor)',
    'torch.BoolTensor([True,False])',
    'torch.empty_strided((2,3),(1,2)).stride()',
    'torch.zeros_like(torch.ones(2,3).t()).stride()',
    'torch.zeros_like(torch.ones(4,3)[::2].t()).stride()',
    'torch.zeros_like(torch.ones(1,3).expand(2,3)).stride()',
    'torch.randint(3,(2,)).dtype',
    'torch.randint(3,3,(2,))',
    'torch.randint(0,300,(2,),dtype=torch.uint8)',
    'torch.randint(0,3,(2,),dtype=torch.float32).dtype',
    'torch.randperm(-1)',
    'torch.randperm(3,dtype=torch.float64).dtype',
    'torch.rand(2,dtype=torch.int64)',
    'torch.randn(2,dtype=torch.int64)',
    'torch.rand(2,dtype=torch.complex64).dtype',
    'torch.normal(0.,-1.,(2,))',
    'torch.normal(torch.zeros(2),torch.tensor([1.,-1.]))',
    'torch.normal(torch.zeros(2,requires_grad=True),1.).grad_fn',
    'torch.normal(torch.zeros(2,requires_grad=True),torch.ones(2)).grad_fn',
    'torch.normal(0.,torch.ones(2,requires_grad=True)).grad_fn',
    'torch.normal(torch.zeros(2,dtype=torch.int64),1.)',
    'torch.normal(torch.zeros(2),torch.ones(3))',
    'torch.normal(0.,1.)',
    'torch.bernoulli(torch.tensor([2.]))',
    'i=torch.ones(2,dtype=torch.int64); torch.bernoulli(i)',
    'x=torch.ones(2); torch.bernoulli(x.requires_grad_()).grad_fn',
    'x=torch.ones(2); torch.bernoulli(x,0.5).grad_fn',
    'torch.poisson(torch.tensor([-1.]))',
    'x=torch.ones(2); torch.poisson(x).grad_fn',
    'i=torch.ones(2,dtype=torch.int64); torch.poisson(i)',
    'x=torch.ones(2); torch.binomial(x*2,x*0.5).grad_fn',
    'x=torch.ones(2); torch._standard_gamma(x).grad_fn',
    'x=torch.ones(2); torch._sample_dirichlet(x).grad_fn',
    'torch.multinomial(torch.ones(3),4)',
    'torch.multinomial(torch.ones(2,3),2,True).shape',
    'torch.multinomial(torch.tensor([-1.,2]),1)',
    'torch.multinomial(torch.zeros(2),1)',
    'torch.multinomial(torch.ones(2,2,2),1)',
    'torch.multinomial(torch.ones(2,dtype=torch.int64),1)',
    'torch.multinomial(torch.ones(2),0)',
    '(torch.ones(2,requires_grad=True)*1).uniform_().grad_fn',
    '(torch.ones(2,requires_grad=True)*1).normal_().grad_fn',
    '(torch.ones(2,requires_grad=True)*1).exponential_().grad_fn',
    '(torch.ones(2,requires_grad=True)*1).bernoulli_(torch.ones(2)*.5).grad_fn',
    '(torch.ones(2,requires_grad=True)*1).cauchy_().grad_fn',
    '(torch.ones(2,requires_grad=True)*1).log_normal_().grad_fn',
    'i=torch.ones(2,dtype=torch.int64); i.uniform_()',
    'i=torch.ones(2,dtype=torch.int64); i.normal_()',
    'i=torch.ones(2,dtype=torch.int64); i.exponential_()',
    'i=torch.ones(2,dtype=torch.int64); i.cauchy_()',
    'i=torch.ones(2,dtype=torch.int64); i.log_normal_()',
    'x=torch.ones(2); x.detach().clone().uniform_(2,1)',
    'x=torch.ones(2); x.detach().clone().normal_(0,-1)',
    'x=torch.ones(2); x.detach().clone().exponential_(-1)',
    'x=torch.ones(2); x.detach().clone().exponential_(0)',
    'x=torch.ones(2); x.detach().clone().geometric_(0)',
    'x=torch.ones(2); x.detach().clone().geometric_(1.5)',
    'x=torch.ones(2); x.detach().clone().cauchy_(0,-1)',
    'x=torch.ones(2); x.detach().clone().bernoulli_(1.5)',
    'x=torch.ones(2); x.detach().clone().random_(5,2)',
    'i=torch.ones(2,dtype=torch.int64); i.clone().random_(0)',
    'torch.ones(2,dtype=torch.uint8).random_(300)',
    'torch.get_rng_state().dtype',
    'torch.Generator().get_state().dtype',
    'torch.set_rng_state(torch.ones(3))',
    'torch.rand(2,generator=3)',
    'torch.empty(2,3,4,5,memory_format=torch.channels_last).stride()',
    'torch.empty_like(torch.ones(2,3,4,5),memory_format=torch.channels_last).stride()',
    'torch.ones(2,3).new_zeros(2,dtype=torch.int32)',
    'torch.ones(2).new_tensor([1,2])',
    'torch.ones(2).new_tensor(torch.tensor([1,2]))',
    'torch.ones(2,out=torch.empty(3)).shape',
    'i=torch.ones(2,dtype=torch.int64); torch.rand_like(i)',
    'x=torch.ones(2); torch.result_type(x, 1)',
    'torch.is_floating_point(3)',
    'torch.is_tensor(3)',
    'x=torch.ones(2); torch.numel(x)',
    'x=torch.ones(2); x.is_signed()',
    'torch.is_signed(torch.ones(1,dtype=torch.uint8))',
    'torch.promote_types(torch.int8,torch.uint8)',
]  # fmt: skip

# torch warns of these once per process, at the first use.
WARNS_ONCE = (".T.", ".mT", ".H", ".mH", "float(", "volatile", "requires_grad=True)])")


@pytest.mark.parametrize("program", [*TENSOR, *FACTORIES])
def test_program(program):
    theirs, they_warn = outcome(torch, program)
    ours, we_warn = outcome(ndgrad, program)
    assert ours == theirs
    if not any(part in program for part in WARNS_ONCE):
        assert we_warn == they_warn


# ----- random numbers ------------------------------------------------------------------------------------------------

RANDOM = {
    "rand": lambda lib: lambda x: lib.rand(3),
    "randn_like": lambda lib: lambda x: lib.randn_like(x),
    "randint": lambda lib: lambda x: lib.randint(1000000, (3,)),
    "randperm": lambda lib: lambda x: lib.randperm(50),
    "bernoulli": lambda lib: lambda x: lib.bernoulli(x.expand(60, 3)),
    "bernoulli of a number": lambda lib: lambda x: lib.bernoulli(lib.ones(50), 0.5),
    "normal": lambda lib: lambda x: lib.normal(x, 1.0),
    "normal of a size": lambda lib: lambda x: lib.normal(0.0, 1.0, (3,)),
    "normal, unbatched": lambda lib: lambda x: lib.normal(lib.zeros(3), lib.ones(2, 3)),
    "normal, ranks differ": lambda lib: lambda x: lib.normal(x, lib.ones(2, 3)),
    "poisson": lambda lib: lambda x: lib.poisson(x * 1000),
    "multinomial": lambda lib: lambda x: lib.multinomial(lib.ones(50), 20, replacement=True),
    "multinomial, batched": lambda lib: lambda x: lib.multinomial(x.expand(30, 3), 2),
    "uniform_": lambda lib: lambda x: x.clone().uniform_(),
    "gamma": lambda lib: lambda x: lib._standard_gamma(x),
    "dirichlet": lambda lib: lambda x: lib._sample_dirichlet(x),
    "rand_like, unbatched": lambda lib: lambda x: lib.rand_like(lib.ones(3)),
    "in arithmetic": lambda lib: lambda x: x + lib.rand(3),
}  # fmt: skip


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
@pytest.mark.parametrize("name", RANDOM)
def test_vmap_randomness(name, randomness):
    def look(lib):
        try:
            out = lib.func.vmap(RANDOM[name](lib), randomness=randomness)(lib.ones(4, 3) * 0.5).numpy()
        except RuntimeError as error:
            return type(error).__name__
        return out.shape, all(np.array_equal(out[0], row) for row in out)

    ndgrad.manual_seed(0)
    assert look(ndgrad) == look(torch)


@pytest.mark.parametrize("inner", ["same", "different"])
@pytest.mark.parametrize("outer", ["same", "different"])
def test_vmap_of_vmap_randomness(outer, inner):
    def look(lib):
        vmap = lib.func.vmap
        out = vmap(vmap(lambda x: lib.rand(3), randomness=inner), randomness=outer)(lib.ones(2, 4, 3)).numpy()
        return out.shape, np.array_equal(out[0], out[1]), np.array_equal(out[:, 0], out[:, 1])

    assert look(ndgrad) == look(torch)


MOMENTS = {
    "rand": lambda lib: lib.rand(40000),
    "randn": lambda lib: lib.randn(40000),
    "randn, complex": lambda lib: lib.view_as_real(lib.randn(20000, dtype=lib.complex128)).flatten(),
    "randint": lambda lib: lib.randint(3, 17, (40000,)).double(),
    "normal": lambda lib: lib.normal(lib.arange(4.0).repeat(10000), 2.0),
    "bernoulli": lambda lib: lib.bernoulli(lib.tensor([0.1, 0.7]).repeat(20000)),
    "poisson": lambda lib: lib.poisson(lib.tensor([0.5, 30.0]).repeat(20000)),
    "binomial": lambda lib: lib.binomial(lib.full((40000,), 20.0), lib.full((40000,), 0.3)),
    "exponential": lambda lib: lib.empty(40000).exponential_(2.5),
    "geometric": lambda lib: lib.empty(40000).geometric_(0.3),
    "log_normal": lambda lib: lib.empty(40000).log_normal_(0.0, 0.5),
    "cauchy": lambda lib: lib.empty(40000).cauchy_(1.0, 0.5).clamp(-20, 20),
    "uniform": lambda lib: lib.empty(40000).uniform_(-2, 5),
    "gamma": lambda lib: lib._standard_gamma(lib.tensor([0.3, 8.0]).repeat(20000)),
    "dirichlet": lambda lib: lib._sample_dirichlet(lib.tensor([0.5, 2.0, 3.0]).repeat(10000, 1)).flatten(),
    "multinomial": lambda lib: lib.multinomial(lib.tensor([1.0, 2.0, 3.0, 4.0]).repeat(10000, 1), 3).double().flatten(),
    "multinomial with replacement": lambda lib: lib.multinomial(lib.tensor([1.0, 2.0, 3.0]), 40000, True).double(),
}  # fmt: skip


@pytest.mark.parametrize("name", MOMENTS)
def test_distributions_have_the_same_quantiles(name):
    """Of 40000 draws, a quantile is off by less than 0.02 in probability, far beyond chance."""
    ndgrad.manual_seed(1)
    ours, theirs = np.sort(MOMENTS[name](ndgrad).numpy()), np.sort(MOMENTS[name](torch).numpy())
    assert ours.shape == theirs.shape
    points = np.unique(np.concatenate([ours[::2000], theirs[::2000]]))
    for side in ("left", "right"):
        a, b = (np.searchsorted(v, points, side) / v.size for v in (ours, theirs))
        assert np.abs(a - b).max() < 0.02


def test_gradient_of_gamma_samples():
    """The mean of dz/da over samples is d(mean)/da = 1, in both libraries."""
    for lib in LIBRARIES:
        lib.manual_seed(3)
        a = lib.tensor([0.4, 2.0, 30.0], requires_grad=True)
        lib._standard_gamma(a.expand(20000, 3)).mean(0).sum().backward()
        np.testing.assert_allclose(a.grad.numpy(), 1.0, atol=0.05)


# ----- deliberate differences ----------------------------------------------------------------------------------------


def test_assigning_data_after_it_was_saved_raises():
    deliberate("data-assignment")

    def run(lib):
        w, x = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
        y = (w * x).sum()
        x.data = lib.zeros(2)
        y.backward()
        return w.grad.tolist()

    assert run(torch) == [0.0, 0.0]  # the gradient of a forward that was never run
    with pytest.raises(RuntimeError, match=r"assignment to \.data"):
        run(ndgrad)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("torch.zeros(2, dtype='float32').dtype == torch.float32", True),
        ("torch.full(2, 1).tolist()", (1, 1)),
        ("torch.tensor([torch.tensor([1, 2]), torch.tensor([3, 4])]).tolist()", ((1, 2), (3, 4))),
        ("torch.ones(2, 3).rename('a', 'b').names", ("a", "b")),
    ],
)
def test_accepted_beyond_torch(program, expected):
    deliberate("accepted-beyond")
    assert outcome(torch, program)[0] in ("TypeError", "AttributeError")
    assert outcome(ndgrad, program)[0] == expected


@pytest.mark.parametrize(
    "program",
    [
        "torch.ones(3).set_(torch.arange(6.0).untyped_storage(), 1, (4, 2), (2, 1))",
        "torch.ones(3).untyped_storage().resize_(0).nbytes()",
        "torch.tensor(-1, dtype=torch.uint8)",
    ],
)
def test_refused_beyond_torch(program):
    deliberate("refused-beyond")
    assert outcome(torch, program)[0] != "RuntimeError"
    assert outcome(ndgrad, program)[0] == "RuntimeError"
