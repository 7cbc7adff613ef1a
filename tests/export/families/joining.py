"""Tensors joined and taken apart: cat, stack, chunk, split, tensor_split, unbind."""

import torch
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, randn, random_integers, values_of

# What tensors of these types join to, by pairs.
MIXED = [(torch.float32, torch.float64), (torch.int64, torch.float32), (torch.uint8, torch.int8),
         (torch.bool, torch.int16), (torch.bfloat16, torch.float16), (torch.float16, torch.int64),
         (torch.complex64, torch.float64), (torch.bool, torch.bool), (torch.int32, torch.complex64)]


@direct
def torch_cat(model: Model) -> None:
    def cat(*tensors, name="torch.cat", **params):
        return model.op(name, *tensors, f=lambda *x: torch.cat(x, **params), **params)[0]
    for dtype in ALL:
        cat(values_of(dtype, 2, 3), values_of(dtype, 2, 1), dim=1)
    for name in ("torch.concat", "torch.concatenate"):
        cat(randn(1, 2), randn(3, 2), name=name, dim=-2)
        cat(randn(2), randn(1), name=name)
    for first, second in MIXED:
        cat(values_of(first, 2), values_of(second, 3), dim=0)
    # A vector without elements joins anything, and still has a say in the type.
    legacy = randn(0)
    cat(legacy, randn(2, 3), dim=1)
    cat(randn(2, 3), legacy, randn(2, 1), dim=-1)
    cat(legacy, legacy, dim=0)
    cat(randn(0, dtype=torch.float64), randn(2, 3), dim=0)
    cat(random_integers(2, 3), randn(0), dim=0)
    cat(randn(0, 3), randn(2, 3), dim=0)
    cat(randn(2, 0), randn(2, 0), dim=0)
    cat(randn(2, 0), randn(2, 3), randn(2, 0), dim=1)
    for rank in range(1, 9):
        x = randn(*[1] * (rank - 1), 2)
        cat(x, x, x, dim=-rank)
    turned = model.op("torch.transpose", randn(2, 3), dim0=0, dim1=1)[0]
    wide = model.op("Tensor.expand", randn(3, 1), f=lambda x: x.expand(3, 2), sizes=[3, 2])[0]
    cat(turned, wide, turned, dim=0)
    cat(*[randn(1) for _ in range(12)], dim=0)


@direct
def torch_stack(model: Model) -> None:
    def stack(*tensors, **params):
        model.op("torch.stack", *tensors, f=lambda *x: torch.stack(x, **params), **params)
    for dtype in ALL:
        stack(values_of(dtype, 2), values_of(dtype, 2), dim=0)
    for first, second in MIXED:
        stack(values_of(first, 2), values_of(second, 2), dim=1)
    for dim in (-3, -2, -1, 0, 1, 2):
        stack(randn(2, 3), randn(2, 3), randn(2, 3), dim=dim)
    stack(randn(2))
    stack(torch.tensor(1.5), torch.tensor(2.5), dim=-1)
    stack(randn(0, 2), randn(0, 2), dim=1)
    stack(randn(1, 1, 1, 1, 1, 1, 2), randn(1, 1, 1, 1, 1, 1, 2), dim=-4)


@direct
def torch_chunk(model: Model) -> None:
    for name in ("torch.chunk", "Tensor.chunk"):
        for length, chunks in ((7, 3), (5, 4), (2, 5), (1, 1)) if name[0] == "t" else ((9, 5),):
            model.op(name, randn(2, length), chunks=chunks, dim=1)
        model.op(name, randn(3), chunks=2)
    for dtype in ALL:
        model.op("torch.chunk", values_of(dtype, 3, 2), chunks=2, dim=-2)
    model.op("torch.chunk", randn(2, 0), chunks=3, dim=1)
    model.op("torch.chunk", randn(0, 4), chunks=2, dim=1)
    model.op("torch.chunk", randn(1, 1, 1, 1, 1, 1, 1, 4), chunks=2, dim=-1)


@direct
def torch_split(model: Model) -> None:
    def split(x, sections, name="torch.split", **dim):
        model.op(name, x, f=lambda x: torch.split(x, sections, **dim), split_size_or_sections=sections, **dim)
    for name in ("torch.split", "Tensor.split"):
        for sections in (3, 7, 9, [1, 4, 2], [0, 7], [7]) if name[0] == "t" else (2, [3, 0, 4]):
            split(randn(7, 2), sections, name, dim=-2)
        split(randn(3, 2), 2, name)
    for dtype in ALL:
        split(values_of(dtype, 2, 5), [3, 2], dim=1)
    split(randn(0, 2), 3, dim=0)
    split(randn(0, 2), 0, dim=0)
    split(randn(0, 2), [0, 0], dim=0)
    split(randn(2, 0, 3), 2, dim=2)
    split(randn(1, 1, 1, 1, 1, 1, 1, 3), 2, dim=7)
    turned = model.op("torch.t", randn(4, 3))[0]
    split(turned, [1, 2], dim=0)


@direct
def torch_tensor_split(model: Model) -> None:
    def parts(x, key, value, name="torch.tensor_split", **dim):
        model.op(name, x, f=lambda x: torch.tensor_split(x, value, **dim), **{key: value}, **dim)
    for name in ("torch.tensor_split", "Tensor.tensor_split"):
        for sections in (1, 3, 9) if name[0] == "t" else (2,):
            parts(randn(2, 7), "sections", sections, name, dim=1)
        for indices in ([3], [0, 7], [5, 2], [-3, -1], []) if name[0] == "t" else ([2, 2, 5], [4, 12]):
            parts(randn(7, 2), "indices", indices, name, dim=0)
        parts(randn(4), "sections", 3, name)
        parts(randn(4), "indices", [1, 3], name)
    for dtype in ALL:
        parts(values_of(dtype, 5), "indices", [2], dim=-1)
    parts(randn(0, 3), "sections", 3, dim=0)
    parts(randn(2, 0, 3), "indices", [1], dim=2)


@direct
def torch_unbind(model: Model) -> None:
    for name in ("torch.unbind", "Tensor.unbind"):
        for dim in (-2, 0, 2) if name[0] == "t" else (-3, 1):
            model.op(name, randn(2, 2, 2), dim=dim)
        model.op(name, randn(4))
    for dtype in ALL:
        model.op("torch.unbind", values_of(dtype, 2, 3), dim=0)
    model.op("torch.unbind", randn(0, 2), dim=1)
    model.op("torch.unbind", randn(1, 1, 1, 1, 1, 1, 1, 2), dim=-1)


@exported
def joining() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, n):
            return (
                torch.cat([x, y]), torch.cat((x, y, x), dim=-2), torch.cat([x, n], 0), torch.concat([x, y], dim=0),
                torch.concatenate([y, y], 1), torch.hstack([x, x]), torch.vstack([x, y]), torch.dstack([x, x]),
                torch.column_stack([x, x]), torch.stack([x, x]), torch.stack((x, x * 2), dim=-1),
                torch.stack([x[0], n[0]], 1), torch.cat([x.sum(1), n.sum(1)], 0), torch.cat([x > 0, n], 0),
                torch.cat([x, torch.zeros(0)]),
            )
    return Export(Net(), randn(2, 3), randn(4, 3), random_integers(1, 3),
                  others=[(randn(3, 3), randn(2, 3), random_integers(2, 3)),
                          (randn(1, 3), randn(0, 3), random_integers(5, 3))])


@exported
def taking_apart() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            a, b, c = x.chunk(3, dim=1)
            first, _, third = torch.split(x, 3, dim=-1)
            d, e = x.split([2, 5], 2)
            f, g, h, i = torch.tensor_split(x, 4, dim=2)
            j, k, l = x.tensor_split((2, -3), dim=-1)
            m, n, o = torch.unbind(x, 1)
            p, q = x.unbind()
            _, only = x.chunk(2, 0)
            r, s = torch.hsplit(x, [1])
            t, u = torch.vsplit(x, 2)
            v = torch.dsplit(x, 7)[3]
            return ((a, [b, c]), first, third, (d, (e, [f, g, h, i])), j, k, l, m, n, o, p * 2 + q, only,
                    r, s, t, u, v, x.chunk(7, 2)[-1])
    return Export(Net(), randn(2, 3, 7))


@exported
def parts_of_any_length() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            a, b = x.chunk(2, dim=1)
            c, d, e = x.tensor_split(3, dim=1)
            f, g, h = x.tensor_split((2, -2), dim=1)
            k, l = x.split([3, x.size(1) - 3], dim=1)
            return torch.cat([b, a], 1), c, d, e, f, g, h, k, l, torch.stack(x.unbind(0), -1), a * b
    return Export(Net(), randn(2, 8, 3), others=[(randn(2, 10, 3),), (randn(2, 4, 3),), (randn(2, 6, 3),)])


@exported
def outputs_of_all_kinds() -> Export:
    """Inputs that are outputs, the same tensor twice, tuples within tuples, constants."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(randn(2, 3))
            self.register_buffer("steps", torch.arange(4))

        def forward(self, x, y):
            z = x + y
            return x, (z, z), (y, ((self.weight, self.steps), (x * 2, (z - 1,)))), z, self.steps
    return Export(Net(), randn(2, 3), randn(3))


@exported
def a_single_list() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return [x.sum(), x]
    return Export(Net(), randn(2, 2))


@exported
def lists_as_inputs_of_joins() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            parts = []
            for i, part in enumerate(x.split(1, dim=1)):
                parts.append(part * i)
            parts = parts[::-1] + [x]
            everything = torch.cat(parts, 1)
            rows = [row.mean() for row in torch.unbind(everything, 1)]
            return everything, torch.stack(rows), torch.cat([row[None] for row in rows[1:]])
    return Export(Net(), randn(2, 4, 3), others=[(randn(3, 4, 3),), (randn(1, 4, 2),), (randn(5, 4, 1),)])
