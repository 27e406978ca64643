import torch
import torch.nn as nn
from starting import fill

text = "the quick brown fox jumps over the lazy dog "
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)


class CharLM(nn.Module):
    def __init__(self, vocab, hidden=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, 8)
        self.lstm = nn.LSTM(8, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embed(x), state)
        return self.head(out), state


model = fill(CharLM(len(chars)), scale=2.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
state = None
for step in range(4):
    x, y = data[step * 10 : step * 10 + 10].unsqueeze(0), data[step * 10 + 1 : step * 10 + 11].unsqueeze(0)
    x, y = x[:, : y.size(1)], y
    logits, state = model(x, state)
    state = tuple(s.detach() for s in state)
    loss = criterion(logits.reshape(-1, len(chars)), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    print(f"{step} loss {loss.item():.4f} ppl {torch.exp(loss).item():.3f} norm {norm:.4f}")
model.eval()
out, state = [0], None
with torch.no_grad():
    for _ in range(8):
        logits, state = model(torch.tensor([[out[-1]]]), state)
        out.append(logits[0, -1].argmax().item())
print(len(out), all(isinstance(i, int) for i in out))
