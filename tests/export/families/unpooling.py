"""Max pooling undone."""

import torch
import torch.nn.functional as F
from torch import nn

from case import Export, Model, direct, exported
from values import FLOATS, randn


@exported
def nn_MaxUnpool2d() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = nn.MaxPool2d(2, return_indices=True)
            self.long = nn.MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0), return_indices=True)
            self.unpool, self.unlong = nn.MaxUnpool2d(2), nn.MaxUnpool2d((3, 2), stride=(2, 1), padding=(1, 0))

        def forward(self, x):
            small, places = self.pool(x)
            long, long_places = self.long(x)
            back = self.unlong(long, long_places, output_size=[7, 9])
            return self.unpool(small, places, output_size=[7, 9]), back
    return Export(Net(), randn(2, 3, 7, 9))


@exported
def unpooling_of_sequences_and_volumes() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            line, places = F.max_pool1d(x, 2, return_indices=True)
            volume, volume_places = F.max_pool3d(y, 2, return_indices=True)
            return (F.max_unpool1d(line, places, 2, output_size=[8]),
                    F.max_unpool3d(volume, volume_places, 2, output_size=[4, 4, 4]))
    return Export(Net(), randn(2, 3, 8), randn(1, 2, 4, 4, 4))


@direct
def F_max_unpool(model: Model) -> None:
    shapes = {1: (2, 3, 8), 2: (2, 3, 6, 8), 3: (1, 2, 4, 6, 4)}
    keys = ["input", "indices"]
    for axes, shape in shapes.items():
        pool, unpool = getattr(F, f"max_pool{axes}d"), getattr(F, f"max_unpool{axes}d")
        for dtype in (torch.float32, torch.float64):
            values, places = pool(randn(*shape, dtype=dtype), 2, return_indices=True)
            for name in (f"F.max_unpool{axes}d", f"nn.MaxUnpool{axes}d"):
                model.op(name, values, places, f=lambda x, i: unpool(x, i, 2), keys=keys, kernel_size=2)
                model.op(name, values[0].clone(), places[0].clone(), f=lambda x, i: unpool(x, i, 2, 2), keys=keys,
                         kernel_size=(2,) * axes, stride=(2,) * axes, padding=(0,) * axes)
    values, places = F.max_pool2d(randn(1, 2, 5, 5), 3, 2, 1, return_indices=True)
    model.op("F.max_unpool2d", values, places, keys=keys, kernel_size=3, stride=2, padding=1, output_size=(5, 5))
