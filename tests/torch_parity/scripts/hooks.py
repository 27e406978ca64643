from starting import draw, fill
from torch import nn

model = fill(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), scale=2.0)
activations, gradients = {}, {}


def save(name):
    def hook(module, inputs, output):
        activations[name] = output.detach()

    return hook


def watch(module, grad_input, grad_output):
    gradients[type(module).__name__] = grad_output[0].norm().item()


handles = [model[1].register_forward_hook(save("tanh")), model[2].register_full_backward_hook(watch)]
handles.append(model[0].weight.register_hook(lambda g: g.clamp(-0.1, 0.1)))
handles.append(model[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,)))
loss = model(draw(3, 4)).square().sum()
loss.backward()
print(f"{loss.item():.4f}", tuple(activations["tanh"].shape), {k: round(v, 4) for k, v in gradients.items()})
print(f"{model[0].weight.grad.abs().max().item():.4f}")
for handle in handles:
    handle.remove()
print(f"{model(draw(3, 4)).square().sum().item():.4f}")
x = draw(3).requires_grad_()
y = x * 2
y.retain_grad()
y.register_hook(lambda g: g * 10)
y.sum().backward()
print(y.grad.tolist(), x.grad.tolist())
