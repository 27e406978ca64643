from dataclasses import dataclass

import torch
import torch.nn as nn
from starting import fill, integers
from torch.nn import functional as F


@dataclass
class Config:
    block: int = 8
    vocab: int = 13
    layers: int = 2
    heads: int = 2
    width: int = 16


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(c.width, 3 * c.width, bias=False), nn.Linear(c.width, c.width), c.heads
        self.register_buffer("bias", torch.tril(torch.ones(c.block, c.block)).view(1, 1, c.block, c.block))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        flash = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        att = (q @ k.transpose(-2, -1)) * (k.size(-1) ** -0.5)
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        manual = F.softmax(att, dim=-1) @ v
        assert torch.allclose(flash, manual, atol=1e-5)
        return self.proj(manual.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln1, self.ln2, self.attention = nn.LayerNorm(c.width), nn.LayerNorm(c.width), Attention(c)
        self.mlp = nn.ModuleDict({"up": nn.Linear(c.width, 4 * c.width), "down": nn.Linear(4 * c.width, c.width)})

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp["down"](F.gelu(self.mlp["up"](self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab, c.width), nn.Embedding(c.block, c.width)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.layers)])
        self.ln, self.head = nn.LayerNorm(c.width), nn.Linear(c.width, c.vocab, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        return logits, None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)


model = fill(GPT(Config()), scale=1.0)
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=3e-3)
data = integers(13, 4, 9)
for step in range(4):
    _, loss = model(data[:, :-1], data[:, 1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"iter {step}: loss {loss.item():.4f}")
print(f"{sum(p.numel() for p in model.parameters()):,} parameters, tied: {model.wte.weight is model.head.weight}")
