"""Other shapes of the same elements: reshape, views, axes exchanged, expanded and repeated."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, randn, random_integers, values_of


def turned(model: Model, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of this shape whose axes lie in memory in another order."""
    x = values_of(dtype, *reversed(shape))
    return model.op("Tensor.permute", x, dims=list(reversed(range(len(shape)))))[0]


def sizes(model: Model, expr: str, *tensors: torch.Tensor, f) -> torch.Tensor:
    """Integers that the model computes; `f` gives them as a list."""
    return model.op("pnnx.Expression", *tensors, f=lambda *x: torch.tensor(f(*x)), expr=expr)[0]


@direct
def Tensor_reshape(model: Model) -> None:
    for dtype in ALL:
        model.op("Tensor.reshape", values_of(dtype, 2, 3), shape=[3, -1])
    for name in ("Tensor.reshape", "torch.reshape"):
        for shape in ([-1], [6, 2], [2, 1, -1, 3], [1, 1, 1, 1, 1, 12, 1, 1]):
            model.op(name, randn(3, 4), f=lambda x: x.reshape(shape), shape=shape)
        model.op(name, turned(model, 3, 4), f=lambda x: x.reshape(2, 6), shape=[2, 6])
    model.op("Tensor.reshape", torch.tensor(2.5), shape=[1, 1])
    model.op("Tensor.reshape", randn(1), shape=[])
    model.op("Tensor.reshape", torch.tensor(2), shape=[])
    model.op("Tensor.reshape", randn(0, 3), shape=[3, 0])
    model.op("Tensor.reshape", randn(0, 3), shape=[-1])
    model.op("Tensor.reshape", randn(2, 0, 3), shape=[-1, 3])
    model.op("Tensor.reshape", randn(1, 2, 1, 1, 1, 1, 1, 2), shape=[-1])
    x, y = randn(2, 6), randn(3, 4)
    wanted = sizes(model, "[mul(size(@0,0),2),-1,sub(size(@1,1),3)]", x, y, f=lambda x, y: [4, -1, 1])
    model.op("Tensor.reshape", x, f=lambda x, shape: x.reshape(shape.tolist()), named={"shape": wanted})
    model.op("Tensor.reshape_as", x, named={"other": y})
    model.op("Tensor.reshape_as", turned(model, 2, 6), named={"other": randn(1, 12, 1)})
    model.op("Tensor.view_as", x, named={"other": randn(12)})


@direct
def Tensor_view(model: Model) -> None:
    x = randn(2, 6)
    for shape in ([-1], [3, 4], [2, 2, 3], [2, 1, 6], [12, 1]):
        model.op("Tensor.view", x, f=lambda x: x.view(shape), shape=shape)
    model.op("Tensor.view", randn(0, 2), shape=[2, 0, 5], f=lambda x: x.view(2, 0, 5))
    model.op("Tensor.view", turned(model, 4, 3), shape=[2, 2, 3], f=lambda x: x.view(2, 2, 3))
    model.op("Tensor.view", torch.tensor(1.0), shape=[1], f=lambda x: x.view(1))
    wanted = sizes(model, "[floor_divide(size(@0,1),2),-1]", x, f=lambda x: [x.size(1) // 2, -1])
    model.op("Tensor.view", x, f=lambda x, shape: x.view(shape.tolist()), named={"shape": wanted})


@direct
def torch_flatten(model: Model) -> None:
    x = randn(2, 1, 3, 2)
    for start, end in ((0, -1), (1, -1), (1, 2), (-2, -1), (2, 2), (-4, 1), (0, 0)):
        model.op("torch.flatten", x, start_dim=start, end_dim=end)
        model.op("nn.Flatten", x, start_dim=start, end_dim=end)
    model.op("torch.flatten", x)
    model.op("nn.Flatten", x)
    model.op("torch.flatten", torch.tensor(3.5), start_dim=0, end_dim=-1)
    model.op("torch.flatten", randn(3), start_dim=0, end_dim=0)
    model.op("torch.flatten", randn(2, 0, 3), start_dim=1)
    model.op("torch.flatten", turned(model, 2, 3, 2), start_dim=1)
    model.op("torch.flatten", randn(1, 1, 2, 1, 1, 1, 2, 1), start_dim=2, end_dim=-2)
    for dtype in ALL:
        model.op("torch.flatten", values_of(dtype, 1, 2, 1))


@direct
def torch_unflatten(model: Model) -> None:
    x = randn(2, 6)
    for name in ("torch.unflatten", "Tensor.unflatten"):
        for dim, lengths in ((1, [2, 3]), (-1, [-1, 2]), (0, [1, 1, 2, -1]), (-2, [2])):
            model.op(name, x, f=lambda x: x.unflatten(dim, lengths), dim=dim, sizes=lengths)
    model.op("nn.Unflatten", x, f=nn.Unflatten(1, (3, -1)), dim=1, unflattened_size=[3, -1])
    model.op("torch.unflatten", randn(0, 2), f=lambda x: x.unflatten(0, (0, 3)), dim=0, sizes=[0, 3])
    model.op("torch.unflatten", turned(model, 4, 2), f=lambda x: x.unflatten(0, (2, 2)), dim=0, sizes=[2, 2])
    for dtype in ALL:
        model.op("torch.unflatten", values_of(dtype, 4), f=lambda x: x.unflatten(0, (2, 2)), dim=0, sizes=[2, 2])


@direct
def torch_squeeze(model: Model) -> None:
    x = randn(1, 2, 1, 3, 1)
    for name in ("torch.squeeze", "Tensor.squeeze"):
        model.op(name, x)
        for dim in (0, 1, -1, -3, (0, 2), (0, 1, -1), (3,), ()):
            model.op(name, x, f=lambda x: torch.squeeze(x, dim), dim=dim)
    for name in ("torch.unsqueeze", "Tensor.unsqueeze"):
        for dim in (0, 1, -1, -3, 2):
            model.op(name, randn(2, 3), dim=dim)
    # ONNX's spelling, with several axes of the output.
    model.op("torch.unsqueeze", randn(2, 3), f=lambda x: x[None, :, None], dim=[0, 2])
    model.op("torch.unsqueeze", randn(2, 3), f=lambda x: x[..., None, None], dim=[-2, -1])
    model.op("torch.squeeze", torch.tensor(1.5))
    model.op("torch.squeeze", torch.tensor(1.5), dim=-1)
    model.op("torch.unsqueeze", torch.tensor(1.5), dim=-1)
    model.op("torch.squeeze", randn(1, 0, 1))
    model.op("torch.squeeze", randn(1, 1, 1, 1, 1, 1, 1, 1))
    for dtype in ALL:
        model.op("torch.squeeze", values_of(dtype, 1, 2), dim=0)
        model.op("torch.unsqueeze", values_of(dtype, 2), dim=0)


@direct
def torch_permute(model: Model) -> None:
    for name in ("torch.permute", "Tensor.permute"):
        for dims in ([2, 0, 1], [-1, 1, 0], [0, 1, 2]):
            model.op(name, randn(2, 3, 2), f=lambda x: x.permute(dims), dims=dims)
    for name in ("torch.transpose", "Tensor.transpose"):
        for dim0, dim1 in ((0, 1), (-1, 0), (1, 1), (-2, -3)):
            model.op(name, randn(2, 3, 2), dim0=dim0, dim1=dim1)
    for name in ("torch.t", "Tensor.t"):
        for shape in ((2, 3), (3,), (), (0, 2)):
            model.op(name, randn(*shape))
    for dtype in ALL:
        model.op("Tensor.permute", values_of(dtype, 2, 2), dims=[1, 0])
    model.op("Tensor.permute", torch.tensor(1.0), dims=[])
    model.op("torch.transpose", torch.tensor(1.0), dim0=0, dim1=-1)
    model.op("Tensor.permute", randn(2, 1, 1, 3, 1, 1, 2, 1), dims=[7, 6, 5, 0, 1, 2, 3, 4])
    model.op("Tensor.permute", randn(2, 0, 3), dims=[1, 2, 0])


@direct
def Tensor_expand(model: Model) -> None:
    for dtype in ALL:
        model.op("Tensor.expand", values_of(dtype, 2, 1), f=lambda x: x.expand(2, 2), sizes=[2, 2])
    x = randn(2, 1)
    for lengths in ([2, 3], [-1, 3], [3, 2, 1], [2, 1, -1, 4], [-1, -1], [2, 0], [1, 1, 1, 1, 1, 1, 2, 2]):
        model.op("Tensor.expand", x, f=lambda x: x.expand(lengths), sizes=lengths)
    model.op("Tensor.expand", torch.tensor(1.5), f=lambda x: x.expand(2, 2), sizes=[2, 2])
    model.op("Tensor.expand", torch.tensor(1.5), f=lambda x: x.expand([]), sizes=[])
    model.op("Tensor.expand", randn(1, 0), f=lambda x: x.expand(3, 0), sizes=[3, 0])
    model.op("Tensor.expand_as", x, named={"other": randn(3, 2, 4)})
    model.op("Tensor.expand_as", x, named={"other": random_integers(2, 0)})
    wide = model.op("Tensor.expand", turned(model, 1, 3), f=lambda x: x.expand(2, 3), sizes=[2, 3])[0]
    model.op("Tensor.reshape", wide, shape=[-1])
    wanted = sizes(model, "[size(@0,0),-1,add(size(@0,0),1)]", x, f=lambda x: [x.size(0), -1, x.size(0) + 1])
    model.op("Tensor.expand", x, f=lambda x, sizes: x.expand(sizes.tolist()), named={"sizes": wanted})


@direct
def torch_tile(model: Model) -> None:
    for dims in ([2], [1, 2], [2, 1, 2], [0, 2], [1], []):
        model.op("torch.tile", randn(2, 2), f=lambda x: torch.tile(x, dims), dims=dims)
    for repeats in ([2, 1], [1, 2], [2, 1, 2], [0, 1], [1, 1, 1, 1, 1, 1, 2, 1]):
        model.op("Tensor.repeat", randn(2, 2), f=lambda x: x.repeat(repeats), sizes=repeats)
    model.op("Tensor.repeat", torch.tensor(1.5), f=lambda x: x.repeat(3), sizes=[3])
    model.op("Tensor.repeat", torch.tensor(1.5), f=lambda x: x.repeat([]), sizes=[])
    model.op("Tensor.repeat", randn(0, 2), f=lambda x: x.repeat(2, 2), sizes=[2, 2])
    model.op("torch.tile", torch.tensor(1.5), f=lambda x: torch.tile(x, (2, 2)), dims=[2, 2])
    model.op("torch.tile", turned(model, 2, 3), f=lambda x: torch.tile(x, (2,)), dims=[2])
    for dtype in ALL:
        model.op("Tensor.repeat", values_of(dtype, 2), f=lambda x: x.repeat(2), sizes=[2])
    x = randn(2, 2)
    wanted = sizes(model, "[size(@0,0),1]", x, f=lambda x: [2, 1])
    model.op("Tensor.repeat", x, f=lambda x, sizes: x.repeat(sizes.tolist()), named={"sizes": wanted})


@direct
def torch_repeat_interleave(model: Model) -> None:
    x = randn(2, 3)
    for dim in (None, 0, 1, -1):
        model.op("torch.repeat_interleave", x, dim=dim, repeats=2)
    model.op("torch.repeat_interleave", x, dim=1, repeats=0)
    model.op("torch.repeat_interleave", x, dim=1, repeats=3, output_size=9)
    model.op("torch.repeat_interleave", x, named={"repeats": torch.tensor([1, 0, 2])}, dim=1)
    model.op("torch.repeat_interleave", x, named={"repeats": torch.tensor([2])}, dim=0)
    model.op("torch.repeat_interleave", x, named={"repeats": torch.tensor(2)}, dim=-2)
    model.op("torch.repeat_interleave", x, named={"repeats": torch.tensor([0, 1, 0, 2, 1, 1])}, dim=None)
    model.op("torch.repeat_interleave", x, named={"repeats": torch.tensor([2, 3], dtype=torch.int32)}, dim=0)
    model.op("torch.repeat_interleave", x, named={"repeats": torch.tensor([0, 4])}, dim=0, output_size=4)
    model.op("torch.repeat_interleave", randn(0, 2), dim=0, repeats=3)
    model.op("torch.repeat_interleave", turned(model, 2, 3), dim=None, repeats=2)
    model.op("torch.repeat_interleave", torch.tensor(2.5), dim=None, repeats=2)
    for dtype in ALL:
        model.op("torch.repeat_interleave", values_of(dtype, 2), dim=0, repeats=2)


@direct
def torch_roll(model: Model) -> None:
    x = randn(3, 4)
    for shifts, dims in ((1, 0), (-1, 1), ((1, 2), (0, 1)), ((5,), (-1,)), ((1, 1), (1, 1)), ((0, -7), (0, -1))):
        model.op("torch.roll", x, shifts=shifts, dims=dims)
    model.op("torch.roll", x, shifts=5, dims=None)
    model.op("torch.roll", x, shifts=[-2])
    model.op("torch.roll", randn(0, 3), shifts=2, dims=0)
    model.op("torch.roll", torch.tensor(1.5), shifts=2)
    for dims in ([0], [-1], [0, 1], []):
        model.op("torch.flip", x, dims=dims)
    model.op("torch.flip", randn(2, 0, 2), dims=[0, 2])
    model.op("torch.flip", torch.tensor(1.5), dims=[0])
    model.op("torch.flip", randn(2, 1, 1, 2, 1, 1, 1, 2), dims=[0, -1, 3])
    model.op("torch.roll", turned(model, 2, 3), shifts=1, dims=1)
    model.op("torch.flip", turned(model, 2, 3), dims=[1])
    for dtype in ALL:
        model.op("torch.roll", values_of(dtype, 3), shifts=1, dims=0)
        model.op("torch.flip", values_of(dtype, 3), dims=[0])


@direct
def Tensor_contiguous(model: Model) -> None:
    x = turned(model, 2, 3)
    model.op("Tensor.contiguous", x, memory_format=torch.contiguous_format)
    model.op("Tensor.contiguous", x)
    for name in ("torch.clone", "Tensor.clone"):
        for memory_format in (torch.contiguous_format, torch.preserve_format):
            model.op(name, x, memory_format=memory_format)
        model.op(name, randn(1, 2, 2, 2), memory_format=torch.channels_last)
        model.op(name, x)
    for dtype in ALL:
        model.op("torch.clone", values_of(dtype, 2), memory_format=torch.preserve_format)
    model.op("torch.clone", torch.tensor(1.5))
    model.op("torch.clone", randn(2, 0))


@direct
def torch_diag(model: Model) -> None:
    for shape in ((3,), (3, 3), (2, 4), (4, 2), (0,), (0, 2), (1, 1)):
        for diagonal in (0, 1, -2):
            if len(shape) == 1 or min(shape) > 1:
                model.op("torch.diag", randn(*shape), diagonal=diagonal)
    model.op("torch.diag", randn(2, 4), diagonal=3)
    model.op("torch.diag", randn(2, 4))
    model.op("torch.diag", turned(model, 3, 2), diagonal=-1)
    for dtype in ALL:
        model.op("torch.diag", values_of(dtype, 2, 2), diagonal=0)


@direct
def torch_as_strided(model: Model) -> None:
    x = randn(12)
    for size, stride, offset in (([2, 3], [3, 1], 0), ([3, 2], [1, 3], 2), ([2, 2], [0, 5], 1), ([], [], 4), ([0, 3], [1, 1], 0)):
        model.op("torch.as_strided", x, f=lambda x: torch.as_strided(x, size, stride, offset),
                 size=size, stride=stride, storage_offset=offset)
    model.op("torch.as_strided", randn(3, 4), size=[4, 2], stride=[1, 4])
    model.op("torch.as_strided", randn(3, 4), size=[4, 2], stride=[1, 4], storage_offset=None)
    for dtype in ALL:
        model.op("torch.as_strided", values_of(dtype, 4), size=[3, 2], stride=[1, 1])


@exported
def shapes() -> Export:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.flatten, self.unflatten = nn.Flatten(1, 2), nn.Unflatten(-1, (2, 2))

        def forward(self, x, y):
            return (
                x.reshape(-1), x.reshape(2, -1, 2), torch.reshape(x, (4, 6)), x.view(6, 4), x.view(2, 3, 2, 2),
                x.reshape_as(y), y.view_as(x), x.flatten(), x.flatten(1), torch.flatten(x, 0, -2), self.flatten(x),
                self.unflatten(x), x.unflatten(2, (1, -1, 2)), torch.unflatten(x, 0, (2, 1)), x[None].squeeze(0),
                x.unsqueeze(1).squeeze(), x[:, None, :, None].squeeze((1, 3)), x.unsqueeze(-1), torch.unsqueeze(x, 0),
                x.permute(2, 0, 1), torch.permute(x, (-1, 1, 0)), x.transpose(0, -1), y.t(), y.T, x.mT, torch.swapaxes(x, 1, 2),
                x[:, :1].expand(-1, 3, 4), x[0, 0].expand(2, 2, 4), x[:, :1].expand_as(x), x.repeat(1, 2, 1),
                torch.tile(x, (2,)), x.repeat_interleave(2, 1), torch.repeat_interleave(x, torch.tensor([1, 0, 2]), dim=1),
                x.repeat_interleave(2), x.roll(1, 0), torch.roll(x, (1, -1), (1, 2)), x.roll(3), x.flip(0), torch.flip(x, (1, 2)),
                x.transpose(0, 1).contiguous(), x.clone(), y.diag(), y[0].diag(1), y.narrow(1, 2, 3), x.select(1, -1),
                x.movedim(0, -1), torch.ravel(x), x.broadcast_to(2, 2, 3, 4), torch.as_strided(y, (2, 3), (1, 2)),
            )
    return Export(Net(), randn(2, 3, 4), randn(4, 6))


@exported
def shapes_of_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            b, c, h, w = x.shape
            windows = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, c)
            back = windows.view(b, h // 2, w // 2, 2, 2, -1).permute(0, 5, 1, 3, 2, 4).contiguous().view(b, -1, h, w)
            tokens = x.flatten(2).transpose(1, 2)
            heads = tokens.reshape(b, -1, 2, c // 2).transpose(1, 2)
            row = y.view(1, 1, 1, -1).expand(b, c, h, w)
            return (back - x, tokens, heads.reshape(b, -1, 2), row * x, x.reshape(b, c, -1).mean(-1).view(b, c, 1, 1).expand_as(x),
                    x.permute(0, 2, 3, 1).reshape(-1, c), y.repeat(b, h, 1), y.unsqueeze(0).repeat_interleave(h, 0),
                    x.flatten(1), x.reshape(x.size(0), -1).unflatten(1, (c, -1)), torch.roll(x, (h // 2, -1), (2, 3)),
                    x.flip(-1), torch.tile(y, (h, 2)), x.view(b * c, 1, h, w).squeeze(1))
    return Export(Net(), randn(1, 2, 4, 6), randn(6), others=[
        (randn(2, 2, 6, 8), randn(8)), (randn(3, 2, 2, 2), randn(2)), (randn(1, 2, 2, 8), randn(8))])


@direct
def Tensor_as_strided(model: Model) -> None:
    x = randn(2, 6)
    model.op("Tensor.as_strided", x, f=lambda x: x.as_strided((3, 2), (2, 1), 4), size=[3, 2], stride=[2, 1], storage_offset=4)
    model.op("Tensor.as_strided", x, f=lambda x: x.as_strided((2, 2, 2), (6, 1, 1)), size=[2, 2, 2], stride=[6, 1, 1])
    model.op("aten::atleast_1d", torch.tensor(1.5), f=torch.atleast_1d)
    for shape in ((), (2,), (2, 3), (2, 1, 3)):
        model.op("aten::atleast_3d", randn(*shape), f=torch.atleast_3d)
    for dtype in ALL:
        model.op("aten::zero", values_of(dtype, 2), f=torch.zeros_like)
