"""Elements by index: slices, lists, masks, gather and scatter, and what assignments become."""

import torch
import torch.nn.functional as F
from torch import nn

from case import Export, Model, direct, exported
from values import ALL, FLOATS, INTEGERS, REALS, randn, random_bools, random_integers, values_of


@direct
def Tensor_select(model: Model) -> None:
    for name in ("Tensor.select", "torch.select"):
        for dim, index in ((0, 1), (1, -1), (-1, 2), (-2, 0)):
            model.op(name, randn(2, 3), f=lambda x: x.select(dim, index), dim=dim, index=index)
    for name in ("torch.narrow", "Tensor.narrow"):
        for dim, start, length in ((0, 0, 2), (1, 1, 2), (-1, -2, 1), (1, 3, 0)):
            model.op(name, randn(2, 3), f=lambda x: x.narrow(dim, start, length), dim=dim, start=start, length=length)
    for dtype in ALL:
        model.op("Tensor.select", values_of(dtype, 2, 2), f=lambda x: x.select(0, 1), dim=0, index=1)
    model.op("Tensor.select", randn(1, 1, 1, 1, 2, 1, 1, 1), f=lambda x: x.select(4, 1), dim=4, index=1)
    model.op("Tensor.select", randn(2, 0), f=lambda x: x.select(0, 1), dim=0, index=1)


@direct
def torch_index_select(model: Model) -> None:
    x = randn(3, 4)
    for dim, index in ((0, [2, 0, 0]), (1, [3]), (-1, []), (-2, [1, 1])):
        model.op("torch.index_select", x, named={"index": torch.tensor(index, dtype=torch.int64)}, dim=dim)
    model.op("torch.index_select", x, named={"index": torch.tensor([1, 2], dtype=torch.int32)}, dim=1)
    model.op("torch.index_select", x, named={"index": torch.tensor(2)}, dim=0)
    model.op("torch.index_select", torch.tensor(1.5), named={"index": torch.tensor([0])}, dim=0)
    for dtype in ALL:
        model.op("torch.index_select", values_of(dtype, 3, 2), named={"index": torch.tensor([2, 1])}, dim=0)


@direct
def torch_gather(model: Model) -> None:
    x = randn(3, 4)
    for dim, shape in ((0, (2, 4)), (1, (3, 6)), (-1, (2, 2)), (-2, (0, 3))):
        index = random_integers(*shape, high=3)
        model.op("torch.gather", x, named={"index": index}, f=lambda x, index: torch.gather(x, dim, index), dim=dim)
    model.op("torch.gather", torch.tensor(1.5), named={"index": torch.tensor(0)}, dim=0)
    model.op("torch.gather", torch.tensor(1.5), named={"index": torch.tensor([0, 0])}, dim=0)
    model.op("torch.gather", randn(4), named={"index": torch.tensor(3)}, dim=0)
    model.op("torch.gather", randn(2, 1, 3, 1, 1, 2), named={"index": random_integers(2, 1, 4, 1, 1, 1, high=3)}, dim=2)
    for dtype in ALL:
        model.op("torch.gather", values_of(dtype, 2, 3), named={"index": random_integers(2, 2, high=3)}, dim=1)


@direct
def torch_scatter_add(model: Model) -> None:
    def add(x, dim, index, src):
        model.op("torch.scatter_add", x, named={"index": index, "src": src},
                 f=lambda x, index, src: torch.scatter_add(x, dim, index, src), dim=dim)
    add(randn(3, 4), 0, random_integers(2, 4, high=3), randn(2, 4))
    add(randn(3, 4), 1, random_integers(3, 6, high=4), randn(3, 7))
    add(randn(3, 4), -1, random_integers(1, 2, high=4), randn(2, 3))
    add(randn(5), 0, torch.tensor([1, 1, 1, 4]), randn(4))
    add(randn(5), 0, torch.zeros(0, dtype=torch.int64), randn(0))
    add(torch.tensor(1.0), 0, torch.tensor(0), torch.tensor(2.0))
    for dtype in FLOATS + INTEGERS:
        add(values_of(dtype, 3), 0, torch.tensor([0, 2, 0]), values_of(dtype, 3))
    for dtype in (torch.complex64, torch.complex128, torch.bool):
        add(values_of(dtype, 3), 0, torch.tensor([0, 2, 0]), values_of(dtype, 3))


@direct
def Tensor_masked_fill(model: Model) -> None:
    x, mask = randn(2, 3), random_bools(2, 3)
    for name in ("Tensor.masked_fill", "torch.masked_fill"):
        model.op(name, x, mask, f=lambda x, mask: x.masked_fill(mask, -1e9), keys=["input", "mask"], value=-1e9)
        model.op(name, x, random_bools(3), f=lambda x, mask: x.masked_fill(mask, float("-inf")), value=float("-inf"))
        model.op(name, randn(3), random_bools(2, 1), f=lambda x, mask: torch.masked_fill(x, mask, 2), value=2)
    model.op("Tensor.masked_fill", x, named={"mask": mask, "value": torch.tensor(0.5)})
    model.op("Tensor.masked_fill", torch.tensor(1.0), torch.tensor(True), f=lambda x, m: x.masked_fill(m, 3), value=3)
    model.op("Tensor.masked_fill", randn(0, 2), random_bools(0, 2), f=lambda x, m: x.masked_fill(m, 3), value=3)
    for dtype in ALL:
        model.op("Tensor.masked_fill", values_of(dtype, 4), random_bools(4), f=lambda x, m: x.masked_fill(m, 1), value=1)
        model.op("torch.masked_select", values_of(dtype, 4), named={"mask": random_bools(4)})
    model.op("torch.masked_select", x, named={"mask": random_bools(2, 1)})
    model.op("torch.masked_select", randn(3), named={"mask": random_bools(2, 1)})
    model.op("torch.masked_select", torch.tensor(1.0), named={"mask": torch.tensor(True)})
    model.op("torch.masked_select", x, named={"mask": torch.zeros(2, 3, dtype=torch.bool)})


@exported
def slices() -> Export:
    class Net(nn.Module):
        def forward(self, x):
            return (
                x[0], x[-1], x[:, 1], x[..., 0], x[1:], x[:, ::2], x[..., 1:-1], x[:, 1:3, ::3], x[0, 1], x[0, 1, 2], x[None],
                x[:, None, 1], x[..., None], x[1, :, 2:], x[:, -2:], x[:, :-1, 1], x[0:1, 0], x[:, 5:], x[..., 1:100], x[-2:, ..., -1],
                x[:, 2:2], x[1:][0], x[:, 1::2, ::2], x[:, :, [0, 2]], x[:, [1]], x[[0, 1, 0], 1], x[[1], [2], [3]], x[[0, 1], :, [1, 2]],
                x[:, torch.tensor([True, False, True])], x[[[0, 1], [1, 0]]], x[x > 0], x[:, None, [0, 1]], x[1, [0, 2], 1:3],
                x.narrow(1, 1, 2), x.select(-1, 2),
            )
    return Export(Net(), randn(2, 3, 4))


@exported
def indices_as_inputs() -> Export:
    class Net(nn.Module):
        def forward(self, x, i, j, mask):
            mask = mask > 0
            return (
                x[i], x[:, j], x[i, j], x[i[:, None], j], x[i, :, j], x[:, i, 1:], x[mask], x[:, i, j], x[..., j], x[i[:, None], :, j[None]],
                x[mask[:, 0]], x[0, i], x[i, 1], x[None, i], torch.index_select(x, 1, j), x.gather(1, j.view(1, -1, 1).expand(2, -1, 4)),
                x.masked_fill(mask[..., None], -1.0), torch.where(mask[..., None], x, 0), x.masked_select(mask[..., None]),
                torch.take_along_dim(x, j.view(1, -1, 1), 1), torch.zeros_like(x).scatter_add(1, j.view(1, -1, 1).expand(2, -1, 4), x),
                F.embedding(i, x[0]), x[i.clamp(max=0), -1], x[-i], x[:, j.flip(0)],
            )
    return Export(Net(), randn(2, 3, 4), torch.tensor([1, 0, 1]), torch.tensor([2, 0, 1]), randn(2, 3))


@exported
def assignments() -> Export:
    class Net(nn.Module):
        def forward(self, x, y, i):
            a, b, c, d, e, f = (x.clone() for _ in range(6))
            a[:, 0] = y
            a[1:, 1:] = 0
            a[0, 0, 0] = 5.0
            b[i] = 1.5
            b[:, i] += 2
            c[x > 0] = 0
            c[..., 1] *= 3
            d[:, 1:, ::2] = y[:2]
            e += 1
            e[0] -= y[0]
            e[:, 2].mul_(2)
            f[[0, 1], [1, 2]] = y[:1]
            f.index_put_((i, i), y[0], accumulate=True)
            f[:, [0, 2]] = 7
            return a, b, c, d, e, f, x
    return Export(Net(), randn(2, 3, 4), randn(4), torch.tensor([1, 0]))


@exported
def assignments_of_any_size() -> Export:
    class Net(nn.Module):
        def forward(self, x, y):
            n = x.size(1)
            half = x[:, : n // 2]
            x = x.clone()
            x[:, n // 2:] = 0
            x[:, -1] += 1
            return half + y[:, None], x, x[:, n - 1], x[:, :, : n - 2]
    return Export(Net(), randn(1, 4, 6), randn(1, 6), others=[(randn(2, 5, 6), randn(2, 6)), (randn(3, 3, 6), randn(3, 6)),
                                                             (randn(1, 6, 6), randn(1, 6))])


@exported
def masks_of_any_length() -> Export:
    """Causal, padding and window masks of attention, as language models make them."""
    class Net(nn.Module):
        def forward(self, x, lengths):
            b, n, c = x.shape
            steps = torch.arange(n, device=x.device)
            causal = steps[None, :] <= steps[:, None]
            padding = steps[None, :] < lengths[:, None]
            window = (steps[:, None] - steps[None, :]).abs() < 2
            mask = causal[None] & padding[:, None, :]
            scores = (x @ x.transpose(1, 2)).masked_fill(~mask, float("-inf"))
            weights = torch.nan_to_num(scores.softmax(-1))
            bias = torch.where(window, 0.0, torch.finfo(x.dtype).min)
            position = steps.unsqueeze(0).expand(b, n) - (n - 1)
            last = x[torch.arange(b), lengths - 1]
            upper = torch.ones(n, n, dtype=torch.bool).triu(1)
            filled = scores.masked_fill(upper, 0.0).masked_fill(~causal, 0)
            full = torch.full((n, n), -1e4).triu(1) + x @ x.mT
            return weights, bias, position, last, filled[:, -1, -1:], full, mask.sum(-1), (x * padding[..., None]).sum(1) / lengths[:, None]
    return Export(Net(), randn(2, 4, 3), torch.tensor([4, 2]), others=[
        (randn(1, 3, 3), torch.tensor([3])), (randn(3, 6, 3), torch.tensor([1, 6, 3])), (randn(2, 1, 3), torch.tensor([1, 1]))])


@exported
def best_elements() -> Export:
    class Net(nn.Module):
        def forward(self, x, table):
            values, places = x.topk(2, dim=1)
            rows = torch.arange(x.size(0))
            best = x.argmax(1)
            return (values, table[places], x.gather(1, places), x[rows, best], F.one_hot(best, 5), table[best].sum(0),
                    x.max(1)[1], torch.topk(x, 3, dim=-1, largest=False)[1], x == x.max(1, keepdim=True)[0])
    return Export(Net(), randn(3, 5), randn(5, 2))


@direct
def Tensor_slice(model: Model) -> None:
    def cut(x, dim, start, end, step):
        index = [slice(None)] * (dim % x.dim()) + [slice(start, end, step)]
        model.op("Tensor.slice", x, f=lambda x: x[tuple(index)], dim=dim, start=start, end=end, step=step)
    for dim, start, end, step in ((0, 0, 2, 1), (1, 1, 2147483647, 2), (-1, -3, -1, 1), (1, 2, 2, 1), (0, -9, 9, 3), (1, 3, 1, 1)):
        cut(randn(3, 4), dim, start, end, step)
    for dtype in ALL:
        cut(values_of(dtype, 5), 0, 1, 5, 2)
    cut(randn(0, 2), 0, 0, 1, 1)
    cut(randn(1, 1, 1, 1, 1, 1, 1, 3), -1, 1, 3, 1)
    turned = model.op("torch.t", randn(3, 4))[0]
    cut(turned, 0, 1, 4, 2)
    last = 2147483647
    model.op("Tensor.slice", randn(2, 3, 4), f=lambda x: x[:, 1:, 2], dims=[0, 1, 2], starts=[0, 1, 0], ends=[last, last, 0],
             steps=[1, 1, 0], selects=[last, last, 2])


@direct
def torch_slice_scatter(model: Model) -> None:
    for dtype in ALL:
        model.op("torch.slice_scatter", values_of(dtype, 5), named={"src": values_of(dtype, 2)}, dim=0, start=1, end=5, step=2)
    for dim, start, end, step, shape in ((1, 1, 3, 1, (2, 2)), (-1, 0, None, 2, (2, 2)), (0, -1, None, 1, (1, 4)), (1, 2, 2, 1, (2, 0))):
        model.op("torch.slice_scatter", randn(2, 4), named={"src": randn(*shape)}, dim=dim, start=start, end=end, step=step)


@direct
def Tensor_index(model: Model) -> None:
    def at(x, expr, *tensors):
        lists = [torch.tensor(item) if isinstance(item, list) else item for item in eval(expr, {f"t{i}": t for i, t in enumerate(tensors)})]
        index = tuple(slice(None) if item is None else item for item in lists)
        text = expr.replace(" ", "")
        for position in range(len(tensors)):
            text = text.replace(f"t{position}", f"@{position + 1}")
        model.op("Tensor.index", x, *tensors, f=lambda x, *_: x[index], expr=text)
    x, i, j = randn(3, 4, 2), torch.tensor([2, -1]), torch.tensor([[0], [1]])
    for expr in ("[[2, 0]]", "[None, [1, -1, 0]]", "[[0, 1], [3, 2]]", "[[0, 1], None, [1, 0]]", "[None, None, [1]]", "[[True, False, True]]",
                 "[None, [False, True, True, False]]", "[[[0, 1], [2, 0]], [1, 3]]"):
        at(x, expr)
    for expr in ("[t0]", "[None, t0]", "[t0, t1]", "[t0, None, t1]", "[None, t0, t1]", "[t1, t0]"):
        at(x, expr, *([i, j] if "t1" in expr else [i]))
    at(x, "[t0]", random_bools(3))
    at(x, "[t0]", random_bools(3, 4))
    at(x, "[None, t0]", random_bools(4, 2))
    at(x, "[t0]", torch.zeros(0, dtype=torch.int64))
    for dtype in ALL:
        at(values_of(dtype, 3), "[[2, 0, 2]]")


@direct
def Tensor_index_put(model: Model) -> None:
    for dtype in ALL:
        i = torch.tensor([2, 0, 2])
        for accumulate in (False, True):
            if not accumulate or not (dtype.is_complex or dtype in FLOATS[2:]):
                x, values = values_of(dtype, 3), values_of(dtype, 3) if accumulate else values_of(dtype, 1)
                model.op("Tensor.index_put", x, i, values, f=lambda x, i, v: x.index_put((i,), v, accumulate), indices="[@1]",
                         keys=["input", None, "values"], accumulate=accumulate)


@direct
def torch_index_add(model: Model) -> None:
    i = torch.tensor([2, 0, 2])
    for name in ("torch.index_add", "Tensor.index_add"):
        for dtype in REALS if name[0] == "t" else ():
            # PyTorch rounds halves at every step.
            index = torch.tensor([2, 0, 1]) if dtype in FLOATS[2:] else i
            model.op(name, values_of(dtype, 3), named={"index": index, "source": values_of(dtype, 3)}, dim=0)
        model.op(name, randn(2, 4), named={"index": i, "source": randn(2, 3)}, dim=-1, alpha=0.5)
    for name in ("torch.index_fill", "Tensor.index_fill"):
        for dtype in ALL if name[0] == "t" else ():
            model.op(name, values_of(dtype, 3), named={"index": i}, f=lambda x, index: x.index_fill(0, index, 1), dim=0, value=1)
        model.op(name, randn(2, 4), named={"index": i}, f=lambda x, index: x.index_fill(1, index, -2.5), dim=1, value=-2.5)
        model.op(name, randn(4), named={"index": i, "value": torch.tensor(2.0)}, f=lambda x, index, value: x.index_fill(0, index, value), dim=0)
