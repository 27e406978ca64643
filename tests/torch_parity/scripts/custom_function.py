import torch
from starting import draw
from torch.autograd import Function, gradcheck


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x)
        ctx.bounds = low, high
        return x.round().clamp(low, high)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        low, high = ctx.bounds
        return grad_output * ((x >= low) & (x <= high)).to(grad_output.dtype), None, None


class Exp(Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


x = (draw(6) * 3).requires_grad_()
quantize = StraightThrough.apply
loss = (quantize(x, -2.0, 2.0) * torch.arange(1.0, 7.0)).sum()
loss.backward()
print(loss.item(), x.grad.tolist())
print(gradcheck(Exp.apply, torch.tensor([0.1, 0.2], dtype=torch.double, requires_grad=True)))
y = Exp.apply(x[:1])
print(type(y.grad_fn).__name__, f"{y.item():.4f}")
