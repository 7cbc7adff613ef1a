"""Reductions: sums, means, products, variances, norms, extremes and their places, any and all, topk."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from case import Export, Model, direct, exported
from values import ALL, COMPLEX, FLOATS, INF, INTEGERS, NAN, rand, randn, random_bools, random_integers, special, values_of

# Tensors that become one number each in some way: NaN, infinities of both signs, zeros.
ORDERED = [dtype for dtype in ALL if not dtype.is_complex and dtype != torch.bool] + [torch.bool]
ODD = [[1.0, NAN, 2.0], [INF, 1.0, -1.0], [INF, -INF, 0.0], [-0.0, -0.0, -0.0]]


def of_all_types(model: Model, op: str, dtypes: list[torch.dtype], *settings: dict) -> None:
    """Each type with each of these parameters."""
    for dtype in dtypes:
        x = values_of(dtype, 2, 3)
        for params in settings or [{}]:
            model.op(op, x, **params)


def of_all_axes(model: Model, op: str, single: bool = False) -> None:
    """Every way to name axes, with and without keepdim; all ranks; axes without elements that stay."""
    x = randn(2, 3, 4)
    for dim in ([0], [-1], [1], 2) if single else ([0], [-1], [0, 2], [-3, -2], [0, 1, 2], 1, -1):
        of = dim if not single or isinstance(dim, int) else dim[0]
        model.op(op, x, dim=of, keepdim=False)
        model.op(op, x, dim=of, keepdim=True)
    for rank in range(9):
        shape = [2, 1, 3, 1, 2, 1, 1, 2][:rank]
        model.op(op, randn(*shape), dim=-1 if single else [-1], keepdim=rank % 2 == 0)
    model.op(op, randn(0, 3), dim=1, keepdim=False)
    model.op(op, randn(2, 0, 3), dim=-1, keepdim=True)


def without_elements(model: Model, op: str, dtypes: list[torch.dtype], **params) -> None:
    for dtype in dtypes:
        model.op(op, torch.zeros(0, dtype=dtype), **params)
    model.op(op, torch.zeros(2, 0), dim=[1], keepdim=False, **params)
    model.op(op, torch.zeros(2, 0, 3), dim=[1], keepdim=True, **params)
    model.op(op, torch.zeros(2, 0, 3), dim=[0], keepdim=False, **params)


@direct
def torch_sum(model: Model) -> None:
    of_all_types(model, "torch.sum", ALL, {}, {"dim": [1], "keepdim": True})
    of_all_axes(model, "torch.sum")


@direct
def torch_sum_odd(model: Model) -> None:
    without_elements(model, "torch.sum", [torch.float32, torch.int32, torch.bool, torch.complex64])
    model.op("torch.sum", torch.tensor(ODD), dim=[1], keepdim=False)
    # Integers are summed in i64, or wrap in the type that is asked for.
    model.op("torch.sum", torch.full((4,), 2**31 - 1, dtype=torch.int32))
    model.op("torch.sum", torch.full((3,), 2**62))
    model.op("torch.sum", torch.full((4,), 100, dtype=torch.int8), dtype=torch.int8)
    model.op("torch.sum", torch.full((4,), 200, dtype=torch.uint8), dtype=torch.int32)
    model.op("torch.sum", random_bools(9))
    model.op("torch.sum", random_bools(9), dtype=torch.bool)
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.complex64):
        model.op("torch.sum", rand(5, high=9.0), dtype=dtype)
        model.op("torch.sum", random_integers(2, 5), dim=[1], keepdim=False, dtype=dtype)
    # Too large for half precision on the way, but not in the end.
    model.op("torch.sum", torch.tensor([60000.0, 60000.0, -60000.0], dtype=torch.float16))
    model.op("torch.sum", torch.full((5000,), 1.0, dtype=torch.bfloat16)[::5].contiguous())
    model.op("torch.sum", torch.tensor(2.5), dim=[0], keepdim=True)
    model.op("torch.sum", torch.tensor(2.5), dim=[], keepdim=False)


@direct
def torch_mean(model: Model) -> None:
    of_all_types(model, "torch.mean", FLOATS + COMPLEX, {}, {"dim": [-1], "keepdim": True})
    of_all_axes(model, "torch.mean")
    without_elements(model, "torch.mean", [torch.float32, torch.complex64])
    model.op("torch.mean", torch.tensor(ODD), dim=[1], keepdim=False)
    for dtype in (torch.float32, torch.float64, torch.float16):
        model.op("torch.mean", random_integers(2, 5), dim=[1], keepdim=False, dtype=dtype)
        model.op("torch.mean", random_bools(5), dtype=dtype)
    model.op("torch.mean", torch.full((4,), 60000.0, dtype=torch.float16))


@direct
def torch_prod(model: Model) -> None:
    halves = [torch.float16, torch.bfloat16]
    of_all_types(model, "torch.prod", [dtype for dtype in ALL if dtype not in halves], {}, {"dim": 1, "keepdim": True})
    for dtype in halves:
        # PyTorch itself rounds after every factor.
        model.op("torch.prod", values_of(dtype, 2, 3), f=lambda x: x.double().prod(1).to(dtype), dim=1, keepdim=False)
    of_all_axes(model, "torch.prod", single=True)
    for dtype in (torch.float32, torch.int32, torch.bool, torch.complex64):
        model.op("torch.prod", torch.zeros(0, dtype=dtype))
    model.op("torch.prod", torch.zeros(2, 0), dim=1, keepdim=False)
    model.op("torch.prod", torch.tensor(ODD), dim=1, keepdim=False)
    model.op("torch.prod", torch.full((70,), 2))
    model.op("torch.prod", torch.full((4,), 100, dtype=torch.int8))
    for dtype in (torch.float64, torch.int32, torch.complex64, torch.bool):
        model.op("torch.prod", random_integers(3, 2, low=1), dim=0, keepdim=False, dtype=dtype)


@direct
def torch_amax(model: Model) -> None:
    of_all_types(model, "torch.amax", ORDERED, {"dim": [1]})
    model.op("torch.amax", randn(2, 3), dim=[])
    of_all_axes(model, "torch.amax")
    model.op("torch.amax", torch.tensor(ODD), dim=[1], keepdim=False)
    model.op("torch.amax", torch.tensor(ODD, dtype=torch.float16), dim=[1], keepdim=False)
    model.op("torch.amax", torch.tensor([-2**63, 2**63 - 1, 2**63 - 2]), dim=[0])


@direct
def torch_amin(model: Model) -> None:
    of_all_types(model, "torch.amin", ORDERED, {"dim": [1]})
    model.op("torch.amin", randn(2, 3), dim=[])
    of_all_axes(model, "torch.amin")
    model.op("torch.amin", torch.tensor(ODD), dim=[1], keepdim=False)
    model.op("torch.amin", torch.tensor(ODD, dtype=torch.float16), dim=[1], keepdim=False)
    model.op("torch.amin", torch.tensor([-2**63, 2**63 - 1, 2**63 - 2]), dim=[0])


def extremes(model: Model, op: str) -> None:
    of_all_types(model, op, ORDERED, {"dim": 1, "keepdim": False})
    of_all_types(model, op, [torch.float32, torch.int32, torch.bool])
    of_all_axes(model, op, single=True)
    # The first of equal ones; NaN wins, and the first NaN of several.
    ties = torch.tensor([[1.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0], [NAN, 5.0, NAN, INF], [0.0, -0.0, 0.0, -0.0]])
    model.op(op, ties, dim=1, keepdim=True)
    model.op(op, ties.half(), dim=1, keepdim=False)
    model.op(op, ties)
    model.op(op, torch.tensor(ODD), dim=0, keepdim=False)
    model.op(op, torch.tensor([-2**63, 2**63 - 1, 2**63 - 2]), dim=0, keepdim=False)
    model.op(op, torch.tensor(2.5))


@direct
def torch_max(model: Model) -> None:
    extremes(model, "torch.max")


@direct
def torch_min(model: Model) -> None:
    extremes(model, "torch.min")


def places(model: Model, op: str) -> None:
    of_all_types(model, op, ORDERED[:-1], {"dim": None, "keepdim": False}, {"dim": 0, "keepdim": True})
    of_all_axes(model, op, single=True)
    ties = torch.tensor([[1.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0], [NAN, 5.0, NAN, INF], [0.0, -0.0, 0.0, -0.0]])
    model.op(op, ties, dim=1, keepdim=False)
    model.op(op, ties.double(), dim=-1, keepdim=True)
    model.op(op, ties, dim=None, keepdim=False)
    model.op(op, ties, dim=None, keepdim=True)
    model.op(op, ties[:2].contiguous())
    model.op(op, torch.tensor(2.5), dim=0, keepdim=False)


@direct
def torch_argmax(model: Model) -> None:
    places(model, "torch.argmax")


@direct
def torch_argmin(model: Model) -> None:
    places(model, "torch.argmin")


def quantifiers(model: Model, op: str) -> None:
    for dtype in ALL:
        model.op(op, torch.tensor([[0, 1], [1, 1], [0, 0]]).to(dtype), dim=[1], keepdim=True)
    of_all_axes(model, op)
    without_elements(model, op, [torch.float32, torch.uint8, torch.bool, torch.complex64])
    model.op(op, torch.tensor([[NAN, 0.0], [0.0, -0.0], [1e-45, NAN], [256.0, 1.0]]), dim=[1], keepdim=False)
    model.op(op, torch.tensor([[256, 512], [0, 2**32]]), dim=[1], keepdim=False)
    model.op(op, torch.tensor([0j, 1j]), dim=[0], keepdim=False)


@direct
def torch_any(model: Model) -> None:
    quantifiers(model, "torch.any")


@direct
def torch_all(model: Model) -> None:
    quantifiers(model, "torch.all")


def spread(model: Model, op: str) -> None:
    of_all_types(model, op, FLOATS + COMPLEX, {}, {"dim": [-1], "keepdim": True})
    x = randn(2, 3)
    for correction in (0, 1, 2, 3, 4, 0.5, 1.5):
        model.op(op, x, dim=[1], correction=correction, keepdim=False)
    for unbiased in (True, False):
        model.op(op, x, unbiased=unbiased)
        model.op(op, x, dim=[0], unbiased=unbiased, keepdim=True)
    of_all_axes(model, op)
    without_elements(model, op, [torch.float32])
    model.op(op, torch.tensor(ODD), dim=[1], keepdim=False)
    model.op(op, torch.tensor([[3.0], [4.0]]), dim=[1], keepdim=False)
    # A large mean must not swallow a small spread.
    model.op(op, torch.tensor([1e6 + 0.5, 1e6, 1e6 - 0.5]))
    model.op(op, torch.tensor([1e8 + 1, 1e8, 1e8 - 1], dtype=torch.float64), correction=0)
    model.op(op, torch.tensor([300.0, -300.0, 200.0], dtype=torch.float16))


@direct
def torch_var(model: Model) -> None:
    spread(model, "torch.var")


@direct
def torch_std(model: Model) -> None:
    spread(model, "torch.std")


@direct
def torch_logsumexp(model: Model) -> None:
    of_all_types(model, "torch.logsumexp", ALL, {"dim": [1], "keepdim": False})
    of_all_axes(model, "torch.logsumexp")
    model.op("torch.logsumexp", torch.tensor(ODD + [[-INF, -INF, -INF], [1000.0, 1000.0, 0.0], [-1000.0, -1001.0, -INF]]), dim=[1])
    model.op("torch.logsumexp", torch.zeros(2, 0), dim=[1], keepdim=False)
    model.op("torch.logsumexp", torch.zeros(0), dim=[0], keepdim=True)
    model.op("torch.logsumexp", torch.tensor(2.5), dim=[0], keepdim=False)


@direct
def torch_norm(model: Model) -> None:
    x = randn(3, 4)
    for p in (2, 1, 0, 3, 0.5, -1, -2.5, INF, -INF, "fro"):
        model.op("torch.norm", x, p=p)
        model.op("torch.norm", x, dim=[1], keepdim=False, p=p)
        model.op("torch.norm", x, dim=[0, 1], keepdim=True, p=p)
    for dim in (None, 0, -1, [0], [1, 0], [-2]):
        model.op("torch.norm", x, dim=dim, keepdim=True, p=2)
    model.op("torch.norm", x)
    of_all_types(model, "torch.norm", [torch.float64, torch.float16, torch.bfloat16, *COMPLEX],
                 *[{"dim": [1], "keepdim": False, "p": p} for p in (2, 0, INF, 3)])


@direct
def torch_norm_odd(model: Model) -> None:
    for p in (2, 1, 0, 3, INF, -INF):
        model.op("torch.norm", torch.tensor(ODD), dim=[1], keepdim=False, p=p)
    for p in (2, 1, 0, 3):
        model.op("torch.norm", torch.zeros(0), p=p)
        model.op("torch.norm", torch.zeros(2, 0), dim=[1], keepdim=True, p=p)
    for dtype in (torch.float64, torch.float16):
        model.op("torch.norm", randn(2, 3), p=2, dim=[1], keepdim=False, dtype=torch.float64)
    model.op("torch.norm", randn(3).half(), p=2, dim=None, keepdim=False, dtype=torch.float32)
    # Squares that overflow half precision, but not the norm.
    model.op("torch.norm", torch.tensor([300.0, 400.0], dtype=torch.float16), p=2)
    model.op("torch.norm", torch.tensor(-2.5), p=2)
    for rank in range(9):
        model.op("torch.norm", randn(*[2, 1, 3, 1, 2, 1, 1, 2][:rank]), p=1)


@direct
def torch_topk(model: Model) -> None:
    for dtype in ORDERED[:-1]:
        x = torch.randperm(12).reshape(2, 6).to(dtype)
        for largest in (True, False):
            model.op("torch.topk", x, k=3, dim=-1, largest=largest, sorted=True)
    x = torch.randperm(24).reshape(2, 3, 4).float()
    for dim in (0, 1, 2, -1, -3):
        for k in (0, 1, 2):
            model.op("torch.topk", x, k=k, dim=dim, largest=True, sorted=True)
    model.op("torch.topk", x, k=4)
    # NaN counts as the largest.
    odd = torch.tensor([3.0, NAN, INF, -INF, 1.0])
    for k in (2, 5):
        for largest in (True, False):
            model.op("torch.topk", odd, k=k, dim=0, largest=largest, sorted=True)
    model.op("torch.topk", torch.tensor(3.0), k=1, dim=0, largest=True, sorted=True)
    model.op("torch.topk", torch.zeros(0, 3), k=2, dim=1, largest=True, sorted=True)
    model.op("torch.topk", torch.zeros(2, 0), k=0, dim=1, largest=False, sorted=True)
    model.op("torch.topk", torch.randperm(12).reshape(1, 2, 1, 2, 1, 1, 1, 3).double(), k=2)


def reductions_of(functions: list[Callable[[Tensor], Tensor]], *shapes: tuple[int, ...]) -> Export:
    """A model with all these reductions of one input."""
    class Net(nn.Module):
        def forward(self, x):
            return tuple(function(x) for function in functions)
    first, *others = [(randn(*shape),) for shape in shapes]
    return Export(Net(), *first, others=others)


@exported
def sums_of_a_network() -> Export:
    return reductions_of([
        lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum(-1, keepdim=True), lambda x: x.sum((0, 2)),
        lambda x: torch.sum(x, dim=(1, 2), keepdim=True), lambda x: x.mean(), lambda x: x.mean(1),
        lambda x: x.mean((-1, -2), keepdim=True), lambda x: x.prod(0), lambda x: x.prod(-1, keepdim=True),
        lambda x: x.prod(), lambda x: x.sum(2, dtype=torch.float64), lambda x: (x > 0).sum(1), lambda x: (x > 0).float().mean(),
        lambda x: x.mean(0, dtype=torch.float64), lambda x: x.logsumexp(1), lambda x: x.logsumexp((0, 2), keepdim=True),
    ], (2, 3, 4), (1, 5, 2), (3, 1, 6))


@exported
def spreads_of_a_network() -> Export:
    return reductions_of([
        lambda x: x.var(), lambda x: x.var(1), lambda x: x.var(1, unbiased=False), lambda x: x.var((0, 2), keepdim=True),
        lambda x: torch.var(x, dim=-1, correction=0), lambda x: x.std(), lambda x: x.std(0),
        lambda x: x.std(-1, unbiased=False, keepdim=True), lambda x: torch.std(x, dim=(1, 2), correction=2),
        lambda x: x.std(unbiased=False),
    ], (2, 3, 4), (3, 5, 2), (4, 2, 6))


@exported
def norms_of_a_network() -> Export:
    return reductions_of([
        lambda x: x.norm(), lambda x: x.norm(p=1), lambda x: x.norm(dim=1), lambda x: x.norm(p=1, dim=-1, keepdim=True),
        lambda x: torch.norm(x, p=3, dim=(0, 2)), lambda x: torch.norm(x, p="fro", dim=(1, 2)),
        lambda x: torch.norm(x, p=float("inf"), dim=1), lambda x: x.norm(p=0, dim=1), lambda x: x.norm(p=-float("inf"), dim=2),
        lambda x: torch.norm(x, dim=2, dtype=torch.float64), lambda x: torch.norm(x, p=0.5),
    ], (2, 3, 4), (3, 5, 2), (1, 2, 6))


@exported
def extremes_of_a_network() -> Export:
    return reductions_of([
        lambda x: x.max(), lambda x: x.min(), lambda x: x.max(1)[0], lambda x: x.max(1)[1], lambda x: x.min(-1, keepdim=True),
        lambda x: x.amax(0), lambda x: x.amin((1, 2), keepdim=True), lambda x: x.amax((0, -1)), lambda x: x.amax(),
        lambda x: x.argmax(), lambda x: x.argmax(1), lambda x: x.argmin(-1, keepdim=True), lambda x: x.argmin(),
        lambda x: x.topk(2), lambda x: x.topk(1, dim=1, largest=False), lambda x: x.topk(2, dim=-1)[1],
        lambda x: (x > 0).any(), lambda x: (x > 0).all(1), lambda x: (x > 0).any(-1, keepdim=True), lambda x: x.bool().all(),
    ], (2, 3, 4), (1, 5, 2), (3, 1, 6))
