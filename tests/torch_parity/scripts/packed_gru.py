import torch
from starting import draw, fill
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

sequences = [draw(n, 4, seed=n) for n in (5, 2, 7, 3)]
lengths = torch.tensor([len(s) for s in sequences])
batch = pad_sequence(sequences, batch_first=True)
gru = fill(nn.GRU(4, 6, batch_first=True, bidirectional=True), scale=2.0)
head = fill(nn.Linear(12, 1))
optimizer = torch.optim.Adagrad([*gru.parameters(), *head.parameters()], lr=0.05)
target = torch.tensor([0.0, 1.0, 1.0, 0.0])
for _ in range(3):
    packed = pack_padded_sequence(batch, lengths, batch_first=True, enforce_sorted=False)
    out, hidden = gru(packed)
    padded, sizes = pad_packed_sequence(out, batch_first=True)
    pooled = padded.sum(1) / sizes.unsqueeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(head(pooled).squeeze(-1), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}", tuple(padded.shape), sizes.tolist(), tuple(hidden.shape))
