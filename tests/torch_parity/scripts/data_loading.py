import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
)


class Squares(Dataset):
    def __init__(self, n, transform=None):
        self.n, self.transform = n, transform

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        sample = {"x": torch.tensor([float(i), float(i) ** 2]), "label": i % 2, "name": f"s{i}"}
        return self.transform(sample) if self.transform else sample


class Count(IterableDataset):
    def __iter__(self):
        return iter(range(5))


def collate(samples):
    return torch.stack([s["x"] for s in samples]), torch.tensor([s["label"] for s in samples])


for batch in DataLoader(Squares(5), batch_size=2):
    print(batch["x"].tolist(), batch["label"].tolist(), batch["name"])
for x, y in DataLoader(Squares(5), batch_size=2, drop_last=True, collate_fn=collate):
    print(x.sum().item(), y.dtype == torch.int64)
print([b.tolist() for b in DataLoader(Count(), batch_size=2)])
print([b["label"].tolist() for b in DataLoader(Subset(Squares(9), [1, 3, 8]), batch_size=3)])
print(len(ConcatDataset([Squares(3), Squares(4)])), len(DataLoader(Squares(7), batch_size=3)))
print(list(BatchSampler(SequentialSampler(range(5)), 2, False)))
print(len(list(WeightedRandomSampler([0.1, 0.9], 4))))
shuffled = sorted(i for b in DataLoader(torch.arange(7), batch_size=2, shuffle=True) for i in b.tolist())
print(shuffled)
for batch in DataLoader(Squares(4), batch_size=2, num_workers=2):
    print(batch["x"][:, 1].tolist())
