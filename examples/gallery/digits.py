"""Handwritten digits by a small convolutional network: the 1797 images that come with scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn
from ndgrad.utils.data import DataLoader, TensorDataset


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The share of unseen digits that are read wrongly, and some of them."""
    # The images have 8 by 8 pixels. Of the 1797 images, 1400 are for training and the others for the
    # test.
    ndgrad.manual_seed(0)
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = ndgrad.tensor(digits.images[order] / 16, dtype=ndgrad.float32).unsqueeze(1)
    labels = ndgrad.tensor(digits.target[order])
    train, test = slice(0, 1400), slice(1400, None)

    # Two convolutions with pooling reduce an image to 32 channels of 2 by 2 pixels; a linear layer
    # turns these 128 numbers into ten scores. Train with Adam on batches of 64.
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = ndgrad.optim.Adam(model.parameters(), lr=3e-3)
    batches = DataLoader(TensorDataset(images[train], labels[train]), batch_size=64, shuffle=True)
    losses = []
    for _ in range(3 if quick else 15):
        for image, label in batches:
            loss = F.cross_entropy(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    # Count the errors on unseen images. `eval` turns the dropout off.
    model.eval()
    with ndgrad.no_grad():
        read = model(images[test]).argmax(1)
    wrong = (read != labels[test]).nonzero().reshape(-1)
    share = len(wrong) / len(read)
    print(f"{len(wrong)} of {len(read)} unseen digits read wrongly ({share:.1%})")

    # Saliency: the gradient of the predicted digit's score with respect to every pixel of the image.
    shown = images[test][:5].clone().requires_grad_()
    model(shown).max(1).values.sum().backward()
    sheet = ndgrad.cat([shown.detach(), shown.grad.abs() / shown.grad.abs().amax((2, 3), keepdim=True)], 2).squeeze(1)
    curve = ndgrad.viz.Chart("loss", x="step", log_y=True, width=260, height=220).line(range(len(losses)), losses)
    caption = f"read as {', '.join(str(int(n)) for n in read[:5])}; below, the pixels that matter"
    seen = ndgrad.viz.Chart(caption, width=420, height=220).image(ndgrad.cat(list(sheet), 1))
    return share, ndgrad.viz.beside(curve, seen)


if __name__ == "__main__":
    main()[1].save("digits.svg")
