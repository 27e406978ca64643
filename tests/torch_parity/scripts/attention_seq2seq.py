import torch
import torch.nn as nn
import torch.nn.functional as F
from starting import fill, integers


class Encoder(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(vocab, hidden), nn.GRU(hidden, hidden)

    def forward(self, x):
        return self.rnn(self.embedding(x))


class Decoder(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(vocab, hidden), nn.GRUCell(2 * hidden, hidden)
        self.score, self.out = nn.Bilinear(hidden, hidden, 1), nn.Linear(hidden, vocab)

    def forward(self, token, hidden, memory):
        energy = torch.stack([self.score(hidden, m) for m in memory]).squeeze(-1)
        weights = F.softmax(energy, dim=0)
        context = torch.einsum("tb,tbh->bh", weights, memory)
        hidden = self.cell(torch.cat((self.embedding(token), context), 1), hidden)
        return F.log_softmax(self.out(hidden), dim=1), hidden, weights


encoder, decoder = fill(Encoder(9, 8), 1, 2.0), fill(Decoder(9, 8), 2, 2.0)
optimizer = torch.optim.Adam(list(encoder.parameters()) + list(decoder.parameters()), lr=1e-2)
source, goal = integers(9, 5, 3), integers(9, 4, 3, seed=1)
for step in range(3):
    memory, hidden = encoder(source)
    hidden, token, loss = hidden[-1], torch.zeros(3, dtype=torch.long), 0
    for t in range(4):
        log_p, hidden, weights = decoder(token, hidden, memory)
        loss = loss + F.nll_loss(log_p, goal[t])
        token = goal[t] if t % 2 == 0 else log_p.topk(1)[1].squeeze(1).detach()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f} {weights.sum(0).tolist()[0]:.3f}")
