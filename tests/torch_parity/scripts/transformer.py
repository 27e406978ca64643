import math

import torch
import torch.nn as nn
from starting import fill, integers


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class Model(nn.Module):
    def __init__(self, vocab, d=16):
        super().__init__()
        self.d = d
        self.embed, self.position = nn.Embedding(vocab, d), PositionalEncoding(d)
        layer = nn.TransformerEncoderLayer(d, 4, 32, dropout=0.0, activation="gelu", norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(d, vocab)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(len(x))
        return self.head(self.encoder(self.position(self.embed(x) * math.sqrt(self.d)), mask))


vocab = 11
model = fill(Model(vocab), scale=1.5)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.95))
tokens = integers(vocab, 9, 4)
for step in range(4):
    logits = model(tokens[:-1])
    loss = nn.functional.cross_entropy(logits.view(-1, vocab), tokens[1:].view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: {loss.item():.4f}")
print(sorted(k for k in model.state_dict() if "pe" in k.split(".")))
