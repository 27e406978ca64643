import torch
import torch.nn as nn
from starting import draw, fill, integers

model = fill(nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, 4)), scale=2.0).eval()
images, labels = draw(4, 1, 8, 8).sigmoid(), integers(4, 4)
loss_fn = nn.CrossEntropyLoss()


def fgsm(images, epsilon):
    images = images.clone().detach().requires_grad_(True)
    loss = loss_fn(model(images), labels)
    model.zero_grad()
    loss.backward()
    return torch.clamp(images + epsilon * images.grad.sign(), 0, 1).detach(), loss.item()


def pgd(images, epsilon, steps):
    adv = images.clone()
    for _ in range(steps):
        adv.requires_grad = True
        (g,) = torch.autograd.grad(loss_fn(model(adv), labels), adv)
        adv = adv.detach() + 0.02 * g.sign()
        adv = torch.min(torch.max(adv, images - epsilon), images + epsilon).clamp(0, 1)
    return adv


attacked, before = fgsm(images, 0.05)
print(f"{before:.4f} -> {loss_fn(model(attacked), labels).item():.4f} -> {loss_fn(model(pgd(images, 0.05, 4)), labels).item():.4f}")
print((attacked - images).abs().max().item() <= 0.0501)
