import torch
from starting import fill, integers
from torch import nn, optim

table = fill(nn.Embedding(20, 4, sparse=True), scale=2.0)
head = fill(nn.Linear(4, 2), 1, 2.0)
sparse, dense = optim.SparseAdam(table.parameters(), lr=0.05), optim.Adam(head.parameters(), lr=0.05)
for step in range(3):
    tokens, labels = integers(20, 6, seed=step), integers(2, 6, seed=step + 9)
    loss = nn.functional.cross_entropy(head(table(tokens)), labels)
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    print(f"{loss.item():.4f}", table.weight.grad.is_sparse, table.weight.grad.coalesce().indices().shape[1] == tokens.unique().numel())
    sparse.step()
    dense.step()
i = torch.tensor([[0, 1, 1], [2, 0, 2]])
s = torch.sparse_coo_tensor(i, torch.tensor([3.0, 4.0, 5.0]), (2, 3))
print(torch.sparse.mm(s, torch.ones(3, 2)).tolist(), s.to_dense().tolist(), s.is_sparse)
