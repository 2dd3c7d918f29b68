"""Where does the time of a step go? A loop of PyTorch with a timeline; on a GPU, times are of finished work.

python examples/timeline_torch.py
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import deep_bench as db
from deep_bench.data import digits


def main() -> None:
    torch.manual_seed(0)
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    images, labels = (torch.from_numpy(array) for array in digits("train"))
    loader = DataLoader(TensorDataset(images, labels.long()), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with db.timeline(synchronize="torch") as t:
        for _ in range(3):
            for x, y in t.over(loader, "data"):
                with t.region("transfer"):
                    x, y = x.to(device), y.to(device)
                with t.region("forward"):
                    loss = nn.functional.cross_entropy(model(x), y)
                with t.region("backward"):
                    optimizer.zero_grad()
                    loss.backward()
                with t.region("update"):
                    optimizer.step()
    t.report()
    rows = {row.name: row.share for row in t.result()["training"].rows}
    print(f"forward and backward: {rows['forward'] + rows['backward']:.0%} of a step")


if __name__ == "__main__":
    main()
