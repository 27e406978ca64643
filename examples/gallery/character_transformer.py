"""A transformer that reads the characters of NumPy's docstrings and learns to write similar text."""

from __future__ import annotations

import math
import re

import numpy as np

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn


# The text is the documentation of NumPy, which is on every machine that runs this program.
def docstrings(length):
    """Return the first `length` characters of NumPy's documentation, in ASCII."""
    texts = (getattr(np, name).__doc__ or "" for name in sorted(dir(np)) if callable(getattr(np, name)))
    return re.sub(r" +", " ", "".join(texts).encode("ascii", "ignore").decode())[:length]


# The model is a small GPT. A block has an attention, in which each character reads the earlier ones,
# and a network that is applied to each character by itself.
class Block(nn.Module):
    """Attention to earlier characters, then a small network for each character, both with residual connections."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        parts = self.into(self.norm1(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


# The model adds the embedding of a character to the embedding of its position, applies the blocks,
# and scores each possible next character.
class Reader(nn.Module):
    """Scores of the next character, after every character."""

    def __init__(self, letters, context, width, layers):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads=4) for _ in range(layers)))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, text):
        x = self.letter(text) + self.place(ndgrad.arange(text.shape[1]))
        return self.readout(self.norm(self.blocks(x)))


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The loss on unseen text, relative to that of a uniform guess, and the loss curve."""
    # Each character becomes a number. The last tenth of the text is kept aside for the test.
    ndgrad.manual_seed(0)
    context, width, layers, steps = (32, 32, 1, 60) if quick else (64, 64, 2, 700)
    text = docstrings(20_000 if quick else 400_000)
    alphabet = sorted(set(text))
    codes = ndgrad.tensor([alphabet.index(letter) for letter in text])
    split = len(text) * 9 // 10
    model = Reader(len(alphabet), context, width, layers)

    # The loss of windows of text: the prediction at each character is compared with the character
    # that follows.
    def loss_at(starts):
        windows = codes[starts[:, None] + ndgrad.arange(context + 1)]
        return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())

    # Train on random windows. The learning rate rises first and falls later.
    optimizer = ndgrad.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = ndgrad.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    losses = []
    for _ in range(steps):
        loss = loss_at(ndgrad.randint(0, split - context - 1, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    # Measure the loss on the text that was kept aside. A uniform guess costs the logarithm of the
    # number of letters.
    with ndgrad.no_grad():
        unseen = loss_at(ndgrad.arange(split, len(text) - context - 1, context)[:100]).item()
    guess = math.log(len(alphabet))
    count = sum(p.numel() for p in model.parameters())
    print(f"{count:,} parameters; nats per character on unseen text {unseen:.2f}, guessing {guess:.2f}")

    # Generate text: each character is drawn from the model's prediction.
    written = [alphabet.index(letter) for letter in "Parameters\n"]
    with ndgrad.no_grad():
        for _ in range(40 if quick else 400):
            chances = F.softmax(model(ndgrad.tensor([written[-context:]]))[0, -1] / 0.7, dim=-1)
            written.append(int(ndgrad.multinomial(chances, 1)))
    print("".join(alphabet[code] for code in written))

    # Draw the loss of each step, its moving mean, and the loss on unseen text.
    means = np.convolve(losses, np.ones(10) / 10, "valid")
    chart = ndgrad.viz.Chart("learning to write docstrings", x="step", y="nats per character")
    chart.line(range(len(losses)), losses, "each step").line(np.arange(len(means)) + 5, means, "mean of ten")
    return unseen / guess, chart.line([0, steps], [unseen, unseen], "unseen text", dashed=True)


if __name__ == "__main__":
    main()[1].save("character_transformer.svg")
